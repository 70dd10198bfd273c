"""Streams of one stretch of film after the other, while it is decoded once and cut into stretches on the way.

Where a stretch ends is known only some seconds later, so the frames that its streams may need are held back: so many a
second, of the stretches that are not done, and no more. A film of any length goes through the same memory.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch

from watchword.config import Settings
from watchword.features.extraction import CHUNK, Extraction, ahead
from watchword.features.extractors import EXTRACTORS, joined
from watchword.features.looks import Look, SoundLook, WindowLook
from watchword.features.watching import WATCHERS, ImageCache, Moments, PictureWatcher, on_screen
from watchword.types import FloatArray, Frames, StreamArrays
from watchword.video import Plan, Rate, Timeline, View, watch
from watchword.video.transforms import Size

PER_SECOND = 4.0  # frames held for a look at single pictures: a stretch of 7 s has all 28 that are usually asked for
CUTS = "cuts"


class Cutting(Protocol):
    """Says where stretches begin and end. It has a view of its own, of frames as small as it likes."""

    plan: Plan
    size: Size

    def feed(self, frames: Frames) -> list[tuple[float, float]]: ...
    def finish(self) -> list[tuple[float, float]]: ...


@dataclass(frozen=True)
class From:
    """Another plan from a second on: a film that was described up to there is not seen again."""

    plan: Plan
    start: float

    def times(self, timeline: Timeline) -> FloatArray:
        times = self.plan.times(timeline)
        return times[min(np.searchsorted(times, self.start - 1e-6), len(times) - 1) :]


class _Held:
    """The frames of one look that a coming stretch may need."""

    def __init__(self, look: Look, watcher: PictureWatcher) -> None:
        self.look, self.watcher = look, watcher
        self.sizes = watcher.views()
        self.frames: dict[str, list[tuple[float, Any]]] = {view: [] for view in self.sizes}  # (time, picture)

    @property
    def plan(self) -> Plan:
        wanted = self.look.frame_rate if isinstance(self.look, WindowLook) else PER_SECOND
        return Rate(max(wanted, self.look.per_second or 0.0))

    def add(self, frames: Frames, view: str) -> None:
        self.frames[view] += zip(frames.times.tolist(), frames.pictures, strict=True)

    def reaches(self, end: float) -> bool:
        return all(frames and frames[-1][0] >= end - 1e-6 for frames in self.frames.values())

    def forget(self, end: float) -> None:
        """Nothing before `end` will be asked for, but the frame that is on screen then."""
        for view, frames in self.frames.items():
            later = [index for index, (time, _) in enumerate(frames) if time > end + 1e-6]
            self.frames[view] = frames[max(0, (later[0] if later else len(frames)) - 1) :]

    def see(self, start: float, end: float) -> Iterator[Moments]:
        """What the network makes of a segment, as of a video of its own."""
        own = {
            view: [frame for frame in frames if start - 1e-6 <= frame[0] < end - 1e-6] or frames[:1]
            for view, frames in self.frames.items()
        }
        timeline = Timeline(np.array([time for time, _ in own[""]]) - start, end - start)
        shown = on_screen(timeline, self.watcher.times(timeline)).tolist()
        for begin in range(0, len(shown), CHUNK):
            part = shown[begin : begin + CHUNK]
            for view, frames in own.items():
                pictures = np.stack([frames[index][1] for index in part])
                yield from self.watcher.see(Frames(pictures, timeline.times[part]), view)


def extract_stretches(
    extraction: Extraction,
    path: Path,
    streams: Sequence[str],
    cutting: Cutting,
    warnings: list[str],
    start: float = 0.0,
    most: int | None = None,
) -> Iterator[tuple[float, float, dict[str, StreamArrays]]]:
    """(start, end, streams whose times count from the start) of each stretch, in order; `most` as `arrays` has it."""
    users: dict[Settings, list[str]] = defaultdict(list)  # streams by look: equal looks are seen once
    for stream in streams:
        users[extraction.job.looks[stream]].append(stream)
    cache = ImageCache()
    held = {
        str(number): _Held(look, WATCHERS[type(look)](look, extraction.networks, most, cache))
        for number, look in enumerate(users)
        if isinstance(look, Look)
    }
    sounds = [look for look in users if isinstance(look, SoundLook)]
    heard = {look: _Heard(extraction.heard(path, look, warnings, start)) for look in sounds}

    @torch.no_grad()
    def stretch(begin: float, end: float) -> tuple[float, float, dict[str, StreamArrays]]:
        parts: dict[str, list[StreamArrays]] = defaultdict(list)
        cache.clear()
        for one in held.values():
            for moments in one.see(begin, end):
                for stream in users[one.look]:
                    for suffix, part in EXTRACTORS[stream].keep(moments).items():
                        parts[stream + suffix].append(part)
            one.forget(end)
        arrays = {name: joined(some) for name, some in parts.items()}
        for look, sound in heard.items():
            arrays |= {stream: sound.between(begin, end) for stream in users[look]}
        return begin, end, arrays

    views = {CUTS: View(From(cutting.plan, start), cutting.size)}
    views |= {
        f"{name}/{view}": View(From(one.plan, start), size)
        for name, one in held.items()
        for view, size in one.sizes.items()
    }
    waiting: list[tuple[float, float]] = []
    for name, frames in ahead(watch(path, views, chunk=CHUNK, report=warnings.append)):
        if name == CUTS:
            waiting += cutting.feed(frames)
        else:
            number, _, view = name.partition("/")
            held[number].add(frames, view)
        while waiting and all(one.reaches(waiting[0][1]) for one in held.values()):
            yield stretch(*waiting.pop(0))
    for begin, end in waiting + cutting.finish():
        yield stretch(begin, end)


class _Heard:
    """The sound of a film, listened to as far as the pictures have come."""

    def __init__(self, moments: Iterator[Moments]) -> None:
        self.moments = moments
        self.parts: list[StreamArrays] = []

    def between(self, start: float, end: float) -> StreamArrays:
        while not self.parts or not len(self.parts[-1].times) or self.parts[-1].times[-1] < end:
            with torch.no_grad():
                moments = next(self.moments, None)
            if moments is None:
                break
            self.parts.append(EXTRACTORS["audio"].keep(moments)[""])
        whole = joined(self.parts)
        inside = (whole.times >= start) & (whole.times < end)
        later = whole.times >= end
        self.parts = [StreamArrays(whole.values[later], whole.times[later], whole.boxes)]
        return StreamArrays(whole.values[inside], whole.times[inside] - start, whole.boxes)
