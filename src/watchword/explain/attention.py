"""Explanations: for each word of a caption the attention over time steps and locations, as data and as JSON.

docs/reference/explain.schema.json describes the JSON. The keys of `heads` are attention heads, see `AttentionHead`. The
peak of a word is the time step and the part of the picture with the largest weight.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

import numpy as np

from watchword.captioning.description import Description, Segment
from watchword.errors import WatchwordError
from watchword.types import AttentionHead, Bars, FloatArray, Mark, MarkKind
from watchword.video import shown

VERSION = 2
MIN_SHARE = 1e-3  # of a word's largest weight: smaller ones are written as 0
T = TypeVar("T")


@dataclass(frozen=True)
class ExplainedWord:
    """A word and its probability given the words before it."""

    word: str
    probability: float


@dataclass(frozen=True)
class HeadAttention:
    """The weights of one attention head for each word."""

    times: FloatArray  # (F,) seconds of the video
    boxes: FloatArray  # (N, 4), or (F, N, 4) where they change over time: x0 y0 x1 y1, 0..1
    weights: FloatArray  # (T, F, N), a distribution for each word

    def boxes_at(self, step: int) -> FloatArray:
        """(N, 4)."""
        return self.boxes[step] if self.boxes.ndim == 3 else self.boxes

    @property
    def over_time(self) -> FloatArray:
        """(T, F): the weight of each time step for each word."""
        return self.weights.sum(-1)


@dataclass(frozen=True)
class SegmentExplanation:
    """A segment, its best caption, and the attention behind it."""

    start: float  # seconds
    end: float
    caption: str
    confidence: float
    words: tuple[ExplainedWord, ...]
    heads: Mapping[str, HeadAttention] = field(default_factory=dict)
    marks: tuple[Mark, ...] = ()
    bars: tuple[Bars, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A description with its attention."""

    video: str  # its name
    seconds: float
    captioner: str
    segments: tuple[SegmentExplanation, ...]

    @classmethod
    def of(cls, description: Description) -> "Explanation":
        """Of each segment's best caption; one that was read from a file has no attention."""
        name = shown(Path(description.video.name))
        return cls(name, description.seconds, description.captioner, tuple(map(_of_segment, description.segments)))

    def values(self) -> dict[str, Any]:
        """The values of the JSON."""
        return {
            "version": VERSION,
            "video": self.video,
            "seconds": round(self.seconds, 3),
            "captioner": self.captioner,
            "segments": [_segment_values(segment) for segment in self.segments],
        }

    @classmethod
    def read(cls, values: Any) -> "Explanation":
        """From `values`, also those of version 1; anything else is an error of one line."""
        try:
            values = upgraded(values)
            if values["version"] != VERSION:
                raise WatchwordError(f"an explanation of version {values['version']!r}; this watchword reads {VERSION}")
            segments = tuple(_read_segment(segment) for segment in values["segments"])
            return cls(str(values["video"]), _number(values["seconds"]), str(values["captioner"]), segments)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise WatchwordError(
                f"this is not an explanation of watchword explain ({error!r}): make it again"
            ) from error


def upgraded(values: dict[str, Any]) -> dict[str, Any]:
    """Values of version 1 with the keys of version 2; others as they are."""
    if values["version"] != 1:
        return values
    segments = [{**segment, "caption": segment["sentence"], "heads": segment["streams"]} for segment in values["shots"]]
    for segment in segments:
        del segment["sentence"], segment["streams"]
    rest = {key: value for key, value in values.items() if key not in ("film", "shots")}
    return rest | {"version": 2, "video": values["film"], "segments": segments}


def _of_segment(segment: Segment) -> SegmentExplanation:
    best = segment.best
    heads = {}
    for name, weights in best.attention.items():
        geometry = segment.geometry[AttentionHead.parse(name).stream]
        if len(geometry.times):  # a video without sound has no time steps there
            heads[name] = HeadAttention(geometry.times, geometry.boxes, weights)
    words = tuple(ExplainedWord(word.text, word.probability) for word in best.words)
    return SegmentExplanation(
        segment.start, segment.end, best.text, best.confidence, words, heads, best.marks, best.bars
    )


def _segment_values(segment: SegmentExplanation) -> dict[str, Any]:
    return {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "caption": segment.caption,
        "confidence": round(segment.confidence, 4),
        "words": [{"word": one.word, "probability": round(one.probability, 4)} for one in segment.words],
        "heads": {name: _head_values(head) for name, head in segment.heads.items()},
        "marks": [{"kind": mark.kind, "word": mark.word, "seconds": round(mark.seconds, 3)} for mark in segment.marks],
        "bars": [
            {"title": bars.title, "names": list(bars.names), "weights": np.round(bars.weights, 4).tolist()}
            for bars in segment.bars
        ],
    }


