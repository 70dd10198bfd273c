"""`watchword train`: from a recipe, or on own videos and captions."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.bundle import CaptionerBundle
    from watchword.config import Recipe
    from watchword.training import Run
    from watchword.types import Clip


def train(
    recipe: Annotated[
        str | None, typer.Argument(help="A recipe by name (shapes, msvd/soft_attention; see --list), or a file.")
    ] = None,
    words: Annotated[list[str] | None, typer.Argument(help="key=value words over it: model.hidden_size=256")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The run folder; default: runs/RECIPE.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    videos: Annotated[Path | None, typer.Option(help="Own data: the folder of your videos, and ...")] = None,
    captions: Annotated[Path | None, typer.Option(help="... their captions: a table video,caption.")] = None,
    init_from: Annotated[
        str | None, typer.Option(help="Own data: the captioner to fine-tune; none: train from scratch.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Own data: the maximum number of epochs.")] = 20,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes that come with Watchword.")] = False,
) -> None:
    """Train a captioner from a recipe, or on your own videos.

    watchword train shapes

    watchword train msvd/soft_attention model.hidden_size=256

    watchword train --videos videos/ --captions captions.csv

    Several processes or GPUs: accelerate launch -m watchword train RECIPE ...
    """
    if videos is not None or captions is not None:
        if videos is None or captions is None or recipe is not None or resume is not None:
            raise WatchwordError("own data needs two options: watchword train --videos videos/ --captions captions.csv")
        return train_own_data(videos, captions, output or Path("runs") / "own", init_from, epochs)

    from watchword.config import find_recipe, read_recipe, recipe_name

    if list_recipes:
        return print_recipes()
    if (recipe is None) == (resume is None):
        raise WatchwordError("name a recipe, as in watchword train shapes, or --resume RUN, or --videos and --captions")
    path = find_recipe(recipe or "")
    settings = read_recipe(path, words or ()) if recipe else None  # a mistake in it is reported before torch is loaded

    from watchword.cli._progress import console, training_bar
    from watchword.training import loop

    folder = resume or output or Path("runs") / recipe_name(path)
    with training_bar() as report:
        run = loop.train(settings, folder, report) if settings else loop.resume(folder, report)
    console.print(f"best weights in {run.folder}; next: watchword evaluate {run.folder} --split test")


def print_recipes() -> None:
    from watchword.config import read_recipe, shipped_recipes

    recipes = {name: read_recipe(path).about for name, path in shipped_recipes().items()}
    for name, about in recipes.items():
        typer.echo(f"{name:{max(map(len, recipes))}}  {about}")


def train_own_data(videos: Path, captions: Path, output: Path, init_from: str | None, epochs: int) -> None:
    """Extract, split, fine-tune, evaluate."""
    from watchword.cli._progress import console
    from watchword.cli.score import evaluate

    begin = None if init_from == "none" else starting_captioner(init_from)
    run = train_own(OwnData(videos, captions, output, begin, epochs))
    split = "test" if run.training_data["splits"].get("test") else "val"
    evaluate([run.folder], split=split)
    console.print(f"try it: watchword describe clip.mp4 --model {run.folder}")


def starting_captioner(name: str | None) -> "CaptionerBundle":
    """The one that is named, else the one that `watchword describe` uses; its backbone is downloaded."""
    from watchword.captioning.bundle import choose_bundle, find_bundle
    from watchword.cli._progress import console, download_bar

    with download_bar() as report:
        bundle, hint = (find_bundle(name), "") if name else choose_bundle(report)
    if hint:
        console.print(f"watchword: {hint}", soft_wrap=True, markup=False)
    console.print(f"starting from the captioner {bundle.name}")
    return bundle


# --- own videos and captions -----------------------------------------------------------------------------------------


VIDEOS_PER_WORKER = 16  # fewer are not worth a process
FEW_CAPTIONS = 3000  # training captions: with fewer, words that occur once are kept
FROM_SCRATCH = {"name": "soft_attention", "hidden_size": 256, "embedding_size": 200, "attention_size": 128}


@dataclass(frozen=True)
class OwnData:
    """The arguments of the command."""

    videos: Path
    captions: Path
    output: Path
    start: "CaptionerBundle | None"  # None: train from scratch
    epochs: int

    @property
    def store(self) -> Path:
        return self.output / "features"


def train_own(data: OwnData) -> "Run":
    """Every step can be interrupted: the same command continues."""
    from watchword.atomic_io import check_outputs
    from watchword.cli._progress import training_bar
    from watchword.config import Recipe
    from watchword.training import Run, loop

    if (data.output / "recipe.toml").exists():
        with training_bar() as report:
            return loop.resume(data.output, report)
    check_outputs([data.output / "captions.jsonl"], [data.captions])
    clips = with_videos(data)
    clips = extract_videos(data, clips)
    if not {"train", "val"} <= {clip.split for clip in clips}:
        raise WatchwordError(
            f"{data.captions}: {len(clips)} readable videos are too few to train and validate: add more"
        )
    write_captions(data.output / "captions.jsonl", clips)
    recipe = Recipe.read(own_recipe(data, clips), str(data.captions))
    with training_bar() as report:
        loop.train(recipe, data.output, report)
    return Run(data.output)


def with_videos(data: OwnData) -> "list[Clip]":
    """The clips whose videos are in the folder."""
    from watchword.data.annotations import read_annotations
    from watchword.data.reading import videos_in

    if not data.videos.is_dir():
        raise WatchwordError(f"--videos {data.videos} is no folder: name the folder of the videos")
    files = videos_in(data.videos)
    clips = read_annotations(data.captions)
    found = [replace(clip, path=files[clip.video][0]) for clip in clips if clip.video in files]
    if not found:
        raise WatchwordError(
            f"none of the {len(clips)} videos of {data.captions} is in {data.videos}: {clips[0].video!r} should be "
            f"{data.videos / clips[0].video}.mp4 or the like"
        )
    missing = len(clips) - len(found)
    _report(f"{missing} of {len(clips)} videos have no file in {data.videos}", missing)
    return found


def extract_videos(data: OwnData, clips: "list[Clip]") -> "list[Clip]":
    """Extracts the captioner's streams into the run's own store; unreadable videos are left out."""
    from watchword.captioning.bundle import stream_specs
    from watchword.cli._progress import bar, console
    from watchword.features.extraction import Job, VideoFile, extract_local, prepare
    from watchword.workers import cores

    job = Job(data.store, stream_specs(data.start)) if data.start else prepare(data.store, ["appearance"])
    videos = [VideoFile(clip.video, clip.path) for clip in clips if clip.path]
    waiting = [video for video in videos if job.missing(video.video)]
    bad: dict[str, str] = {}
    with bar(transient=True) as progress:
        task = progress.add_task("extracting features", total=len(waiting))
        workers = min(cores(), max(1, len(waiting) // VIDEOS_PER_WORKER))
        for outcome in extract_local(job, waiting, workers):
            if outcome.is_disk_full:
                raise WatchwordError(outcome.problem)
            if outcome.problem:
                bad[outcome.video.video] = outcome.problem
                console.print(f"watchword: {outcome.problem}", soft_wrap=True, markup=False)
            progress.advance(task)
    _report(f"{len(bad)} videos are left out", len(bad))
    return [clip for clip in clips if clip.video not in bad]


def _report(line: str, count: int) -> None:
    from watchword.cli._progress import console

    if count:
        console.print(f"watchword: {line}", soft_wrap=True, markup=False)


def write_captions(path: Path, clips: "list[Clip]") -> None:
    """As `captions.jsonl`: the split stays fixed, whatever is added to the table later."""
    from watchword.atomic_io import write_whole

    rows = [{"video": clip.video, "split": clip.split, "captions": clip.captions} for clip in clips]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _search_settings(known: "Recipe | None") -> dict[str, Any]:
    """The search settings of the captioner that is fine-tuned."""
    return known.selection.model_dump(include={"length_power", "mbr_samples"}) if known else {}


def own_recipe(data: OwnData, clips: "list[Clip]") -> dict[str, Any]:
    """Fine-tuning with a small learning rate, or a training from scratch."""
    from watchword.captioning.export import extend_vocabulary

    train = [clip for clip in clips if clip.split == "train"]
    num_captions = sum(len(clip.captions) for clip in train)
    min_count = 1 if num_captions < FEW_CAPTIONS else 2
    known = data.start.recipe if data.start else None
    start = extend_vocabulary(data.start, train, min_count, data.output / "start") if data.start else None
    batch = max(4, min(32, len(train) // 8))
    return {
        "about": f"{data.captions.name}, {len(train)} videos" + (f", from {data.start.name}" if data.start else ""),
        "data": {
            "captions": data.output / "captions.jsonl",
            "store": data.store,
            "min_count": min_count,
            "streams": known.data.streams if known else ("appearance",),
            "max_time_steps": known.data.max_time_steps if known else None,
            "max_words": known.data.max_words if known else 20,
            "frame_keep_rate": known.data.frame_keep_rate if known else 1.0,
            "videos_per_batch": batch,
            "captions_per_video": 4,
        },
        "model": known.model if known else FROM_SCRATCH,
        "init_from": start,
        "phases": [
            {
                "epochs": data.epochs,
                "learning_rate": 5e-4 if known else 1e-3,
                "patience": 5,
                "schedule": {"decay": 0.5, "decay_every": max(1, data.epochs // 3)},
            }
        ],
        "selection": {"by": "val_loss", "beam": 3, **_search_settings(known)},
    }
