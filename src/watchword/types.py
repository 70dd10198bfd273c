"""Data outside the network: frozen dataclasses over numpy. The letters of the axes are those of `tensors.py`."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

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
    split: str  # train, val or test
    captions: tuple[str, ...]
    category: int | None = None
    path: Path | None = None  # the video, where there is one


@dataclass(frozen=True)
class Frames:
    """Pictures of a video at presentation times."""

    pictures: NDArray[np.uint8]  # (F, H, W, 3)
    times: FloatArray  # (F,) seconds


@dataclass(frozen=True)
class StreamArrays:
    """One video's stream on disk or in memory: when x where x what. N is 1 for a pooled stream."""

    values: FloatArray  # (F, N, D)
    times: FloatArray  # (F,) seconds
    boxes: FloatArray  # (N, 4) or (F, N, 4): x0 y0 x1 y1, 0..1 of the picture
    mask: NDArray[np.bool_] | None = None  # (F, N), None: every location is real
    provenance: dict[str, str] = field(default_factory=dict)  # all that changes the numbers


@dataclass(frozen=True)
class Hypothesis:
    """A caption that decoding produced for a video."""

    video: str
    words: tuple[str, ...]
    score: float  # log probability, length-normalised as the search was asked to
    attention: dict[str, FloatArray] = field(default_factory=dict)  # stream -> (T, F, N)

    @property
    def text(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True)
class StreamName:
    """The name of a stream in a store or a recipe, such as `motion_layers.2@938e`."""

    extractor: str  # motion_layers
    layer: str = ""  # 2: one of several streams that the extractor makes
    key: str = ""  # 938e: the beginning of the key of its settings, where a store has several

    @classmethod
    def parse(cls, name: str) -> "StreamName":
        base, _, key = name.partition("@")
        extractor, _, layer = base.partition(".")
        return cls(extractor, layer, key)

    @property
    def base(self) -> str:
        """Without the key: motion_layers.2"""
        return f"{self.extractor}.{self.layer}" if self.layer else self.extractor

    def with_key(self, key: str) -> str:
        """As a store reads it: motion_layers.2@938e"""
        return str(replace(self, key=key))

    def __str__(self) -> str:
        return f"{self.base}@{self.key}" if self.key else self.base


@dataclass(frozen=True)
class AttentionHead:
    """One attention of a model, written `regions`, `local:regions` or `0:local:regions`."""

    stream: str
    kind: str = ""  # where a model has several over one stream: global2local's `local:regions`
    member: int | None = None  # of an ensemble

    @classmethod
    def parse(cls, name: str) -> "AttentionHead":
        first, _, rest = name.partition(":")
        member, name = (int(first), rest) if first.isdigit() and rest else (None, name)
        kind, _, stream = name.rpartition(":")
        return cls(stream, kind, member)

    def __str__(self) -> str:
        parts = ("" if self.member is None else str(self.member), self.kind, self.stream)
        return ":".join(part for part in parts if part)


Lane = Literal["captions", "speech", "text", "sounds"]
Box = tuple[float, float, float, float]  # x0 y0 x1 y1, 0..1 of the picture


@dataclass(frozen=True)
class Cue:
    """What is said, written or heard for a while: an entry of the lanes speech, text and sounds."""

    start: float  # seconds
    end: float
    text: str
    confidence: float  # 0..1: of the network that recognised it
    box: Box | None = None  # of text on screen


@dataclass(frozen=True)
class Language:
    """The language of the speech: told, with probability 1, or guessed."""

    code: str  # en
    probability: float


MarkKind = Literal["key_frame", "first_key_frame", "chosen_frame"]


@dataclass(frozen=True)
class Mark:
    """A frame that a model selected for the whole caption, or for one word."""

    kind: MarkKind
    seconds: float
    word: int | None = None


@dataclass(frozen=True)
class Bars:
    """Weights that a model gives to layers or branches for each word."""

    title: str
    names: tuple[str, ...]  # K
    weights: FloatArray  # (T, K), 0..1; a row of zeros: none for this word


@dataclass(frozen=True)
class Diagnostics:
    """What a model reports of a caption beyond attention."""

    marks: tuple[Mark, ...] = ()
    bars: tuple[Bars, ...] = ()