def _head_values(head: HeadAttention) -> dict[str, Any]:
    """Weights with three digits; locations without any weight, such as padding, are left out."""
    largest = head.weights.max((1, 2), keepdims=True, initial=0)
    weights = np.where(head.weights >= MIN_SHARE * largest, head.weights, 0.0)
    used = np.flatnonzero(weights.sum((0, 1))) if weights.any() else np.array([0])  # locations
    rounded = [[[_short(one) for one in locations] for locations in word] for word in weights[:, :, used].tolist()]
    return {
        "times": np.round(head.times.astype(np.float64), 3).tolist(),
        "boxes": np.round(head.boxes[..., used, :].astype(np.float64), 4).tolist(),
        "weights": rounded,
    }


def _short(weight: float) -> float:
    return float(f"{weight:.3g}") if weight else 0


def _read_segment(values: Mapping[str, Any]) -> SegmentExplanation:
    words = tuple(ExplainedWord(str(one["word"]), _number(one["probability"])) for one in values["words"])
    kinds = get_args(MarkKind)
    marks = tuple(
        Mark(kinds[kinds.index(one["kind"])], _number(one["seconds"]), _maybe(int, one["word"]))
        for one in values["marks"]
    )
    if any(mark.word is not None and not 0 <= mark.word < len(words) for mark in marks):
        raise ValueError("a mark of a word that does not exist")
    return SegmentExplanation(
        _number(values["start"]),
        _number(values["end"]),
        str(values["caption"]),
        _number(values["confidence"]),
        words,
        {str(name): _read_head(head, len(words)) for name, head in values["heads"].items()},
        marks,
        tuple(_read_bars(bars, len(words)) for bars in values["bars"]),
    )


def _read_head(values: Mapping[str, Any], words: int) -> HeadAttention:
    times, boxes, weights = (_array(values[name]) for name in ("times", "boxes", "weights"))
    steps, locations = len(times), boxes.shape[-2]
    if boxes.shape not in {(locations, 4), (steps, locations, 4)} or weights.shape != (words, steps, locations):
        raise ValueError(f"times {times.shape}, boxes {boxes.shape} and weights {weights.shape} of {words} words")
    return HeadAttention(times, boxes, weights)


def _read_bars(values: Mapping[str, Any], words: int) -> Bars:
    names = tuple(str(name) for name in values["names"])
    weights = _array(values["weights"])
    if weights.shape != (words, len(names)):
        raise ValueError(f"bars {weights.shape} of {words} words and {len(names)} names")
    return Bars(str(values["title"]), names, weights)


def _array(values: Sequence[Any]) -> FloatArray:
    array = np.asarray(values, np.float64)
    if not np.isfinite(array).all():
        raise ValueError("a number that is not finite")
    return array


def _number(value: Any) -> float:
    return float(_array(value))


