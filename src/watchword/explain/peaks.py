"""The peak of attention for each word: the time step and the part of the picture with the largest weight."""

from dataclasses import dataclass

import numpy as np

from watchword.explain.attention import HeadAttention, SegmentExplanation
from watchword.types import FloatArray

UNIFORM = 1.02  # largest weight / mean weight: below, the weights count as uniform
HOT = 4.0  # times the uniform weight: the strongest colour of a timeline


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
    seen = peak(segment, name, word)
    if seen.times_uniform or len(segment.heads[name].times) == 1:
        text = "uniform over time"
    else:
        text = f"most at {seen.seconds + 1e-9:.1f} s ({seen.share:.0%})"  # as the page rounds
    return f"{text}, {seen.where}" if seen.where else text


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
