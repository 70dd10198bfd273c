"""Shots by colour histogram: cheap, streaming, no weights. TransNetV2 in `backbones` is the careful way.

A cut is a frame whose colours differ from the frame before by much, and by much more than neighbouring frames differ
from each other: the second part keeps fast motion, flicker and hand-held cameras from being taken for cuts.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from watchword.records import FloatArray, Frames

LEVELS = 8        # of each colour channel
BLOCKS = 2        # a picture is compared in BLOCKS x BLOCKS parts: the same colours elsewhere are another picture
WINDOW = 3        # frames on each side that say what is usual here


@dataclass(frozen=True)
class Shot:
    """A stretch of film without a cut, seconds: from its first frame to the first frame of the next."""

    start: float
    end: float


def histogram_shots(
    frames: Iterable[Frames],
    *,
    end: float | None = None,
    minimum_seconds: float = 0.6,
    threshold: float = 0.4,
    contrast: float = 3.0,
) -> list[Shot]:
    """Shots of a film given as chunks of small frames (about 64 x 48, 8 a second or more), read once, in order.

    `end` is the film's end where it is known; otherwise the last frame counts as long as the one before.
    A cut needs a difference (0..1) of at least `threshold` that is `contrast` times the median of its neighbours.
    """
    starts: list[float] = []
    times: deque[float] = deque(maxlen=2)
    for time, difference, usual in _with_neighbours(_differences(frames)):
        is_cut = difference >= threshold and difference >= contrast * usual
        if not starts or (is_cut and time - starts[-1] >= minimum_seconds):
            starts.append(time)
        times.append(time)
    if not starts:
        return []
    finish = end if end is not None else times[-1] + (times[-1] - times[0])
    if len(starts) > 1 and finish - starts[-1] < minimum_seconds:
        starts.pop()  # too short to be a shot of its own
    return [Shot(start, stop) for start, stop in zip(starts, [*starts[1:], finish], strict=True)]


def shots_from_cuts(cuts: FloatArray, times: FloatArray, *, end: float, threshold: float = 0.5) -> list[Shot]:
    """Shots from what a network such as TransNetV2 says of every frame: how likely it is the last of its shot.

    A run of likely frames is one transition, and belongs to the shot that it ends.
    """
    likely = np.asarray(cuts) > threshold  # (F,)
    begins = np.flatnonzero(likely[:-1] & ~likely[1:]) + 1
    starts = [float(time) for time in times[[0, *begins.tolist()]]] if len(times) else []
    return [Shot(start, stop) for start, stop in zip(starts, [*starts[1:], end], strict=False)]


def _differences(chunks: Iterable[Frames]) -> Iterator[tuple[float, float]]:
    """(time, how much of the picture changed its colour since the frame before, 0..1); 0 for the first."""
    before: FloatArray | None = None
    for chunk in chunks:
        colours = histograms(chunk.pictures)  # (F, BLOCKS^2, LEVELS^3)
        joined = np.concatenate([colours[:1] if before is None else before, colours])
        changes = np.abs(np.diff(joined, axis=0)).sum(2).mean(1) / 2  # (F,)
        yield from zip(chunk.times.tolist(), changes.tolist(), strict=True)
        before = colours[-1:]


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


def _with_neighbours(changes: Iterable[tuple[float, float]]) -> Iterator[tuple[float, float, float]]:
    """(time, difference, median difference of the frames around it), the frame itself left out."""
    window: deque[tuple[float, float]] = deque()
    centre = 0  # of the window: the frame to give next
    for change in changes:
        window.append(change)
        if len(window) - centre > WINDOW:
            yield _beside(window, centre)
            centre += 1
        if centre > WINDOW:
            window.popleft()
            centre -= 1
    for index in range(centre, len(window)):
        yield _beside(window, index)


def _beside(window: Iterable[tuple[float, float]], centre: int) -> tuple[float, float, float]:
    changes = list(window)
    around = changes[max(0, centre - WINDOW) : centre] + changes[centre + 1 : centre + 1 + WINDOW]
    usual = float(np.median([difference for _, difference in around])) if around else 0.0
    return (*changes[centre], usual)
