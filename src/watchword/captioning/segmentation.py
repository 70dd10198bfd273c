"""A film into stretches of a length that one sentence can hold: at its cuts where it can, elsewhere where it must."""

from collections.abc import Sequence
from dataclasses import dataclass
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

SHORTEST = 3.0   # seconds: a shorter shot goes with the next one
LONGEST = 20.0   # seconds: of a longer shot ...
USUAL = 10.0     # ... so much is taken off, again and again: the captioners' clips are 10 to 30 s long


BEFORE = 12      # frames: half a second
STILL = 0.15     # of the picture that may change its colour in half a second of a shot without a cut


class Stretches:
    """Cuts become stretches. None is shorter than `SHORTEST`, unless the film is; none as long as `LONGEST` and more.

    A stretch is given as soon as it is sure that what follows will not have to be joined to it.
    """

    def __init__(self, start: float = 0.0) -> None:
        self.start = start                                 # of the stretch that is going on
        self.ready: tuple[float, float] | None = None      # whole, but what follows may be too short to stand alone

    def feed(self, cuts: Sequence[float], settled: float) -> list[tuple[float, float]]:
        """`cuts` in order, all that there are up to `settled`."""
        given = []
        for cut in cuts:
            given += self._split(cut)
            if cut - self.start >= SHORTEST:
                given += self._close(cut)
        given += self._split(settled)
        if self.ready and settled - self.start >= SHORTEST:
            given.append(self.ready)
            self.ready = None
        return given

    def finish(self, end: float) -> list[tuple[float, float]]:
        given = self._split(end)
        if self.ready and end - self.start < SHORTEST:  # a rest that is too short goes with what is before it
            return [*given, (self.ready[0], end)]
        last = [(self.start, end)] if end > self.start else []
        return given + ([self.ready] if self.ready else []) + last

    def _split(self, until: float) -> list[tuple[float, float]]:
        given = []
        while until - self.start >= LONGEST:
            given += self._close(self.start + USUAL)
        return given

    def _close(self, end: float) -> list[tuple[float, float]]:
        given = [self.ready] if self.ready else []
        self.ready, self.start = (self.start, end), end
        return given


class Cuts(Protocol):
    """A detector of cuts that is fed with frames."""

    settled: float

    def feed(self, frames: Frames) -> list[float]: ...
    def finish(self) -> list[float]: ...


class CutFilm:
    """A detector and the stretches that come of its cuts; the view that the detector wants."""

    def __init__(self, cuts: Cuts, plan: Plan, size: Size, start: float, end: float) -> None:
        self.cuts, self.plan, self.size, self.end = cuts, plan, size, end
        self.stretches = Stretches(start)

    def feed(self, frames: Frames) -> list[tuple[float, float]]:
        found = self.cuts.feed(frames)
        return self.stretches.feed(found, min(self.cuts.settled, self.end))

    def finish(self) -> list[tuple[float, float]]:
        found = [cut for cut in self.cuts.finish() if cut < self.end]
        return self.stretches.feed(found, self.end) + self.stretches.finish(self.end)


def cut_film(start: float, end: float) -> CutFilm:
    """TransNetV2 where its weights are here, colour histograms where not."""
    if is_present("transnetv2"):
        network = TransNet(load_weights("transnetv2"))
        return CutFilm(NetworkCuts(network), EveryFrame(), Squash(WIDTH, HEIGHT), start, end)
    return CutFilm(HistogramCuts(), Rate(8.0), Squash(64, 48), start, end)


@dataclass(frozen=True)
class EveryFrame:
    """All frames, as TransNetV2 was trained on; of a film with more than 30 a second, 25."""

    def times(self, timeline: Timeline) -> FloatArray:
        rate = len(timeline.times) / max(timeline.end - float(timeline.times[0]), 1e-6)
        return timeline.times if rate <= 30.5 else Rate(25.0).times(timeline)


class NetworkCuts:
    """TransNetV2 over a film that comes in chunks: windows of 100 frames, of which the middle 50 count.

    A window costs a second of a core, so one in which nothing changes is not looked at: where no picture's colours
    differ from those half a second before, there is no cut and no dissolve.
    """

    def __init__(self, network: TransNet, threshold: float = 0.5) -> None:
        self.network, self.threshold = network, threshold
        self.settled = float("-inf")
        self.pictures: list[torch.Tensor] = []   # each (27, 48, 3)
        self.times: list[float] = []
        self.next = 0                            # among the held frames: the first that is not judged yet
        self.was_likely = False                  # the frame before ends a shot

    def feed(self, frames: Frames) -> list[float]:
        self.pictures += torch.from_numpy(frames.pictures).unbind(0)
        self.times += frames.times.tolist()
        found = []
        while len(self.times) >= self.next + WINDOW - MARGIN:
            found += self._judge(WINDOW - 2 * MARGIN)
        return found

    def finish(self) -> list[float]:
        found = []
        while self.next < len(self.times):
            found += self._judge(min(WINDOW - 2 * MARGIN, len(self.times) - self.next))
        return found

    def _judge(self, count: int) -> list[float]:
        """The next `count` frames. Beyond the film's ends its first and last frame stand still."""
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
        passed = max(0, self.next - MARGIN)  # enough to look back on
        del self.pictures[:passed], self.times[:passed]
        self.next -= passed
        return found


def changes(pictures: NDArray[np.uint8]) -> bool:
    """Whether a window's middle, with half a second on each side, holds anything that may be a cut or a dissolve."""
    colours = histograms(pictures[MARGIN - BEFORE : len(pictures) - MARGIN + BEFORE])  # (F, blocks, colours)
    differences = np.abs(colours[BEFORE:] - colours[:-BEFORE]).sum(2).mean(1) / 2  # (F - BEFORE,)
    return bool(differences.max() > STILL)
