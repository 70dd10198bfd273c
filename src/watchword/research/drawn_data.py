"""`watchword research shapes` and `watchword research demo`: draw a data set of videos, train on it in a minute."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.atomic_io import path_of, whole_file, write_whole
from watchword.research.charts import save_picture

if TYPE_CHECKING:
    from PIL.Image import Image

    from watchword.research.shapes import DrawnVideo

SHEET_VIDEOS = 10


def shapes(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of the data set; created if missing.")],
    count: Annotated[int, typer.Option(help="Number of videos; of ten, seven train, one validates, two test.")] = 500,
    seed: Annotated[int, typer.Option(help="Random seed: the same seed draws the same videos.")] = 0,
    frames: Annotated[int, typer.Option(help="Frames of a video, eight a second.")] = 16,
    size: Annotated[int, typer.Option(help="Pixels of a side, a multiple of 16.")] = 64,
    distractors: Annotated[int, typer.Option(help="Objects that are in no caption.")] = 2,
    event: Annotated[str, typer.Option(help="anywhere: a part of the video; whole: all of it.")] = "anywhere",
    longest_event: Annotated[float, typer.Option(help="Largest share of the video that an event takes.")] = 2 / 3,
    outside: Annotated[str, typer.Option(help="The subject outside its event: rest or hidden.")] = "rest",
    actions: Annotated[str, typer.Option(help="Only these, such as moves,appears,vanishes.")] = "",
    streams: Annotated[
        str,
        typer.Option(
            help="Of appearance, appearance_grid, regions, motion, scene, movement, moving_regions, layer1 "
            "to layer3; or all."
        ),
    ] = "appearance,regions,motion",
    regions_every: Annotated[int, typer.Option(min=1, help="Regions of one of so many frames, the middle one.")] = 1,
    write_videos: Annotated[
        bool, typer.Option("--write-videos", help="Also write videos/*.mp4 and captions.csv.")
    ] = False,
    sheet: Annotated[Path | None, typer.Option(help="A picture (.png) of the first videos.")] = None,
) -> None:
    """Draw videos of coloured shapes, with captions, features and the truth about them.

    watchword research shapes data/shapes --count 500

    watchword research shapes data/order --actions moves,appears,vanishes --streams appearance_grid --sheet order.png
    """
    from watchword.cli._progress import bar, console
    from watchword.research.shapes import STREAMS, ShapesConfig, write_shapes

    config = ShapesConfig(
        seed=seed,
        count=count,
        frames=frames,
        size=size,
        distractors=distractors,
        regions=max(8, distractors + 2),
        event=event,
        longest_event=longest_event,
        outside=outside,
        actions=tuple(word.strip() for word in actions.split(",") if word.strip()),
    )
    wanted = STREAMS if streams == "all" else tuple(word.strip() for word in streams.split(",") if word.strip())
    shown: list[DrawnVideo] = []
    rows: list[tuple[str, str, str]] = []
    with bar() as progress:
        task = progress.add_task("drawing videos", total=count)

        def each(drawn: "DrawnVideo") -> None:
            if write_videos:
                write_video(folder / "videos" / f"{drawn.video}.mp4", drawn, config.frames_per_second)
                rows.extend((f"{drawn.video}.mp4", caption, drawn.split) for caption in drawn.captions)
            if sheet and len(shown) < SHEET_VIDEOS:
                shown.append(drawn)
            progress.advance(task)

        write_shapes(folder, config, wanted, each, regions_every)
    if write_videos:
        table = io.StringIO(newline="")
        csv.writer(table).writerows([("video", "caption", "split"), *rows])
        write_whole(folder / "captions.csv", table.getvalue())
    if sheet:
        save_picture(contact_sheet(shown), sheet)
    console.print(
        f"{count} videos in {folder}" + (f", a picture of the first {len(shown)} in {sheet}" if sheet else "")
    )


def write_video(path: Path, drawn: "DrawnVideo", frames_per_second: float) -> None:
    """One video as h264 in mp4, which every player and `videos/` of a person's own folder take."""
    from fractions import Fraction

    import av

    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path, durable=False) as file:
        try:
            with av.open(str(path_of(file)), "w", format="mp4") as container:
                stream = container.add_stream("libx264", rate=Fraction(frames_per_second).limit_denominator(1000))
                stream.height, stream.width = drawn.pictures.shape[1:3]
                stream.pix_fmt = "yuv420p"
                stream.options = {"crf": "12", "preset": "veryfast"}  # small pictures: keep the textures
                for picture in drawn.pictures:
                    container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
                container.mux(stream.encode())
        except av.FFmpegError as error:
            raise OSError(error.errno, error.strerror) from error


