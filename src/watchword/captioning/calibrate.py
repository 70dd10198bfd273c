"""Fitting a captioner's confidence on videos that it was not trained on."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watchword.captioning.bundle import CaptionerBundle
from watchword.captioning.captioner import Captioner, SegmentFeatures
from watchword.captioning.confidence import Calibration, fit, out_of_fold
from watchword.captioning.description import Caption
from watchword.data.benchmarks import read_clips
from watchword.data.dataset import Features
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex, document_frequencies, tokenise
from watchword.metrics.statistics import rank_correlation
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
