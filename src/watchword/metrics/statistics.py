"""Intervals of scores, paired tests of two systems, and measures of the diversity of captions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.metrics.coco import bleu
from watchword.metrics.index import METRICS, Scores

Floats = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Interval:
    """The middle `confidence` of what resampled sets of videos score."""

    low: float
    high: float
    confidence: float


@dataclass(frozen=True)
class Comparison:
    """Scores of the same videos by two systems."""

    difference: float  # first minus second
    low: float  # 95 % interval of the difference, by paired bootstrap
    high: float
    p_value: float  # two-sided, by approximate randomisation: how often swapping captions differs as much


def resampled(scores: Scores, weights: Floats) -> dict[str, Floats]:
    """Corpus scores of sets that count every video so often: weights (samples, videos) -> name -> (samples,).

    BLEU and METEOR of a set come from the sum of statistics, never from the mean of captions.
    """
    totals: dict[str, Floats] = {}
    for name, values in scores.per_video.items():
        if name in METRICS["BLEU"]:
            totals[name] = bleu(weights @ scores.statistics["BLEU"])[:, METRICS["BLEU"].index(name)]
        elif name == "METEOR":
            totals[name] = _meteor(weights, scores.statistics["METEOR"])
        else:
            totals[name] = weights @ values / weights.sum(axis=1)
    return totals


def mean_of_ratio(totals: Floats, counts: Floats) -> tuple[float, float]:
    """Sum of totals over sum of counts, and its standard error where videos, not words, are what is drawn."""
    ratio = float(totals.sum() / counts.sum())
    residuals = totals - ratio * counts
    videos = len(totals)
    error = float((residuals**2).sum() * videos / max(videos - 1, 1)) ** 0.5 / float(counts.sum())
    return ratio, error


def bootstrap(scores: Scores, samples: int = 1000, confidence: float = 0.95, seed: int = 0) -> dict[str, Interval]:
    """Percentile intervals from sets of videos drawn with replacement. Document frequencies stay as they are."""
    totals = resampled(scores, draw_videos(len(scores.videos), samples, seed))
    intervals = {}
    for name, values in totals.items():
        low, high = np.percentile(values, [50 * (1 - confidence), 50 * (1 + confidence)])
        intervals[name] = Interval(float(low), float(high), confidence)
    return intervals


def compare(first: Scores, second: Scores, samples: int = 1000, seed: int = 0) -> dict[str, Comparison]:
    """Paired: both systems are resampled and swapped on the same videos.

    The interval is a paired bootstrap; the p value is approximate randomisation (Noreen, 1989): under the hypothesis
    that the systems are alike, each video's two captions may change sides.
    """
    if first.videos != second.videos:
        raise WatchwordError("a paired test needs both systems on the same videos in the same order")
    num_videos = len(first.videos)
    draws = draw_videos(num_videos, samples, seed)
    ours, theirs = resampled(first, draws), resampled(second, draws)
    swaps = np.random.default_rng(seed + 1).integers(0, 2, (samples, num_videos)).astype(np.float64)
    mixed, rest = _mixed(first, second, swaps), _mixed(second, first, swaps)
    comparisons = {}
    for name in ours:
        difference = first.corpus[name] - second.corpus[name]
        low, high = np.percentile(ours[name] - theirs[name], [2.5, 97.5])
        as_much = np.abs(mixed[name] - rest[name]) >= abs(difference) - 1e-12
        p_value = (float(as_much.sum()) + 1) / (samples + 1)
        comparisons[name] = Comparison(difference, float(low), float(high), p_value)
    return comparisons


def _mixed(first: Scores, second: Scores, swaps: Floats) -> dict[str, Floats]:
    """Corpus scores where the videos with a one in `swaps` (samples, videos) carry the second system's caption."""
    totals: dict[str, Floats] = {}
    for name in first.per_video:
        if name in METRICS["BLEU"]:
            rows = (1 - swaps) @ first.statistics["BLEU"] + swaps @ second.statistics["BLEU"]
            totals[name] = bleu(rows)[:, METRICS["BLEU"].index(name)]
        elif name == "METEOR":
            both = np.concatenate([first.statistics["METEOR"], second.statistics["METEOR"]])
            totals[name] = _meteor(np.concatenate([1 - swaps, swaps], axis=1), both)
        else:
            values = (1 - swaps) @ first.per_video[name] + swaps @ second.per_video[name]
            totals[name] = values / len(first.videos)
    return totals


def draw_videos(num_videos: int, samples: int, seed: int) -> Floats:
    """How often each video is drawn, (samples, videos)."""
    generator = np.random.default_rng(seed)
    draws: Floats = generator.multinomial(num_videos, np.full(num_videos, 1 / num_videos), size=samples).astype(float)
    return draws


def _meteor(weights: Floats, statistics: Floats) -> Floats:
    """Corpus METEOR of weighted sets. A segment that matches whole in one chunk adds no chunk to the sum."""
    from watchword.metrics.meteor import score

    lengths = statistics[:, score.LENGTH : score.LENGTH + 2]
    matched = statistics[:, score.MATCHED : score.MATCHED + 2]
    summable = statistics.copy()
    summable[(lengths == matched).all(axis=1) & (statistics[:, score.CHUNKS] == 1), score.CHUNKS] = 0
    totals: Floats = score.scores(weights @ summable)
    return totals


@dataclass(frozen=True)
class Diversity:
    """How rich the language of a set of captions is."""

    distinct_1: float  # different words / all words
    distinct_2: float  # the same of pairs of words
    vocabulary: int  # different words
    mean_length: float  # words in a caption
    different: float  # different captions / captions
    novel: float | None  # captions that no training caption equals, None without training captions


def diversity(captions: Sequence[Sequence[str]], training: Iterable[Sequence[str]] | None = None) -> Diversity:
    """Of tokenised captions."""
    if not captions:
        raise WatchwordError("there are no captions to measure")
    words = [word for caption in captions for word in caption]
    pairs = [pair for caption in captions for pair in pairwise(caption)]
    whole = [tuple(caption) for caption in captions]
    novel = None
    if training is not None:
        known = {tuple(caption) for caption in training}
        novel = sum(caption not in known for caption in whole) / len(whole)
    return Diversity(
        distinct_1=len(set(words)) / max(len(words), 1),
        distinct_2=len(set(pairs)) / max(len(pairs), 1),
        vocabulary=len(set(words)),
        mean_length=len(words) / len(captions),
        different=len(set(whole)) / len(whole),
        novel=novel,
    )


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rho with mean ranks for ties; 0 where one side is constant."""
    ranks = [_ranks(np.asarray(values, np.float64)) for values in (one, other)]
    spreads = [values.std() for values in ranks]
    if min(spreads) == 0:
        return 0.0
    return float(((ranks[0] - ranks[0].mean()) * (ranks[1] - ranks[1].mean())).mean() / (spreads[0] * spreads[1]))


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, rows, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    middle: NDArray[np.float64] = (ends - (counts - 1) / 2)[rows]
    return middle
