"""Streams of one segment of video after the other, while it is decoded and segmented once.

Where a segment ends is known only some seconds later, so the frames that its streams may need are held back: so many a
second, of the segments that are not done, and no more. A video of any length goes through the same memory.

`find_shots` finds the cuts alone, with TransNetV2: it reads every frame and holds a few hundred.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from watchword.backbones.transnet import HEIGHT, WIDTH, TransNet
from watchword.backbones.weights import load_weights
from watchword.config import Settings
from watchword.features.extraction import CHUNK, Extraction, ahead
from watchword.features.extractors import EXTRACTORS, joined
from watchword.features.samplers import SAMPLERS, Extracted, ImageCache, ImageSampler, on_screen
from watchword.features.specs import AudioSpec, StreamSpec, WindowSpec
from watchword.types import FloatArray, Frames, StreamArrays
from watchword.video import (
    Plan,
    Rate,
    Shot,
    Squash,
    Stride,
    Timeline,
    View,
    iterate_frames,
    iterate_views,
    read_timeline,
    shots_from_cuts,
)
from watchword.video.container import Report, warn
from watchword.video.transforms import Size

PER_SECOND = 4.0  # frames held for a stream of single frames: a segment of 7 s has the default 28
CUTS = "cuts"


class SegmentFinder(Protocol):
    """Finds where segments begin and end, in a view of its own."""

    plan: Plan
    size: Size

    def feed(self, frames: Frames) -> list[tuple[float, float]]: ...
    def finish(self) -> list[tuple[float, float]]: ...


@dataclass(frozen=True)
class From:
    """Another plan from the second `start` on: what was described before is not decoded again."""

    plan: Plan
    start: float

    def times(self, timeline: Timeline) -> FloatArray:
        times = self.plan.times(timeline)
        return times[min(np.searchsorted(times, self.start - 1e-6), len(times) - 1) :]


class _Held:
    """The frames of one spec that a coming segment may need."""

    def __init__(self, spec: StreamSpec, sampler: ImageSampler) -> None:
        self.spec, self.sampler = spec, sampler
        self.sizes = sampler.views()
        self.frames: dict[str, list[tuple[float, Any]]] = {view: [] for view in self.sizes}  # (time, picture)

    @property
    def plan(self) -> Plan:
        wanted = self.spec.frame_rate if isinstance(self.spec, WindowSpec) else PER_SECOND
        return Rate(max(wanted, self.spec.per_second or 0.0))

    def add(self, frames: Frames, view: str) -> None:
        self.frames[view] += zip(frames.times.tolist(), frames.pictures, strict=True)

    def reaches(self, end: float) -> bool:
        return all(frames and frames[-1][0] >= end - 1e-6 for frames in self.frames.values())

    def drop_before(self, end: float) -> None:
        """Drops the frames before `end`, but not the one that is on screen then."""
        for view, frames in self.frames.items():
            later = [index for index, (time, _) in enumerate(frames) if time > end + 1e-6]
            self.frames[view] = frames[max(0, (later[0] if later else len(frames)) - 1) :]

    def extract(self, start: float, end: float) -> Iterator[Extracted]:
        """The network's outputs for a segment, as for a video of its own."""
        own = {
            view: [frame for frame in frames if start - 1e-6 <= frame[0] < end - 1e-6] or frames[:1]
            for view, frames in self.frames.items()
        }
        timeline = Timeline(np.array([time for time, _ in own[""]]) - start, end - start)
        shown = on_screen(timeline, self.sampler.times(timeline)).tolist()
        for begin in range(0, len(shown), CHUNK):
            part = shown[begin : begin + CHUNK]
            for view, frames in own.items():
                pictures = np.stack([frames[index][1] for index in part])
                yield from self.sampler.see(Frames(pictures, timeline.times[part]), view)