def contact_sheet(videos: "list[DrawnVideo]", columns: int = 8, side: int = 128) -> "Image":
    """Videos as strips: a bar under the frames of the event, a box around the subject in them, two captions below."""
    import numpy as np
    from PIL import Image, ImageDraw, ImageFont

    gap, text, accent, ink = 6, 46, (230, 110, 20), (40, 40, 44)
    height = side + 12 + text
    sheet = Image.new("RGB", (gap + columns * (side + gap), gap + len(videos) * (height + gap)), (250, 249, 246))
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(13)
    for row, drawn in enumerate(videos):
        top = gap + row * (height + gap)
        start, end = drawn.truth.event
        for column, frame in enumerate(np.linspace(0, len(drawn.times) - 1, columns).round().astype(int)):
            left = gap + column * (side + gap)
            picture = Image.fromarray(drawn.pictures[frame]).resize((side, side), Image.Resampling.BICUBIC)
            sheet.paste(picture, (left, top))
            if start <= frame < end:
                draw.rectangle((left, top + side + 3, left + side - 1, top + side + 7), fill=accent)
                if drawn.truth.visible[frame, drawn.truth.subject]:
                    x0, y0, x1, y1 = drawn.truth.boxes[frame, drawn.truth.subject] * side
                    draw.rectangle((left + x0 - 2, top + y0 - 2, left + x1 + 1, top + y1 + 1), outline=accent, width=2)
        draw.text((gap + 2, top + side + 11), drawn.captions[0], font=font, fill=ink)
        others = "   ·   ".join(drawn.captions[1:3])
        draw.text((gap + 2, top + side + 34), others, font=small, fill=(120, 120, 126))
        note = f"{drawn.video}, {drawn.split}"
        draw.text((sheet.width - gap - 2, top + side + 13), note, font=small, fill=(120, 120, 126), anchor="ra")
    return sheet


# --- demo ------------------------------------------------------------------------------------------------------------


EXAMPLES = 8


def demo(
    folder: Annotated[Path, typer.Argument(help="Folder of the videos, features and the run.")] = Path(
        "watchword-demo"
    ),
    count: Annotated[int, typer.Option(min=20, help="Number of videos to draw.")] = 400,
    epochs: Annotated[int, typer.Option(min=1, help="Number of epochs.")] = 12,
) -> None:
    """Draw videos of moving shapes, train a captioner on them, and caption videos that it was not trained on.

    watchword research demo
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.cli._progress import bar, console, training_bar
    from watchword.cli._shared import score_table
    from watchword.config import Recipe
    from watchword.data.annotations import read_annotations
    from watchword.research.shapes.folder import write_shapes
    from watchword.research.shapes.videos import ShapesConfig
    from watchword.training import Run, resume, train
    from watchword.training.evaluation import Search, evaluate

    run = Run(folder / "run")
    captions = folder / "captions.jsonl"
    if not (run.folder / "recipe.toml").exists():
        with bar(transient=True) as progress:
            task = progress.add_task("drawing videos", total=count)
            config = ShapesConfig(count=count, distractors=0)
            write_shapes(folder, config, ("appearance", "motion"), lambda _: progress.advance(task))
        recipe = Recipe.read(demo_recipe(folder, epochs), "demo")
        with training_bar() as report:
            train(recipe, run.folder, report)
    elif not (run.folder / "model.safetensors").exists():  # an earlier demo was interrupted
        with training_bar() as report:
            resume(run.folder, report)
    result = evaluate([run], "test", Search(), ("BLEU", "ROUGE_L", "CIDEr"))

    captions_of = {caption.video: caption.text for caption in result.captions}
    clips = {clip.video: clip for clip in read_annotations(captions)}
    table = Table("video", "caption", "reference", title="Test videos", title_justify="left")
    for video in list(captions_of)[:EXAMPLES]:
        table.add_row(video, captions_of[video], clips[video].captions[0])
    Console().print(table)
    Console().print(score_table({f"{len(captions_of)} test videos": result.scores.corpus}, "all test videos"))
    console.print(f"Written into {folder}; next: watchword evaluate {run.folder} --split val")


def demo_recipe(folder: Path, epochs: int) -> dict[str, object]:
    return {
        "about": "Drawn videos, small",
        "data": {
            "captions": folder / "captions.jsonl",
            "store": folder / "store",
            "streams": ("appearance", "motion"),
            "min_count": 1,
            "videos_per_batch": 16,
            "captions_per_video": 6,
        },
        "model": {
            "name": "soft_attention",
            "hidden_size": 128,
            "embedding_size": 64,
            "attention_size": 64,
            "dropout": 0.3,
        },
        "phases": [{"epochs": epochs, "learning_rate": 4e-3, "schedule": {"decay": 0.5, "decay_every": epochs / 3}}],
        "selection": {"every": 3},
    }
