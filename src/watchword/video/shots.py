"""Shots by colour histogram: cheap, streaming, no weights. TransNetV2 in `backbones` is more accurate.

A cut is a frame whose colours differ from the frame before by much, and by much more than neighbouring frames differ
from each other: the second part keeps fast motion, flicker and hand-held cameras from being taken for cuts.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchword.types import FloatArray, Frames

LEVELS = 8  # of each colour channel
BLOCKS = 2  # a picture is compared in BLOCKS x BLOCKS parts: the same colours elsewhere are another picture
WINDOW = 3  # frames on each side whose median difference is usual here


@dataclass(frozen=True)
class Shot:
    """A segment of video without a cut, seconds: from its first frame to the first frame of the next."""

    start: float
    end: float


class HistogramCuts:
    """Cuts of a video that comes in chunks of small frames (about 64 x 48, 8 a second or more), once, in order.

    A cut needs a difference (0..1) of at least `threshold` that is `contrast` times the median of its neighbours, and
    comes `minimum_seconds` or more after the one before.
    """

    def __init__(self, *, minimum_seconds: float = 0.6, threshold: float = 0.4, contrast: float = 3.0) -> None:
        self.minimum_seconds, self.threshold, self.contrast = minimum_seconds, threshold, contrast
        self.start: float | None = None  # of the current shot
        self.settled = float("-inf")  # up to here nothing more will be found
        self.before: FloatArray | None = None  # colours of the last frame
        self.window: deque[tuple[float, float]] = deque()  # (time, difference) of some frames
        self.centre = 0  # of the window: the frame to test next

    def feed(self, frames: Frames) -> list[float]:
        """The cuts that are certain now: each is the time of a shot's first frame."""
        found = []
        for change in self._changes(frames):
            self.window.append(change)
            if len(self.window) - self.centre > WINDOW:
                found += self._cut_at(self.centre)
                self.centre += 1
            if self.centre > WINDOW:
                self.window.popleft()
                self.centre -= 1
        return found

    def finish(self) -> list[float]:
        """The cuts among the last frames, which have fewer neighbours."""
        found = [cut for index in range(self.centre, len(self.window)) for cut in self._cut_at(index)]
        self.centre = len(self.window)
        return found

    def _changes(self, frames: Frames) -> Iterator[tuple[float, float]]:
        """(time, how much of the picture changed its colour since the frame before, 0..1); 0 for the first."""
        colours = histograms(frames.pictures)  # (F, BLOCKS^2, LEVELS^3)
        joined = np.concatenate([colours[:1] if self.before is None else self.before, colours])
        changes = np.abs(np.diff(joined, axis=0)).sum(2).mean(1) / 2  # (F,)
        self.before = colours[-1:]
        return zip(frames.times.tolist(), changes.tolist(), strict=True)

    def _cut_at(self, centre: int) -> list[float]:
        """The time of a frame of the window if it begins a shot, by the median difference of the frames around it."""
        changes = list(self.window)
        time, difference = changes[centre]
        around = changes[max(0, centre - WINDOW) : centre] + changes[centre + 1 : centre + 1 + WINDOW]
        usual = float(np.median([other for _, other in around])) if around else 0.0
        self.settled = time
        if self.start is None:
            self.start = time
            return []
        is_cut = difference >= self.threshold and difference >= self.contrast * usual
        if not is_cut or time - self.start < self.minimum_seconds:
            return []
        self.start = time
        return [time]


def histogram_shots(
    frames: Iterable[Frames],
    *,
    end: float | None = None,
    minimum_seconds: float = 0.6,
    threshold: float = 0.4,
    contrast: float = 3.0,
) -> list[Shot]:
    """The shots of a video, read once.

    `end` is the video's end where it is known; otherwise the last frame counts as long as the one before.
    """
    cuts = HistogramCuts(minimum_seconds=minimum_seconds, threshold=threshold, contrast=contrast)
    starts: list[float] = []
    times: deque[float] = deque(maxlen=2)
    for chunk in frames:
        starts += [] if times else chunk.times[:1].tolist()
        starts += cuts.feed(chunk)
        times.extend(chunk.times[-2:].tolist())
    starts += cuts.finish()
    if not starts:
        return []
    finish = end if end is not None else times[-1] + (times[-1] - times[0])
    if len(starts) > 1 and finish - starts[-1] < minimum_seconds:
        starts.pop()  # too short to be a shot of its own
    return [Shot(start, stop) for start, stop in zip(starts, [*starts[1:], finish], strict=True)]


def shots_from_cuts(cuts: FloatArray, times: FloatArray, *, end: float, threshold: float = 0.5) -> list[Shot]:
    """Shots from the probability of every frame to be the last of its shot, as TransNetV2 computes it.

    A run of likely frames is one transition, and belongs to the shot that it ends.
    """
    likely = np.asarray(cuts) > threshold  # (F,)
    begins = np.flatnonzero(likely[:-1] & ~likely[1:]) + 1
    starts = [float(time) for time in times[[0, *begins.tolist()]]] if len(times) else []
    return [Shot(start, stop) for start, stop in zip(starts, [*starts[1:], end], strict=False)]


def histograms(pictures: NDArray[np.uint8]) -> FloatArray:
    """(F, H, W, 3) -> (F, BLOCKS^2, LEVELS^3): the share of each colour in each part of each picture."""
    num_frames, height, width, _ = pictures.shape
    red, green, blue = np.moveaxis(pictures // (256 // LEVELS), -1, 0).astype(np.int64)
    row = np.arange(height) * BLOCKS // height
    column = np.arange(width) * BLOCKS // width
    block = row[:, None] * BLOCKS + column  # (H, W)
    place = np.arange(num_frames)[:, None, None] * BLOCKS**2 + block  # (F, H, W)
    bins = ((place * LEVELS + red) * LEVELS + green) * LEVELS + blue
    counts = np.bincount(bins.ravel(), minlength=num_frames * BLOCKS**2 * LEVELS**3)
    shares = counts.reshape(num_frames, BLOCKS**2, LEVELS**3).astype(np.float32)
    shares /= np.maximum(shares.sum(2, keepdims=True), 1)  # a picture of one row has empty parts
    return shares