def extract_segments(
    extraction: Extraction,
    path: Path,
    streams: Sequence[str],
    finder: SegmentFinder,
    warnings: list[str],
    start: float = 0.0,
    most: int | None = None,
) -> Iterator[tuple[float, float, dict[str, StreamArrays]]]:
    """(start, end, streams whose times count from the start) of each segment, in order; `most` as `arrays` has it."""
    users: dict[Settings, list[str]] = defaultdict(list)  # streams by spec: equal specs share their passes
    for stream in streams:
        users[extraction.job.specs[stream]].append(stream)
    cache = ImageCache()
    held = {
        str(number): _Held(spec, SAMPLERS[type(spec)](spec, extraction.networks, most, cache))
        for number, spec in enumerate(users)
        if isinstance(spec, StreamSpec)
    }
    audio_specs = [spec for spec in users if isinstance(spec, AudioSpec)]
    audio = {spec: _AudioFeatures(extraction.audio(path, spec, warnings, start)) for spec in audio_specs}

    @torch.no_grad()
    def segment(begin: float, end: float) -> tuple[float, float, dict[str, StreamArrays]]:
        parts: dict[str, list[StreamArrays]] = defaultdict(list)
        cache.clear()
        for one in held.values():
            for extracted in one.extract(begin, end):
                for stream in users[one.spec]:
                    for suffix, part in EXTRACTORS[stream].keep(extracted).items():
                        parts[stream + suffix].append(part)
            one.drop_before(end)
        arrays = {name: joined(some) for name, some in parts.items()}
        for spec, sound in audio.items():
            arrays |= {stream: sound.between(begin, end) for stream in users[spec]}
        return begin, end, arrays

    views = {CUTS: View(From(finder.plan, start), finder.size)}
    views |= {
        f"{name}/{view}": View(From(one.plan, start), size)
        for name, one in held.items()
        for view, size in one.sizes.items()
    }
    waiting: list[tuple[float, float]] = []
    for name, frames in ahead(iterate_views(path, views, chunk=CHUNK, report=warnings.append)):
        if name == CUTS:
            waiting += finder.feed(frames)
        else:
            number, _, view = name.partition("/")
            held[number].add(frames, view)
        while waiting and all(one.reaches(waiting[0][1]) for one in held.values()):
            yield segment(*waiting.pop(0))
    for begin, end in waiting + finder.finish():
        yield segment(begin, end)


class _AudioFeatures:
    """Audio features of a video, extracted as far as its segments need."""

    def __init__(self, extracted: Iterator[Extracted]) -> None:
        self.extracted = extracted
        self.parts: list[StreamArrays] = []

    def between(self, start: float, end: float) -> StreamArrays:
        while not self.parts or not len(self.parts[-1].times) or self.parts[-1].times[-1] < end:
            with torch.no_grad():
                extracted = next(self.extracted, None)
            if extracted is None:
                break
            self.parts.append(EXTRACTORS["audio"].keep(extracted)[""])
        whole = joined(self.parts)
        inside = (whole.times >= start) & (whole.times < end)
        later = whole.times >= end
        self.parts = [StreamArrays(whole.values[later], whole.times[later], whole.boxes)]
        return StreamArrays(whole.values[inside], whole.times[inside] - start, whole.boxes)


SHOT_CHUNK = 256  # frames that `find_shots` holds


def find_shots(path: Path, network: TransNet | None = None, *, report: Report = warn) -> list[Shot]:
    """The shots of a video, in order. `video.histogram_shots` does without weights."""
    network = network or TransNet(load_weights("transnetv2"))
    times: list[FloatArray] = []

    def pictures() -> Iterator[Tensor]:
        for frames in iterate_frames(path, Stride(1), Squash(WIDTH, HEIGHT), chunk=SHOT_CHUNK, report=report):
            times.append(frames.times)
            yield torch.from_numpy(frames.pictures)

    end = read_timeline(path, lambda line: None).end  # what is wrong with it is reported once, below
    cuts = torch.cat(list(network.stream(pictures())))  # (F,)
    return shots_from_cuts(cuts.numpy(), np.concatenate(times), end=end)
