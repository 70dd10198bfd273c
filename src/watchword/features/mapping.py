"""Linear maps from the features of one network to those of another, for videos that are no longer available.

Many data sets survive only as features. Where some of their videos still exist, both networks read the same time steps,
and ridge regression between the two gives a map for the rest. Mapped features are estimates: the map is evaluated on
held-out videos (`explained`), and every file names the source stream in its header.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.types import FloatArray, StreamArrays, StreamName

PENALTIES = tuple(10.0**power for power in np.arange(-2.0, 4.5, 0.5))  # of the ridge, times the mean of its diagonal
FOLDS = 8


@dataclass(frozen=True)
class StoredStream:
    """A stream of a store."""

    store: Store
    stream: str

    @classmethod
    def read(cls, text: str) -> "StoredStream":
        folder, colon, stream = text.rpartition(":")
        if not colon or not folder or not stream:
            raise WatchwordError(f"{text!r} is not STORE:STREAM, for example features:appearance")
        return cls(Store(folder), stream)

    def pooled(self, video: str) -> FloatArray:
        """(F, D)."""
        values = self.store.read(video, self.stream).values
        if values.shape[1] != 1:
            raise WatchwordError(f"{self.stream} has {values.shape[1]} locations: only pooled streams are mapped")
        return values[:, 0].astype(np.float32)


@dataclass(frozen=True)
class LinearMap:
    """A map from the features of one network to those of another."""

    centre: FloatArray  # (D,) mean of the inputs
    weights: FloatArray  # (D, D')
    offset: FloatArray  # (D',)
    penalty: float
    explained: float  # share of the variance, on held-out videos
    num_videos: int

    def __call__(self, values: FloatArray) -> FloatArray:
        mapped: FloatArray = (rooted(values) - self.centre) @ self.weights + self.offset
        return mapped


def rooted(values: FloatArray) -> FloatArray:
    """Signed square roots: activations after a ReLU have long tails that would dominate a linear map."""
    result: FloatArray = np.sign(values) * np.sqrt(np.abs(values))
    return result


def pairs(source: StoredStream, examples: StoredStream) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Features of the same time steps by both networks, (M, D) and (M, D'), and the video of each, (M,).

    Both streams cover the whole video, so time steps are paired by their relative position, whatever their times are.
    """
    videos = sorted(set(source.store.videos(source.stream)) & set(examples.store.videos(examples.stream)))
    if len(videos) < FOLDS:
        raise WatchwordError(
            f"{len(videos)} videos have both {source.stream} and {examples.stream}: a map needs {FOLDS} or more"
        )
    sources, targets, numbers = [], [], []
    for number, video in enumerate(videos):
        mine, theirs = source.pooled(video), examples.pooled(video)
        rows = np.linspace(0, len(theirs) - 1, len(mine)).round().astype(int)
        sources.append(mine)
        targets.append(theirs[rows])
        numbers.append(np.full(len(mine), number))
    return np.concatenate(sources), np.concatenate(targets), np.concatenate(numbers)


def fit_map(sources: FloatArray, targets: FloatArray, videos: NDArray[np.int64]) -> LinearMap:
    """Ridge regression; the penalty is the one that explains most of held-out videos."""
    roots = rooted(sources)
    residuals = dict.fromkeys(PENALTIES, 0.0)
    total = 0.0
    for fold in range(FOLDS):
        out = videos % FOLDS == fold
        centre, offset = roots[~out].mean(0), targets[~out].mean(0)
        total += float(((targets[out] - offset) ** 2).sum())
        known, asked = roots[~out] - centre, roots[out] - centre
        size, vectors, inner = _decomposed(known @ known.T)
        right = vectors.T @ (targets[~out] - offset)
        left = (asked @ known.T) @ vectors
        for penalty in PENALTIES:
            predicted = left @ (right / (size + penalty * inner)[:, None])
            residuals[penalty] += float(((targets[out] - offset - predicted) ** 2).sum())
    explained = {penalty: 1 - residual / total for penalty, residual in residuals.items()}
    best = max(explained, key=lambda penalty: explained[penalty])
    centre, offset = roots.mean(0), targets.mean(0)
    known = roots - centre
    size, vectors, inner = _decomposed(known @ known.T)
    weights = known.T @ (vectors @ ((vectors.T @ (targets - offset)) / (size + best * inner)[:, None]))
    return LinearMap(centre, weights.astype(np.float32), offset, best, explained[best], int(videos.max()) + 1)


def _decomposed(gram: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Eigenvalues and vectors of what time steps have in common, and the mean of its diagonal."""
    size, vectors = np.linalg.eigh(gram)
    return size, vectors, float(np.trace(gram) / len(gram))


def map_features(
    source: StoredStream, mapping: LinearMap, target: StoredStream, videos: Sequence[str]
) -> Iterator[str]:
    """Writes estimates of the target network's features; videos that have real ones are left as they are.

    They are stored beside the real ones, under the same settings: a model reads both alike.
    """
    settings = target.store.settings(target.stream)
    for video in videos:
        if not target.store.has(video, target.stream):
            there = source.store.read(video, source.stream)
            values = mapping(source.pooled(video))[:, None].astype(np.float16)
            note = {"mapped_from": source.stream, "explained": f"{mapping.explained:.3f}"}
            arrays = StreamArrays(values, there.times, there.boxes, there.mask, note)
            target.store.write(video, StreamName.parse(target.stream).base, arrays, settings)
        yield video
