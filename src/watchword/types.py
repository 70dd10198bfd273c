"""Nouns outside the network: frozen dataclasses over numpy. One alphabet of shapes, see `tensors.py`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating[Any]]


def evenly(count: int, wanted: int | None) -> NDArray[np.int64]:
    """Rows of `wanted` out of `count` time steps, evenly chosen from first to last; all where there are no more."""
    if wanted is None or count <= wanted:
        return np.arange(count)
    return np.linspace(0, count - 1, wanted).round().astype(np.int64)


@dataclass(frozen=True)
class Clip:
    """One video of a data set: its name, its side of the split, what people said about it."""

    video: str
    split: str                        # train, val or test
    captions: tuple[str, ...]
    category: int | None = None
    path: Path | None = None          # the video, where there is one


@dataclass(frozen=True)
class Frames:
    """Pictures of a video at presentation times."""

    pictures: NDArray[np.uint8]       # (F, H, W, 3)
    times: FloatArray                 # (F,) seconds


@dataclass(frozen=True)
class StreamArrays:
    """One video's stream on disk or in memory: when x where x what. N is 1 for a pooled stream."""

    values: FloatArray                # (F, N, D)
    times: FloatArray                 # (F,) seconds
    boxes: FloatArray                 # (N, 4) or (F, N, 4): x0 y0 x1 y1, 0..1 of the picture
    mask: NDArray[np.bool_] | None = None  # (F, N), None: every location is real
    provenance: dict[str, str] = field(default_factory=dict)  # all that changes the numbers


@dataclass(frozen=True)
class Caption:
    """A caption that was found for a video."""

    video: str
    words: tuple[str, ...]
    score: float                      # log probability, length-normalised as the search was asked to
    attention: dict[str, FloatArray] = field(default_factory=dict)  # stream -> (T, F, N)

    @property
    def text(self) -> str:
        return " ".join(self.words)
