"""Films and captions of a person's own, in one command: extract, split, fine-tune, evaluate."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.bundle import CaptionerFolder
    from watchword.config import Recipe
    from watchword.training import Run
    from watchword.types import Clip

FILMS_A_WORKER = 16   # fewer are not worth the start of a process
FEW_CAPTIONS = 3000   # of training: below, every word is learned that was said once
WITHOUT_CAPTIONER = {"name": "soft_attention", "hidden_size": 256, "embedding_size": 200, "attention_size": 128}


@dataclass(frozen=True)
class OwnData:
    """What the one command was given."""

    videos: Path
    captions: Path
    output: Path
    start: "CaptionerFolder | None"    # None: nothing to begin with, everything is learned from these films
    epochs: int

    @property
    def store(self) -> Path:
        return self.output / "features"


def train_own(data: OwnData) -> "Run":
    """Every step can be cut off: the same command goes on."""
    from watchword.cli._progress import training_bar
    from watchword.config import Recipe
    from watchword.training import Run, loop

    if (data.output / "recipe.toml").exists():
        with training_bar() as report:
            return loop.resume(data.output, report)
    clips = with_videos(data)
    clips = extract_films(data, clips)
    if not {"train", "val"} <= {clip.split for clip in clips}:
        raise WatchwordError(
            f"{data.captions}: {len(clips)} films that can be read are too few to learn from and to check: give more"
        )
    write_captions(data.output / "captions.jsonl", clips)
    recipe = Recipe.read(own_recipe(data, clips), str(data.captions))
    with training_bar() as report:
        loop.train(recipe, data.output, report)
    return Run(data.output)


def with_videos(data: OwnData) -> "list[Clip]":
    """The captions' videos, each with its film in the folder."""
    from watchword.data.annotations import read_annotations
    from watchword.data.reading import videos_in

    if not data.videos.is_dir():
        raise WatchwordError(f"--videos {data.videos} is no folder: name the one that holds the films")
    films = videos_in(data.videos)
    clips = read_annotations(data.captions)
    found = [replace(clip, path=films[clip.video][0]) for clip in clips if clip.video in films]
    if not found:
        raise WatchwordError(
            f"none of the {len(clips)} videos of {data.captions} is in {data.videos}: {clips[0].video!r} should be "
            f"{data.videos / clips[0].video}.mp4 or the like"
        )
    missing = len(clips) - len(found)
    _tell_missing(f"{missing} of {len(clips)} videos have no film in {data.videos}", missing)
    return found


def extract_films(data: OwnData, clips: "list[Clip]") -> "list[Clip]":
    """The streams that the captioner reads, into the run's own store; films that cannot be read are left out."""
    from watchword.captioning.requirements import looks_of
    from watchword.cli._progress import bar, console
    from watchword.features.executors import cores, extract_local
    from watchword.features.extraction import Job, VideoFile, prepare

    job = Job(data.store, looks_of(data.start)) if data.start else prepare(data.store, ["appearance"])
    films = [VideoFile(clip.video, clip.path) for clip in clips if clip.path]
    waiting = [film for film in films if job.missing(film.video)]
    bad: dict[str, str] = {}
    with bar(transient=True) as progress:
        task = progress.add_task("looking at the films", total=len(waiting))
        workers = min(cores(), max(1, len(waiting) // FILMS_A_WORKER))
        for outcome in extract_local(job, waiting, workers):
            if outcome.problem:
                bad[outcome.video.video] = outcome.problem
                console.print(f"watchword: {outcome.problem}", soft_wrap=True, markup=False)
            progress.advance(task)
    _tell_missing(f"{len(bad)} films are left out", len(bad))
    return [clip for clip in clips if clip.video not in bad]


def _tell_missing(line: str, count: int) -> None:
    from watchword.cli._progress import console

    if count:
        console.print(f"watchword: {line}", soft_wrap=True, markup=False)


def write_captions(path: Path, clips: "list[Clip]") -> None:
    """As `captions.jsonl`: the split is settled from now on, whatever is added to the table later."""
    from watchword.atomic_io import write_whole

    rows = [{"video": clip.video, "split": clip.split, "captions": clip.captions} for clip in clips]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def _speech(known: "Recipe | None") -> dict[str, Any]:
    """How the captioner that is begun with looks for its sentences."""
    return known.selection.model_dump(include={"length_power", "mbr_samples"}) if known else {}


def own_recipe(data: OwnData, clips: "list[Clip]") -> dict[str, Any]:
    """Gentle steps from a captioner that knows much, or a whole training where there is none."""
    from watchword.captioning.extend import grow

    train = [clip for clip in clips if clip.split == "train"]
    num_captions = sum(len(clip.captions) for clip in train)
    min_count = 1 if num_captions < FEW_CAPTIONS else 2
    known = data.start.recipe if data.start else None
    start = grow(data.start, train, min_count, data.output / "start") if data.start else None
    batch = max(4, min(32, len(train) // 8))
    return {
        "about": f"{data.captions.name}, {len(train)} films" + (f", from {data.start.name}" if data.start else ""),
        "data": {
            "captions": data.output / "captions.jsonl", "store": data.store, "min_count": min_count,
            "streams": known.data.streams if known else ("appearance",),
            "max_time_steps": known.data.max_time_steps if known else None,
            "max_words": known.data.max_words if known else 20,
            "frame_keep_rate": known.data.frame_keep_rate if known else 1.0,
            "videos_per_batch": batch, "captions_per_video": 4,
        },
        "model": known.model if known else WITHOUT_CAPTIONER,
        "init_from": start,
        "phases": [{
            "epochs": data.epochs, "learning_rate": 5e-4 if known else 1e-3, "patience": 5,
            "schedule": {"decay": 0.5, "decay_every": max(1, data.epochs // 3)},
        }],
        "selection": {"by": "val_loss", "beam": 3, **_speech(known)},
    }  # fmt: skip
