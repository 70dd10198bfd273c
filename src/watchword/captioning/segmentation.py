"""Cutting a video into segments that one caption can describe: at cuts where possible, else at fixed lengths."""

import ctypes
import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from watchword.backbones.transnet import HEIGHT, MARGIN, WIDTH, WINDOW, TransNet
from watchword.backbones.weights import is_present, load_weights
from watchword.types import FloatArray, Frames
from watchword.video import HistogramCuts, Plan, Rate, Squash, Timeline
from watchword.video.shots import histograms
from watchword.video.transforms import Size

MIN_SECONDS = 3.0  # a shorter shot is merged with the next one
MAX_SECONDS = 20.0  # a longer shot is split ...
SPLIT_SECONDS = 10.0  # ... into parts of this length: the clips that captioners are trained on have 10 to 30 s
LAG = 12  # frames between which colours are compared: half a second
STATIC = 0.15  # share of the picture that may change its colour within LAG frames of a shot without a cut


class SegmentBuilder:
    """Cuts to segments: at least `MIN_SECONDS` long, unless the video is shorter, and shorter than `MAX_SECONDS`.

    A frame that is shown for longer is a gap in the video's time stamps: it is not split.
    A segment is given as soon as it is certain that the next one will not be merged into it.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.start = start  # of the current segment
        self.gaps: deque[tuple[float, float]] = deque()  # when one frame is shown for MAX_SECONDS or more
        self.ready: tuple[float, float] | None = None  # complete, but the next one may be too short to stand alone

    def feed(self, cuts: Sequence[float], settled: float) -> list[tuple[float, float]]:
        """`cuts` in order, all that there are up to `settled`."""
        given = []
        for cut in cuts:
            given += self._split(cut)
            if cut - self.start >= MIN_SECONDS:
                given += self._close(cut)
        given += self._split(settled)
        if self.ready and settled - self.start >= MIN_SECONDS:
            given.append(self.ready)
            self.ready = None
        return given

    def finish(self, end: float) -> list[tuple[float, float]]:
        given = self._split(end)
        if (
            self.ready and end - self.start < MIN_SECONDS
        ):  # a rest that is too short is merged with the segment before it
            return [*given, (self.ready[0], end)]
        last = [(self.start, end)] if end > self.start else []
        return given + ([self.ready] if self.ready else []) + last

    def _split(self, until: float) -> list[tuple[float, float]]:
        given = []
        while until - self.start >= MAX_SECONDS:
            given += self._close(self._split_time())
        return given

    def _split_time(self) -> float:
        """Where a segment that is too long ends: where a gap begins or ends, if one is near."""
        end = self.start + SPLIT_SECONDS
        while self.gaps and self.gaps[0][1] <= self.start:
            self.gaps.popleft()
        if self.gaps and self.gaps[0][0] < end:
            begin, after = self.gaps[0]
            return begin if begin - self.start >= MIN_SECONDS else after
        return end

    def _close(self, end: float) -> list[tuple[float, float]]:
        given = [self.ready] if self.ready else []
        self.ready, self.start = (self.start, end), end
        return given


class CutDetector(Protocol):
    """Finds the times of cuts in frames that arrive in chunks."""

    settled: float

    def feed(self, frames: Frames) -> list[float]: ...
    def finish(self) -> list[float]: ...


class Segmenter:
    """A cut detector and the segments of its cuts; `plan` and `size` are the frames that the detector reads."""

    def __init__(self, cuts: CutDetector, plan: Plan, size: Size, start: float, end: float) -> None:
        self.cuts, self.plan, self.size, self.end = cuts, plan, size, end
        self.segments = SegmentBuilder(start)
        self.last_time = start  # of the last frame

    def feed(self, frames: Frames) -> list[tuple[float, float]]:
        self._note_gaps(frames.times.tolist())
        found = self.cuts.feed(frames)
        return self.segments.feed(found, min(self.cuts.settled, self.end))

    def _note_gaps(self, times: Sequence[float]) -> None:
        steps = pairwise([self.last_time, *times])
        self.segments.gaps.extend(step for step in steps if step[1] - step[0] >= MAX_SECONDS)
        self.last_time = times[-1]

    def finish(self) -> list[tuple[float, float]]:
        self._note_gaps([self.end])
        found = [cut for cut in self.cuts.finish() if cut < self.end]
        return self.segments.feed(found, self.end) + self.segments.finish(self.end)


def segment_video(start: float, end: float) -> Segmenter:
    """With TransNetV2 where its weights are installed, else with colour histograms."""
    if is_present("transnetv2"):
        network = TransNet(load_weights("transnetv2"))
        return Segmenter(TransNetCuts(network), EveryFrame(), Squash(WIDTH, HEIGHT), start, end)
    return Segmenter(HistogramCuts(), Rate(8.0), Squash(64, 48), start, end)


@dataclass(frozen=True)
class EveryFrame:
    """All frames, as in TransNetV2's training; 25 a second of a video with more than 30."""

    def times(self, timeline: Timeline) -> FloatArray:
        rate = len(timeline.times) / max(timeline.end - float(timeline.times[0]), 1e-6)
        return timeline.times if rate <= 30.5 else Rate(25.0).times(timeline)


