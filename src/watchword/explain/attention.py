"""Evidence: for each word of a sentence when and where it looked, as data that is small enough to keep and to send.

A *head* is one attention of a model over one stream: `appearance`, or `local:regions` where a model looks at a stream
in a way of its own. docs/reference/explain.schema.json says what the JSON holds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import numpy as np

from watchword.errors import WatchwordError
from watchword.types import FloatArray

VERSION = 1
LEAST_SHARE = 1e-3  # of a word's largest weight: what is below is written as 0
MarkKind = Literal["key_frame", "first_key_frame", "chosen_frame"]
T = TypeVar("T")


@dataclass(frozen=True)
class Spoken:
    """A word, and how likely it was after those before it."""

    word: str
    probability: float


@dataclass(frozen=True)
class Head:
    """One attention over one stream: when x where, for each word."""

    times: FloatArray     # (F,) seconds of the film
    boxes: FloatArray     # (N, 4), or (F, N, 4) where places are others in every moment: x0 y0 x1 y1, 0..1
    weights: FloatArray   # (T, F, N), a distribution for each word

    def boxes_at(self, moment: int) -> FloatArray:
        """(N, 4)."""
        return self.boxes[moment] if self.boxes.ndim == 3 else self.boxes

    @property
    def over_time(self) -> FloatArray:
        """(T, F): how much each word looked at each moment."""
        return self.weights.sum(-1)

    @property
    def has_places(self) -> bool:
        """Whether it looks at parts of the picture, not only at whole moments."""
        return self.weights.shape[2] > 1


@dataclass(frozen=True)
class Mark:
    """A moment that a model chose: for the whole sentence, or for one word."""

    kind: MarkKind
    seconds: float
    word: int | None = None


@dataclass(frozen=True)
class Bars:
    """A balance that a model strikes anew for each word: between layers, between ways of looking."""

    title: str
    names: tuple[str, ...]   # K
    weights: FloatArray      # (T, K), 0..1; a row of zeros: this word strikes none


@dataclass(frozen=True)
class ShotEvidence:
    """A stretch of film, the best sentence about it, and what that was read off from."""

    start: float             # seconds
    end: float
    sentence: str
    confidence: float
    words: tuple[Spoken, ...]
    heads: Mapping[str, Head] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bars, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """All that can be shown of how a film was described."""

    film: str                # its name
    seconds: float
    captioner: str
    shots: tuple[ShotEvidence, ...]

    def values(self) -> dict[str, Any]:
        """What JSON holds."""
        return {
            "version": VERSION,
            "film": self.film,
            "seconds": round(self.seconds, 3),
            "captioner": self.captioner,
            "shots": [_shot_values(shot) for shot in self.shots],
        }

    @classmethod
    def read(cls, values: Any) -> "Evidence":
        """What `values` gave; whatever else it may be, one clear line."""
        try:
            if values["version"] != VERSION:
                raise WatchwordError(f"evidence of version {values['version']!r}, this watchword reads {VERSION}")
            shots = tuple(_read_shot(shot) for shot in values["shots"])
            return cls(str(values["film"]), _number(values["seconds"]), str(values["captioner"]), shots)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise WatchwordError(f"this is not evidence of watchword explain ({error!r}): make it anew") from error


def _shot_values(shot: ShotEvidence) -> dict[str, Any]:
    return {
        "start": round(shot.start, 3),
        "end": round(shot.end, 3),
        "sentence": shot.sentence,
        "confidence": round(shot.confidence, 4),
        "words": [{"word": one.word, "probability": round(one.probability, 4)} for one in shot.words],
        "streams": {name: _head_values(head) for name, head in shot.heads.items()},
        "marks": [{"kind": mark.kind, "word": mark.word, "seconds": round(mark.seconds, 3)} for mark in shot.marks],
        "bars": [
            {"title": bars.title, "names": list(bars.names), "weights": np.round(bars.weights, 4).tolist()}
            for bars in shot.bars
        ],
    }


def _head_values(head: Head) -> dict[str, Any]:
    """Weights with three digits, and only places that anything was seen of: rows that pad a stream are not evidence."""
    largest = head.weights.max((1, 2), keepdims=True, initial=0)
    weights = np.where(head.weights >= LEAST_SHARE * largest, head.weights, 0.0)
    used = np.flatnonzero(weights.sum((0, 1))) if weights.any() else np.array([0])  # places
    rounded = [[[_short(one) for one in places] for places in word] for word in weights[:, :, used].tolist()]
    return {
        "times": np.round(head.times.astype(np.float64), 3).tolist(),
        "boxes": np.round(head.boxes[..., used, :].astype(np.float64), 4).tolist(),
        "weights": rounded,
    }


def _short(weight: float) -> float:
    return float(f"{weight:.3g}") if weight else 0


def _read_shot(values: Mapping[str, Any]) -> ShotEvidence:
    words = tuple(Spoken(str(one["word"]), _number(one["probability"])) for one in values["words"])
    kinds = get_args(MarkKind)
    marks = tuple(
        Mark(kinds[kinds.index(one["kind"])], _number(one["seconds"]), _maybe(int, one["word"]))
        for one in values["marks"]
    )
    if any(mark.word is not None and not 0 <= mark.word < len(words) for mark in marks):
        raise ValueError("a mark of a word that is not there")
    return ShotEvidence(
        _number(values["start"]), _number(values["end"]), str(values["sentence"]), _number(values["confidence"]), words,
        {str(name): _read_head(head, len(words)) for name, head in values["streams"].items()},
        marks, tuple(_read_bars(bars, len(words)) for bars in values["bars"]),
    )  # fmt: skip


def _read_head(values: Mapping[str, Any], words: int) -> Head:
    times, boxes, weights = (_array(values[name]) for name in ("times", "boxes", "weights"))
    moments, places = len(times), boxes.shape[-2]
    if boxes.shape not in {(places, 4), (moments, places, 4)} or weights.shape != (words, moments, places):
        raise ValueError(f"times {times.shape}, boxes {boxes.shape} and weights {weights.shape} of {words} words")
    return Head(times, boxes, weights)


def _read_bars(values: Mapping[str, Any], words: int) -> Bars:
    names = tuple(str(name) for name in values["names"])
    weights = _array(values["weights"])
    if weights.shape != (words, len(names)):
        raise ValueError(f"bars {weights.shape} of {words} words and {len(names)} names")
    return Bars(str(values["title"]), names, weights)


def _array(values: Sequence[Any]) -> FloatArray:
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number that is none")
    return array


def _number(value: Any) -> float:
    return float(_array(value))


def _maybe(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)
