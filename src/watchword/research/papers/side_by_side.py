"""`watchword research side-by-side`: frames of videos with the captions of several runs and of people (G2L, Fig. 5)."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Json, Videos
from watchword.errors import WatchwordError, unknown
from watchword.research.charts import save_picture

if TYPE_CHECKING:
    from PIL.Image import Image

    from watchword.types import Frames

FRAMES, PIXELS = 5, 150  # of a video
GAP, LINE, NAME = 8, 24, 130  # pixels
PEOPLE = "a person"


@dataclass(frozen=True)
class Compared:
    """A video with what each run says of it, and what people say."""

    video: str
    captions: dict[str, str]  # by the name of the run
    references: tuple[str, ...]


def side_by_side(
    runs: Annotated[list[Path], typer.Argument(help="Runs that were evaluated on the split, the baseline first.")],
    split: Annotated[str, typer.Option(help="The split of the videos.")] = "test",
    video: Annotated[list[str] | None, typer.Option(help="The id of a video; repeatable; default: drawn.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of videos to draw at random.")] = 6,
    seed: Annotated[int, typer.Option(help="The same seed draws the same videos.")] = 0,
    references: Annotated[int, typer.Option(min=1, help="Captions of people to show of each video.")] = 2,
    videos: Videos = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure, .png or .jpg.")] = Path(
        "side-by-side.png"
    ),
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a table of the captions; draw nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Draw frames of videos with the captions of several runs, and of people, below them.

    Videos are drawn at random among those of which the runs do not all say the same: nobody chooses the good ones.

    watchword research side-by-side runs/global runs/local --videos clips --output captions.png
    """
    from watchword.atomic_io import check_outputs
    from watchword.data.annotations import video_path
    from watchword.data.benchmarks import captions_path, read_clips
    from watchword.metrics.files import read_hypotheses
    from watchword.training.run import Run
    from watchword.video import ShortSide, Uniform, read_frames

    data = Run(runs[0]).recipe.data
    clips = {clip.video: clip for clip in read_clips(data).split(split)}
    said = {folder.name: read_hypotheses(folder / f"predictions-{split}.json") for folder in runs}
    if len(said) < len(runs):
        raise WatchwordError("two runs have the same name: their captions could not be told apart")
    people = {name: clip.captions for name, clip in clips.items()}
    found = [compare(name, said, people, references) for name in choose(said, people, video or [], count, seed)]
    if as_json:
        print(json.dumps([asdict(one) for one in found]))
        return
    if markdown:
        print(table_of(found))
        return
    files = [video_path(one.video, captions_path(data), videos) for one in found]
    check_outputs([output], files)
    pictures = [read_frames(file, Uniform(FRAMES), ShortSide(PIXELS)) for file in files]
    save_picture(draw(found, pictures), output)
    typer.echo(f"{output}  {', '.join(one.video for one in found)}")


def choose(
    said: Mapping[str, Mapping[str, str]],
    people: Mapping[str, Sequence[str]],
    wanted: Sequence[str],
    count: int,
    seed: int,
) -> list[str]:
    """The videos that are asked for, or some at random of which not all runs say the same."""
    there = [name for name in people if all(name in captions for captions in said.values())]
    for name in wanted:
        if name not in there:
            raise unknown("video with captions of all runs", name, there)
    if wanted:
        return list(wanted)
    differ = [name for name in there if len(said) < 2 or len({captions[name] for captions in said.values()}) > 1]
    if not differ:
        raise WatchwordError("the runs say the same of every video: name one with --video")
    return random.Random(seed).sample(differ, min(count, len(differ)))


def compare(
    video: str, said: Mapping[str, Mapping[str, str]], people: Mapping[str, Sequence[str]], references: int
) -> Compared:
    return Compared(video, {run: captions[video] for run, captions in said.items()}, tuple(people[video][:references]))


def table_of(found: Sequence[Compared]) -> str:
    """In Markdown, a row for each video."""
    rows = [["video", *found[0].captions, PEOPLE], ["---"] * (len(found[0].captions) + 2)]
    rows += [[one.video, *one.captions.values(), "; ".join(one.references)] for one in found]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw(found: Sequence[Compared], pictures: "Sequence[Frames]") -> "Image":
    """One video below the other: its frames, then a line for each run and each person."""
    from PIL import Image, ImageDraw, ImageFont

    from watchword.explain.overlay import ACCENT, FAINT, INK, PAPER

    heights = [frames.pictures.shape[1] for frames in pictures]
    widths = [len(frames.pictures) * (frames.pictures.shape[2] + GAP) for frames in pictures]
    lines = [len(one.captions) + len(one.references) for one in found]
    tall = sum(height + LINE * number + 3 * GAP for height, number in zip(heights, lines, strict=True))
    sheet = Image.new("RGB", (GAP + max(*widths, 800), GAP + tall), PAPER)
    pen, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(12)
    top = GAP
    for one, frames, height in zip(found, pictures, heights, strict=True):
        for column, picture in enumerate(frames.pictures):
            sheet.paste(Image.fromarray(picture), (GAP + column * (picture.shape[1] + GAP), top))
        top += height + GAP
        rows = [(name, text, ACCENT) for name, text in one.captions.items()]
        rows += [(PEOPLE, text, INK) for text in one.references]
        for name, text, colour in rows:
            pen.text((GAP, top + 4), name[:18], font=small, fill=FAINT)
            pen.text((GAP + NAME, top), text, font=font, fill=colour)
            top += LINE
        top += 2 * GAP
    return sheet
