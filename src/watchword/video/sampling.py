"""Sampling plans: times of a video as functions of its timeline. A plan's repr is part of a store's key."""

from dataclasses import dataclass
from math import ceil, isfinite
from typing import Protocol

import numpy as np

from watchword.errors import WatchwordError
from watchword.types import FloatArray
from watchword.video.timeline import Timeline


class Plan(Protocol):
    """Ascending times in seconds from the video's start, at least one. The frame shown at each is read."""

    def times(self, timeline: Timeline) -> FloatArray: ...


@dataclass(frozen=True)
class Uniform:
    """The middles of `count` equal parts of the video. Always `count` frames: a short video shows some twice."""

    count: int

    def __post_init__(self) -> None:
        _at_least_one("uniform sampling", self.count)

    def times(self, timeline: Timeline) -> FloatArray:
        begin = float(timeline.times[0])
        return begin + (np.arange(self.count) + 0.5) * ((timeline.end - begin) / self.count)


@dataclass(frozen=True)
class Ends:
    """`count` frames from the first to the last, evenly by number: `linspace(0, N - 1, count)` made whole."""

    count: int

    def __post_init__(self) -> None:
        _at_least_one("sampling from end to end", self.count)

    def times(self, timeline: Timeline) -> FloatArray:
        return timeline.times[np.linspace(0, len(timeline.times) - 1, self.count).astype(np.int64)]


@dataclass(frozen=True)
class Rate:
    """At most `per_second` frames a second, beginning with the first; a frame is taken once, however long it is shown.

    The cost is that of the frames, not of the seconds: one slide on screen for four hours is one frame.
    """

    per_second: float

    def __post_init__(self) -> None:
        if not (isfinite(self.per_second) and self.per_second > 0):
            raise WatchwordError(f"sampling by rate takes a number of frames a second above 0, not {self.per_second}")

    def times(self, timeline: Timeline) -> FloatArray:
        begin = float(timeline.times[0])
        count = ceil((timeline.end - begin) * self.per_second - 1e-6)  # the end itself is not part of the video
        steps = np.unique(np.ceil((timeline.times - begin - 1e-6) * self.per_second))  # the first that shows each frame
        return begin + steps[steps < max(count, 1)] / self.per_second


@dataclass(frozen=True)
class Stride:
    """Every `step`-th frame, by number, beginning with the first."""

    step: int

    def __post_init__(self) -> None:
        _at_least_one("sampling by stride", self.step)

    def times(self, timeline: Timeline) -> FloatArray:
        return timeline.times[:: self.step]


@dataclass(frozen=True)
class Spaced:
    """Every `step`-th frame where `count` of them reach the end; `count` frames wider apart where they do not."""

    count: int
    step: int

    def __post_init__(self) -> None:
        _at_least_one("spaced sampling", self.count)
        _at_least_one("spaced sampling", self.step)

    def times(self, timeline: Timeline) -> FloatArray:
        frames = len(timeline.times)
        if frames <= self.count * self.step:
            return timeline.times[:: self.step]
        return timeline.times[np.arange(self.count) * frames // self.count]


@dataclass(frozen=True)
class At:
    """These times, ascending. Before the video is its first frame, after it the last."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.seconds or not all(map(isfinite, self.seconds)) or list(self.seconds) != sorted(self.seconds):
            raise WatchwordError(f"times to look at must be ascending seconds, at least one, not {self.seconds[:5]}")

    def times(self, timeline: Timeline) -> FloatArray:
        return np.array(self.seconds, np.float64)


def _at_least_one(what: str, count: int) -> None:
    if count < 1:
        raise WatchwordError(f"{what} takes a whole number from 1 up, not {count}")
