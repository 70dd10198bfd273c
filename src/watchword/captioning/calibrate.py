"""Fitting a captioner's confidence on videos that it was not trained on, and packing it to be given away."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from watchword.atomic_io import write_whole
from watchword.captioning.bundle import ENSEMBLE_FILE, STREAMS_FILE, CaptionerFolder, find_shipped
from watchword.captioning.confidence import Calibration, fit, out_of_fold, rank_correlation
from watchword.captioning.generation import Stretch, Thought, Voice
from watchword.config import write_toml
from watchword.data.benchmarks import read_clips
from watchword.data.dataset import Features
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex, document_frequencies, tokenise
from watchword.models.checkpoint import FIRST, read_tensors, save_shared
from watchword.types import Clip

FEWEST = 20          # videos: with fewer, a calibration is chance
AT_ONCE = 16


@dataclass(frozen=True)
class Calibrated:
    """A calibration, and how it ranks videos that were left out of fitting it."""

    calibration: Calibration
    predicted: Sequence[float]    # of each video, out of fold
    shares: Sequence[float]       # of people's captions that are no better


def calibrate(
    captioner: CaptionerFolder,
    captions: Path,
    store: Path,
    split: str = "val",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Calibrated:
    """Fits a captioner's confidence on a split whose features are in a store."""
    if split == "test":
        raise WatchwordError("calibrating on the test split makes its scores worthless; calibrate on 'val'")
    data = captioner.recipe.data.model_copy(update={"captions": captions, "store": store})
    clips = [clip for clip in read_clips(data).clips if clip.split == split and len(clip.captions) > 1]
    if len(clips) < FEWEST:
        raise WatchwordError(
            f"{captions} has {len(clips)} {split} videos with two captions or more: {FEWEST} are needed to calibrate"
        )
    thoughts = think_of(captioner, clips, Store(store), report)
    shares = people_no_better(clips, [thought.sentence.text for thought in thoughts])
    found = [thought.signs for thought in thoughts]
    predicted = out_of_fold(found, shares)
    half = np.argsort(-predicted)[: len(clips) // 2]
    about = {
        "captioner": captioner.name,
        "split": split,
        "videos": len(clips),
        "mean_share": float(np.mean(shares)),
        "mean_share_of_the_surer_half": float(np.mean(np.array(shares)[half])),
        "rank_correlation": rank_correlation(predicted.tolist(), shares),
        "meaning": "the share of people's captions, of all videos, that agree with the others' no better, by CIDEr-D",
    }
    return Calibrated(fit(found, shares, about), predicted.tolist(), shares)


def think_of(
    captioner: CaptionerFolder,
    clips: Sequence[Clip],
    store: Store,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[Thought]:
    """The best sentence for each video, as `describe` finds it."""
    voice, features = Voice.load(captioner), Features(store, captioner.recipe.data)
    thoughts: list[Thought] = []
    for start in range(0, len(clips), AT_ONCE):
        stretches = [Stretch(0.0, 0.0, features.arrays(clip.video)) for clip in clips[start : start + AT_ONCE]]
        thoughts += [found[0] for found in voice.think(stretches)]
        report(len(thoughts), len(clips))
    return thoughts


def people_no_better(clips: Sequence[Clip], sentences: Sequence[str]) -> list[float]:
    """For each sentence the share of people's captions that agree with what is said about their video no better.

    A caption is compared with the others of its video, by CIDEr-D; equals count half. All videos' captions count: where
    people agree with each other about nothing, to agree with them as little is no merit.
    """
    references = {clip.video: clip.captions for clip in clips}
    frequencies = document_frequencies(
        {video: tokenise(list(captions), "line") for video, captions in references.items()}, "all captions"
    )
    rest, people, ours = {}, {}, {}
    for clip, sentence in zip(clips, sentences, strict=True):
        for number, caption in enumerate(clip.captions):
            case = f"{clip.video}#{number}"
            rest[case] = [other for place, other in enumerate(clip.captions) if place != number]
            people[case], ours[case] = caption, sentence
    index = ReferenceIndex(rest, frequencies)
    theirs, own = (index.score(said, ["CIDEr"]) for said in (people, ours))
    ranked = np.sort(theirs.per_video["CIDEr"])
    worse, no_better = (np.searchsorted(ranked, own.per_video["CIDEr"], side) for side in ("left", "right"))
    shares = dict(zip(own.videos, (worse + no_better) / (2 * len(ranked)), strict=True))
    return [
        float(np.mean([shares[f"{clip.video}#{number}"] for number in range(len(clip.captions))])) for clip in clips
    ]


def pack(
    runs: Sequence[CaptionerFolder], folder: Path, beside: Sequence[str] = (), moments: int | None = None
) -> CaptionerFolder:
    """A run without what only training needs, weights in half precision; several runs become an ensemble.

    Each reads its own streams of all that the ensemble is given; weights that it has in common with the first are kept
    once. Words and search are the first one's. Captioners `beside` them are part of the ensemble too, but named, not
    copied: they must come with the installation. Of more `moments` than so many, it will look at so many.
    """
    first, everyone = runs[0], [*runs, *map(find_shipped, beside)]
    for run in everyone[1:]:
        if run.vocabulary.checksum != first.vocabulary.checksum:
            raise WatchwordError(f"{run.name} and {first.name} do not share a vocabulary: they cannot be one captioner")
        if moments is None and run.recipe.data.max_time_steps != first.recipe.data.max_time_steps:
            names = f"{run.name} and {first.name}"
            raise WatchwordError(f"{names} differ in data.max_time_steps: say how many, --moments 14")
    if (folder / "recipe.toml").exists():
        raise WatchwordError(f"{folder} holds a captioner already: name another folder, or delete it")
    settings = _all_settings(everyone)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WatchwordError(f"cannot write into {folder}: {error.strerror}") from error
    shared: dict[str, Tensor] = {}
    for number, path in enumerate((path for run in runs for path in run.weights), 1):
        tensors, metadata = read_tensors(path)
        small = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        save_shared(small, metadata, shared, folder / (FIRST if number == 1 else f"model.{number}.safetensors"))
        shared = shared or small
    write_whole(folder / "vocabulary.txt", first.vocabulary.text)
    write_whole(folder / STREAMS_FILE, json.dumps(settings, indent=2) + "\n")
    if beside:
        write_whole(folder / ENSEMBLE_FILE, "\n".join(beside) + "\n")
    calibration = Calibration.load(first.folder) if len(everyone) == 1 else None
    if calibration:
        calibration.save(folder)
    values = first.recipe.model_dump()  # without the ways to captions and features on the machine of its maker
    paths = {key: values["data"][key] for key in ("captions", "store")}
    values["data"] |= {key: path and path.name for key, path in paths.items()} | {"streams": tuple(settings)}
    values["data"] |= {"max_time_steps": moments} if moments else {}
    text = write_toml(values | {"init_from": None, "vocabulary": None})
    write_whole(folder / "recipe.toml", text)  # last: it is whole now
    return CaptionerFolder(folder)


def _all_settings(runs: Sequence[CaptionerFolder]) -> dict[str, dict[str, Any]]:
    """What made each stream that any of the runs reads."""
    settings: dict[str, dict[str, Any]] = {}
    for run in runs:
        for stream, made in run.settings().items():
            if settings.setdefault(stream, made) != made:
                raise WatchwordError(f"{run.name} and {runs[0].name} read {stream} made in two ways")
    return settings