class TransNetCuts:
    """TransNetV2 over a video that arrives in chunks: windows of 100 frames, of which the middle 50 are used.

    A window takes a CPU second. One without change is skipped: where no frame's colours differ from those half a second
    earlier, there is no cut and no dissolve.
    """

    def __init__(self, network: TransNet, threshold: float = 0.5) -> None:
        self.network, self.threshold = network, threshold
        self.settled = float("-inf")
        self.pictures: list[torch.Tensor] = []  # each (27, 48, 3)
        self.times: list[float] = []
        self.next = 0  # among the held frames: the first without a prediction
        self.was_likely = False  # the frame before ends a shot

    def feed(self, frames: Frames) -> list[float]:
        self.pictures += torch.from_numpy(frames.pictures).unbind(0)
        self.times += frames.times.tolist()
        found = []
        while len(self.times) >= self.next + WINDOW - MARGIN:
            found += self._predict(WINDOW - 2 * MARGIN)
        return found

    def finish(self) -> list[float]:
        found = []
        while self.next < len(self.times):
            found += self._predict(min(WINDOW - 2 * MARGIN, len(self.times) - self.next))
        return found

    def _predict(self, count: int) -> list[float]:
        """The next `count` frames. The first and last frame of the video are repeated beyond its ends."""
        places = range(self.next - MARGIN, self.next - MARGIN + WINDOW)
        window = torch.stack([self.pictures[min(max(place, 0), len(self.times) - 1)] for place in places])
        likely = [False] * count
        if changes(window.numpy()):
            likely = (self.network(window.unsqueeze(0))[0, MARGIN : MARGIN + count].sigmoid() > self.threshold).tolist()
        found = []
        for time, is_likely in zip(self.times[self.next :], likely, strict=False):
            if self.was_likely and not is_likely:  # a transition belongs to the shot that it ends
                found.append(time)
            self.was_likely, self.settled = is_likely, time
        self.next += count
        passed = max(0, self.next - MARGIN)  # the margin of the next window
        del self.pictures[:passed], self.times[:passed]
        self.next -= passed
        return found


def changes(pictures: NDArray[np.uint8]) -> bool:
    """Whether the middle of a window, with half a second on each side, may hold a cut or a dissolve."""
    colours = histograms(pictures[MARGIN - LAG : len(pictures) - MARGIN + LAG])  # (F, blocks, colours)
    differences = np.abs(colours[LAG:] - colours[:-LAG]).sum(2).mean(1) / 2  # (F - LAG,)
    return bool(differences.max() > STATIC)


def trim_heap() -> None:
    """Returns freed memory to the system. glibc keeps it in a heap for each thread: without this, the second half
    of a two-hour video took 2.5 GB, with it 0.74 GB. Other C libraries are left alone."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):
            return