def _maybe(kind: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else kind(value)


# --- peaks -----------------------------------------------------------------------------------------------------------


UNIFORM = 1.25  # largest weight / mean weight: below, the weights are flat and nothing stands out
HOT = 4.0  # times the uniform weight: the strongest colour


@dataclass(frozen=True)
class Peak:
    """The peak of one word in one head."""

    step: int  # on the head's axis F
    seconds: float
    share: float  # of the word's attention at this time step
    locations: FloatArray  # (N,) weights within the time step, a distribution
    boxes: FloatArray  # (N, 4)
    times_uniform: bool  # no time step stands out: this one was chosen by other means
    locations_uniform: bool  # no location stands out

    @property
    def strongest(self) -> FloatArray:
        """(4,) the box with the largest weight."""
        return self.boxes[int(self.locations.argmax())]

    @property
    def where(self) -> str:
        """In words; empty where no location stands out."""
        return "" if self.locations_uniform else where(self.locations, self.boxes)


def is_uniform(weights: FloatArray) -> bool:
    """Whether all weights above 0 are about equal."""
    some = weights[weights > 0]
    return len(some) < 2 or bool(some.max() <= UNIFORM * some.mean())


def times_uniform(over_time: FloatArray) -> bool:
    """(F,) of one word. A time step without weight is a selection, so it is not uniform."""
    return len(over_time) > 1 and bool((over_time > 0).all()) and is_uniform(over_time)


def strength(over_time: FloatArray) -> FloatArray:
    """(T, F) attention as 0..1 for a timeline; uniform attention is a quarter everywhere."""
    total = over_time.sum(-1, keepdims=True)
    return (over_time * over_time.shape[-1] / np.maximum(total, 1e-12) / HOT).clip(0, 1)


def peak(segment: SegmentExplanation, name: str, word: int) -> Peak:
    head = segment.heads[name]
    over_time = head.over_time[word]  # (F,)
    uniform = times_uniform(over_time)
    step = _chosen_step(segment, head, word) if uniform else int(over_time.argmax())
    share = float(over_time[step] / max(float(over_time.sum()), 1e-12))
    locations = head.weights[word, step]
    locations = locations / max(float(locations.sum()), 1e-12)
    nothing_preferred = len(locations) == 1 or (is_uniform(locations) and int((locations > 0).sum()) != 1)
    return Peak(step, float(head.times[step]), share, locations, head.boxes_at(step), uniform, nothing_preferred)


def _chosen_step(segment: SegmentExplanation, head: HeadAttention, word: int) -> int:
    """Where attention over time is uniform: the peak of the sharpest other head, else the key frame, else the middle.

    VRE averages locations over time (Eq. 3); its other attention and its key frame have the time.
    """
    keys = [mark.seconds for mark in segment.marks if mark.kind == "key_frame"]
    others = [one for one in segment.heads.values() if len(one.times) > 1 and not times_uniform(one.over_time[word])]
    if others:
        sharpest = max(others, key=lambda one: float(one.over_time[word].max() / one.over_time[word].mean()))
        seconds = float(sharpest.times[int(sharpest.over_time[word].argmax())])
    else:
        seconds = keys[0] if keys else float(head.times[len(head.times) // 2])
    return int(np.abs(head.times - seconds).argmin())


def main_head(segment: SegmentExplanation) -> str | None:
    """The most specific head: the last with a location that stands out, else the first."""
    specific = [
        name
        for name in segment.heads
        if any(not peak(segment, name, word).locations_uniform for word in range(len(segment.words)))
    ]
    return specific[-1] if specific else next(iter(segment.heads), None)


def where(locations: FloatArray, boxes: FloatArray) -> str:
    """The centre of the weights in words: `upper left`, `centre`."""
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    across, down = (locations @ middles) / max(float(locations.sum()), 1e-12)
    row = "upper" if down < 0.4 else "lower" if down > 0.6 else ""
    column = "left" if across < 0.4 else "right" if across > 0.6 else ""
    return f"{row} {column or 'middle'}" if row else column or "centre"


def peak_text(segment: SegmentExplanation, name: str, word: int) -> str:
    """The peak as a line of text."""
    found = peak(segment, name, word)
    if found.times_uniform or len(segment.heads[name].times) == 1:
        text = "flat over time"
    else:
        text = f"most at {found.seconds + 1e-9:.1f} s ({found.share:.0%})"  # as the page rounds
    return f"{text}, {found.where}" if found.where else text


def flat_notes(segment: SegmentExplanation) -> list[str]:
    """A line for each head whose weights hardly differ from even for some words: they show nothing."""
    lines = []
    for name, head in segment.heads.items():
        peaks = [peak(segment, name, word) for word in range(len(segment.words))] if head.weights[0].size > 1 else []
        count = sum((one.times_uniform or len(head.times) == 1) and one.locations_uniform for one in peaks)
        if count:
            lines.append(
                f"{name}: attention is flat for {count} of {len(peaks)} words; its weights hardly differ from even "
                "and are no evidence"
            )
    return lines


def frame_times(segment: SegmentExplanation, most: int) -> list[float]:
    """Times of the frames to show: peaks and marks, then others, evenly chosen, up to `most`."""
    wanted = [peak(segment, name, word).seconds for name in segment.heads for word in range(len(segment.words))]
    wanted += [mark.seconds for mark in segment.marks]
    chosen = sorted({round(seconds, 3) for seconds in wanted})
    if len(chosen) > most:  # evenly chosen
        return [chosen[int(row)] for row in np.linspace(0, len(chosen) - 1, most).round()]
    times = {round(float(time), 3) for head in segment.heads.values() for time in head.times}
    times |= {round(float(time), 3) for time in np.linspace(segment.start, segment.end, 12, endpoint=False)}
    rest = sorted(times - set(chosen))
    free = min(most - len(chosen), len(rest))
    spread = [rest[int(row)] for row in np.linspace(0, len(rest) - 1, free).round()] if free else []
    return sorted({*chosen, *spread})
