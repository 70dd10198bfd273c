"""Features of one network from those of another: for films that nobody can look at any more.

Many data sets survive only as somebody's features. Where a few films are still there, both networks have looked at the
same moments, and a linear map between what they saw carries the rest over. What is carried over is a guess: how good a
guess is measured on films that were left out (`explained`), and every file says in its header where it came from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.types import FloatArray, StreamArrays

PENALTIES = tuple(10.0**power for power in np.arange(-2.0, 4.5, 0.5))  # of the ridge, times the mean of its diagonal
FOLDS = 8


@dataclass(frozen=True)
class Place:
    """A stream of a store."""

    store: Store
    stream: str

    @classmethod
    def read(cls, text: str) -> "Place":
        folder, colon, stream = text.rpartition(":")
        if not colon or not folder or not stream:
            raise WatchwordError(f"{text!r} is not STORE:STREAM, for example features:appearance")
        return cls(Store(folder), stream)

    def pooled(self, video: str) -> FloatArray:
        """(F, D)."""
        values = self.store.read(video, self.stream).values
        if values.shape[1] != 1:
            raise WatchwordError(f"{self.stream} has {values.shape[1]} places: only pooled streams are carried over")
        return values[:, 0].astype(np.float32)


@dataclass(frozen=True)
class LinearMap:
    """What one network would have seen where another saw `values`."""

    centre: FloatArray           # (D,) of what is read
    weights: FloatArray          # (D, D')
    offset: FloatArray           # (D',)
    penalty: float
    explained: float             # share of the variance, on films that were left out
    num_films: int

    def __call__(self, values: FloatArray) -> FloatArray:
        mapped: FloatArray = (rooted(values) - self.centre) @ self.weights + self.offset
        return mapped


def rooted(values: FloatArray) -> FloatArray:
    """Activations after a ReLU have long tails, to which a linear map would listen alone."""
    result: FloatArray = np.sign(values) * np.sqrt(np.abs(values))
    return result


def pairs(source: Place, examples: Place) -> tuple[FloatArray, FloatArray, NDArray[np.int64]]:
    """Moments that both networks saw, (M, D) and (M, D'), and which film each is of, (M,).

    Both streams reach from the first to the last moment of a film, so moments belong together that lie at the same
    share of the way, whatever clock their times are by.
    """
    films = sorted(set(source.store.videos(source.stream)) & set(examples.store.videos(examples.stream)))
    if len(films) < FOLDS:
        raise WatchwordError(
            f"{len(films)} films have both {source.stream} and {examples.stream}: a map is learned from {FOLDS} or more"
        )
    seen, wanted, numbers = [], [], []
    for number, film in enumerate(films):
        mine, theirs = source.pooled(film), examples.pooled(film)
        rows = np.linspace(0, len(theirs) - 1, len(mine)).round().astype(int)
        seen.append(mine)
        wanted.append(theirs[rows])
        numbers.append(np.full(len(mine), number))
    return np.concatenate(seen), np.concatenate(wanted), np.concatenate(numbers)


def learn(seen: FloatArray, wanted: FloatArray, films: NDArray[np.int64]) -> LinearMap:
    """Ridge regression; its penalty is the one that explains most of the films that were left out."""
    roots = rooted(seen)
    residuals = dict.fromkeys(PENALTIES, 0.0)
    total = 0.0
    for fold in range(FOLDS):
        out = films % FOLDS == fold
        centre, offset = roots[~out].mean(0), wanted[~out].mean(0)
        total += float(((wanted[out] - offset) ** 2).sum())
        known, asked = roots[~out] - centre, roots[out] - centre
        size, vectors, inner = _decomposed(known @ known.T)
        right = vectors.T @ (wanted[~out] - offset)
        left = (asked @ known.T) @ vectors
        for penalty in PENALTIES:
            guess = left @ (right / (size + penalty * inner)[:, None])
            residuals[penalty] += float(((wanted[out] - offset - guess) ** 2).sum())
    explained = {penalty: 1 - residual / total for penalty, residual in residuals.items()}
    best = max(explained, key=lambda penalty: explained[penalty])
    centre, offset = roots.mean(0), wanted.mean(0)
    known = roots - centre
    size, vectors, inner = _decomposed(known @ known.T)
    weights = known.T @ (vectors @ ((vectors.T @ (wanted - offset)) / (size + best * inner)[:, None]))
    return LinearMap(centre, weights.astype(np.float32), offset, best, explained[best], int(films.max()) + 1)


def _decomposed(gram: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Eigenvalues and vectors of what moments have in common, and the mean of its diagonal."""
    size, vectors = np.linalg.eigh(gram)
    return size, vectors, float(np.trace(gram) / len(gram))


def carry(source: Place, mapping: LinearMap, target: Place, films: Sequence[str]) -> Iterator[str]:
    """Writes what the target's network would have seen; films that it really saw are left as they are.

    They go beside the real ones, under the same settings: a model reads both alike.
    """
    settings = target.store.settings(target.stream)
    for film in films:
        if not target.store.has(film, target.stream):
            there = source.store.read(film, source.stream)
            values = mapping(source.pooled(film))[:, None].astype(np.float16)
            note = {"carried_from": source.stream, "explained": f"{mapping.explained:.3f}"}
            arrays = StreamArrays(values, there.times, there.boxes, there.mask, note)
            target.store.write(film, target.stream.partition("@")[0], arrays, settings)
        yield film
