"""From a run to a captioner: calibrating its confidence, exporting its bundle, extending its vocabulary.

The confidence is fitted on videos that the captioner was not trained on.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from watchword.atomic_io import write_whole
from watchword.captioning.bundle import ENSEMBLE_FILE, STREAMS_FILE, CaptionerBundle, find_shipped
from watchword.captioning.captioner import Captioner, SegmentFeatures
from watchword.captioning.confidence import Calibration, fit, out_of_fold
from watchword.captioning.description import Caption
from watchword.config import write_toml
from watchword.data.benchmarks import read_clips
from watchword.data.dataset import Features, build_vocabulary
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex, document_frequencies, tokenise
from watchword.metrics.statistics import rank_correlation
from watchword.models import build_model
from watchword.models.checkpoint import FIRST, load_model, read_tensors, save_model, save_shared
from watchword.text.vocabulary import SPECIALS, Vocabulary
from watchword.types import Clip

MIN_VIDEOS = 20  # a fit on fewer is mostly noise
BATCH_SIZE = 16


@dataclass(frozen=True)
class CalibrationResult:
    """A calibration, and how it ranks videos that were left out of the fit."""

    calibration: Calibration
    predicted: Sequence[float]  # out-of-fold confidence of each video
    shares: Sequence[float]  # of references that are no better


def calibrate(
    bundle: CaptionerBundle,
    captions: Path,
    store: Path,
    split: str = "val",
    report: Callable[[int, int], None] = lambda done, total: None,
) -> CalibrationResult:
    """Fits a captioner's confidence on a split whose features are in a store."""
    if split == "test":
        raise WatchwordError("calibrating on the test split makes its scores worthless; calibrate on 'val'")
    data = bundle.recipe.data.model_copy(update={"captions": captions, "store": store})
    clips = [clip for clip in read_clips(data).clips if clip.split == split and len(clip.captions) > 1]
    if len(clips) < MIN_VIDEOS:
        raise WatchwordError(
            f"{captions} has {len(clips)} {split} videos with two captions or more: {MIN_VIDEOS} are needed to "
            "calibrate"
        )
    found = caption_clips(bundle, clips, Store(store), report)
    shares = no_better_shares(clips, [caption.text for caption in found])
    features = [caption.confidence_features for caption in found]
    predicted = out_of_fold(features, shares)
    half = np.argsort(-predicted)[: len(clips) // 2]
    about = {
        "captioner": bundle.name,
        "split": split,
        "videos": len(clips),
        "mean_share": float(np.mean(shares)),
        "mean_share_of_the_surer_half": float(np.mean(np.array(shares)[half])),
        "rank_correlation": rank_correlation(predicted.tolist(), shares),
        "meaning": "the share of references, of all videos, that agree with the others no better, by CIDEr-D",
    }
    return CalibrationResult(fit(features, shares, about), predicted.tolist(), shares)


def caption_clips(
    bundle: CaptionerBundle,
    clips: Sequence[Clip],
    store: Store,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> list[Caption]:
    """The best caption for each video, as `describe` finds it."""
    captioner, features = Captioner(bundle), Features(store, bundle.recipe.data)
    captions: list[Caption] = []
    for start in range(0, len(clips), BATCH_SIZE):
        some = clips[start : start + BATCH_SIZE]
        segments = [SegmentFeatures(0.0, 0.0, features.arrays(clip.video)) for clip in some]
        captions += [found[0] for found in captioner.generate(segments)]
        report(len(captions), len(clips))
    return captions


def no_better_shares(clips: Sequence[Clip], captions: Sequence[str]) -> list[float]:
    """For each caption the share of references that agree with the other references of their video no better.

    Agreement is CIDEr-D; equals count half. The references of all videos count: on a video whose references do not
    agree with each other, agreeing with them as little is no merit.
    """
    references = {clip.video: clip.captions for clip in clips}
    frequencies = document_frequencies(
        {video: tokenise(list(texts), "line") for video, texts in references.items()}, "all captions"
    )
    others, people, ours = {}, {}, {}
    for clip, caption in zip(clips, captions, strict=True):
        for number, reference in enumerate(clip.captions):
            case = f"{clip.video}#{number}"
            others[case] = [text for row, text in enumerate(clip.captions) if row != number]
            people[case], ours[case] = reference, caption
    index = ReferenceIndex(others, frequencies)
    theirs, own = (index.score(texts, ["CIDEr"]) for texts in (people, ours))
    ranked = np.sort(theirs.per_video["CIDEr"])
    worse, no_better = (np.searchsorted(ranked, own.per_video["CIDEr"], side) for side in ("left", "right"))
    shares = dict(zip(own.videos, (worse + no_better) / (2 * len(ranked)), strict=True))
    return [
        float(np.mean([shares[f"{clip.video}#{number}"] for number in range(len(clip.captions))])) for clip in clips
    ]


def export(
    runs: Sequence[CaptionerBundle],
    folder: Path,
    beside: Sequence[str] = (),
    max_time_steps: int | None = None,
    mbr_samples: int | None = None,
) -> CaptionerBundle:
    """A run without what only training needs, weights in half precision; several runs become an ensemble.

    Each member reads its own streams. Tensors that equal those of the first member are stored once. Vocabulary and
    search are the first one's. Shipped captioners named in `beside` are members too, by reference: they are not copied.
    `max_time_steps` is the number of time steps to read, evenly chosen; `mbr_samples` that of MBR decoding.
    """
    first, members = runs[0], [*runs, *map(find_shipped, beside)]
    for run in members[1:]:
        if run.vocabulary.checksum != first.vocabulary.checksum:
            raise WatchwordError(f"{run.name} and {first.name} do not share a vocabulary: they cannot be one captioner")
        if max_time_steps is None and run.recipe.data.max_time_steps != first.recipe.data.max_time_steps:
            names = f"{run.name} and {first.name}"
            raise WatchwordError(f"{names} differ in data.max_time_steps: choose with --max-time-steps")
    if (folder / "recipe.toml").exists():
        raise WatchwordError(f"{folder} holds a captioner already: name another folder, or delete it")
    settings = _all_settings(members)
    for run in runs:
        for path in run.weights:
            load_model(path, run.vocabulary)  # damaged weights are refused before anything is written
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
    calibration = Calibration.load(first.folder) if len(members) == 1 else None
    if calibration:
        calibration.save(folder)
    values = first.recipe.model_dump()  # without the folders of the machine that trained it
    paths = {key: values["data"][key] for key in ("captions", "store")}
    values["data"] |= {key: path and path.name for key, path in paths.items()} | {"streams": tuple(settings)}
    values["data"] |= {"max_time_steps": max_time_steps} if max_time_steps else {}
    values["selection"] |= {"mbr_samples": mbr_samples} if mbr_samples is not None else {}
    text = write_toml(values | {"init_from": None, "vocabulary": None})
    write_whole(folder / "recipe.toml", text)  # last: the folder is complete now
    return CaptionerBundle(folder)


def _all_settings(bundles: Sequence[CaptionerBundle]) -> dict[str, dict[str, Any]]:
    """The settings of each stream that any of the members reads."""
    settings: dict[str, dict[str, Any]] = {}
    for bundle in bundles:
        for stream, made in bundle.settings().items():
            if settings.setdefault(stream, made) != made:
                raise WatchwordError(f"{bundle.name} and {bundles[0].name} read {stream} with different settings")
    return settings


def extend_vocabulary(bundle: CaptionerBundle, clips: Sequence[Clip], min_count: int, folder: Path) -> Path:
    """A folder to start a training from: the captioner, with rows for the new words of these captions."""
    known = bundle.vocabulary
    counted = build_vocabulary(clips, min_count)
    new = [number for number, word in enumerate(counted.words) if word not in known]
    words, content = [*known.words, *(counted.words[number] for number in new)], None
    if known.content and counted.content:
        content = [*known.content, *(counted.content[number] for number in new)][len(SPECIALS) :]
    vocabulary = Vocabulary(words[len(SPECIALS) :], content)
    trained = load_model(bundle.weights[0], known)  # of an ensemble, the first member
    settings = bundle.recipe.model
    torch.manual_seed(0)
    model = build_model(settings, trained.widths, len(vocabulary))
    extended = model.state_dict()
    for name, tensor in trained.state_dict().items():
        extended[name][tuple(slice(size) for size in tensor.shape)] = tensor  # what is as long as the vocabulary grew
    folder.mkdir(parents=True, exist_ok=True)
    save_model(model, settings, vocabulary, folder / "model.safetensors")
    write_whole(folder / "vocabulary.txt", vocabulary.text)
    return folder
