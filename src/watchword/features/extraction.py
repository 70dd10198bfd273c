"""Feature extraction: each video is decoded once for all its streams, in a thread beside the networks.

extraction = Extraction(prepare(Path("features"), ["appearance", "motion"]))
outcome = extraction.extract(VideoFile("clip7", Path("clip7.mp4")))

It runs in this process, in several processes, or on a Ray cluster (`extract_here`, `extract_local`, `extract_ray`).
"""

import hashlib
import os
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from watchword.backbones.audio import PATCH_SAMPLES, SAMPLE_RATE
from watchword.config import Settings
from watchword.errors import DiskFull, WatchwordError, unknown
from watchword.features.extractors import EXTRACTORS, joined
from watchword.features.networks import (
    AUDIO_BACKBONES,
    DETECTORS,
    FLOW_BACKBONES,
    IMAGE_BACKBONES,
    WINDOW_BACKBONES,
    Backbone,
    Networks,
    find,
    fingerprint,
)
from watchword.features.samplers import SAMPLERS, Extracted, ImageCache
from watchword.features.specs import AudioSpec, FlowSpec, ImageSpec, RegionSpec, StreamSpec, WindowSpec
from watchword.features.store import Store, settings_key
from watchword.types import StreamArrays, StreamName
from watchword.video import View, iterate_audio, iterate_views, shown
from watchword.video.container import Report, warn
from watchword.video.formats import find_relative, names_of
from watchword.workers import Lost, run_local, run_ray

CHUNK = 16  # frames that go through a network together: fastest on a CPU, and one window of I3D
WINDOWS_AT_ONCE = 64  # of sound
FINGERPRINT_BYTES = 1 << 16  # of a video's beginning, and of its end
TABLES: dict[type[Settings], tuple[str, dict[str, Backbone]]] = {
    ImageSpec: ("picture network", IMAGE_BACKBONES),
    RegionSpec: ("detector", DETECTORS),
    WindowSpec: ("motion network", WINDOW_BACKBONES),
    FlowSpec: ("flow network", FLOW_BACKBONES),
    AudioSpec: ("network for sound", AUDIO_BACKBONES),
}
T = TypeVar("T")


@dataclass(frozen=True)
class VideoFile:
    """A video's name in the store, and its file."""

    video: str
    path: Path


@dataclass(frozen=True)
class Job:
    """The streams to extract and the store: all that a worker on any machine needs."""

    store: Path
    specs: dict[str, Settings]  # by stream, with everything that changes the numbers
    checkpoints: dict[str, Path] = field(default_factory=dict)  # users' weights by their sha256
    overwrite: bool = False
    device: str = "cpu"  # where the networks compute

    def streams(self, stream: str) -> tuple[str, ...]:
        """The names under which a stream is stored: several depths are several streams."""
        spec = self.specs[stream]
        if not stream.endswith("_layers") or not isinstance(spec, StreamSpec):
            return (stream,)
        depths = find(*TABLES[type(spec)], spec.backbone).layers
        return tuple(str(StreamName(stream, str(number))) for number in range(1, len(depths) + 1))

    def settings(self, stream: str) -> dict[str, Any]:
        """All that changes the numbers of a stream: its key in the store. Depths share those of the whole."""
        return self.specs[StreamName.parse(stream).extractor].model_dump(exclude_none=True, by_alias=True)

    def missing(self, video: str) -> list[str]:
        """The streams that the store does not have of a video, made as asked for here."""
        store = Store(self.store)

        def has(stream: str) -> bool:
            key = settings_key(self.settings(stream))
            return all(store.has(video, StreamName.parse(name).with_key(key)) for name in self.streams(stream))

        return [stream for stream in self.specs if self.overwrite or not has(stream)]

    def conflict(self, video: VideoFile) -> str:
        """Why a video cannot be stored under its name: the store has features of another one with that name."""
        store = Store(self.store)
        for stream in () if self.overwrite else self.specs:
            name = StreamName.parse(self.streams(stream)[0]).with_key(settings_key(self.settings(stream)))
            if store.has(video.video, name):
                kept = store.provenance(video.video, name).get("content", "")
                if kept and kept != content_of(video.path):
                    return (
                        f"{shown(video.path)}: {store.folder} has another video {video.video!r}; to keep both, name "
                        "the folder above both, or another --store; --overwrite replaces it"
                    )
                return ""
        return ""


@dataclass(frozen=True)
class Outcome:
    """The result of one video."""

    video: VideoFile
    problem: str = ""  # why it is not in the store
    warnings: tuple[str, ...] = ()  # damage: what is good of the video is in the store
    num_bytes: int = 0
    is_disk_full: bool = False  # every other video would fail too


def find_videos(words: Iterable[str], report: Report = warn) -> list[VideoFile]:
    """Videos by their paths below the folder that is named, without the ending: `day1/IMG_1`."""
    found = find_relative(words, report=report)
    return [VideoFile(name, path) for name, path in zip(names_of(found), found.values(), strict=True)]


def content_of(path: Path) -> str:
    """A fingerprint of a file: of its size, its beginning and its end. Empty for one that cannot be read."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            ends = file.read(FINGERPRINT_BYTES)
            file.seek(max(len(ends), size - FINGERPRINT_BYTES))
            ends += file.read(FINGERPRINT_BYTES)
    except OSError:
        return ""
    return hashlib.sha256(f"{size}:".encode() + ends).hexdigest()[:32]


def prepare(
    store: Path, streams: Sequence[str], words: Sequence[str] = (), overwrite: bool = False, device: str = "cpu"
) -> Job:
    """A job for some streams, with settings such as `motion.time_steps=28`. Unknown names are errors."""
    changes: dict[str, dict[str, str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        stream, dot, name = key.partition(".")
        if not (equals and dot):
            raise WatchwordError(f"--settings {word!r}: expected stream.key=value, such as motion.time_steps=28")
        if stream not in streams:
            raise unknown("stream in --settings", stream, streams)
        changes.setdefault(stream, {})[name] = value
    specs: dict[str, Settings] = {}
    checkpoints: dict[str, Path] = {}
    for stream in streams:
        if stream not in EXTRACTORS:
            raise unknown("stream", stream, EXTRACTORS)
        kind = type(EXTRACTORS[stream].spec)
        spec = kind.read(changes.get(stream, {}), f"--settings {stream}")
        specs[stream] = _resolved(spec, checkpoints)
    return Job(store, specs, checkpoints, overwrite, device)


def _resolved(spec: Any, checkpoints: dict[str, Path]) -> Settings:
    """The spec with its network's input size, and sha256s instead of paths of weights."""
    backbone = find(*TABLES[type(spec)], spec.backbone)
    pairs = {"weights": spec.backbone}
    if isinstance(spec, RegionSpec):
        pairs["region_weights"] = spec.region_backbone
        find("picture network", IMAGE_BACKBONES, spec.region_backbone)
    changes: dict[str, Any] = {}
    for name, network in pairs.items():
        given = getattr(spec, name)
        changes[name] = fingerprint(network, given)
        if given:
            checkpoints[changes[name]] = Path(given).absolute()
    if isinstance(spec, StreamSpec):
        changes["pixels"] = spec.pixels or backbone.pixels
    resolved: Settings = spec.model_copy(update=changes)
    return resolved


class Extraction:
    """Extracts video after video; the networks are built once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.store)
        self.networks = Networks(job.checkpoints, job.device)

    def load(self) -> None:
        """Builds every network now: what is wrong with weights is reported before the first video."""
        for spec in self.job.specs.values():
            if isinstance(spec, AudioSpec):
                self.networks.get(AUDIO_BACKBONES, spec.backbone, spec.weights)
            elif isinstance(spec, StreamSpec):
                SAMPLERS[type(spec)](spec, self.networks, None, ImageCache())

    def extract(self, video: VideoFile) -> Outcome:
        """All streams that the store lacks. A video that cannot be read is an outcome, not an error."""
        warnings: list[str] = []
        written = 0
        try:
            content = {"content": content_of(video.path)}
            for stream, arrays in self.arrays(video.path, self.job.missing(video.video), warnings).items():
                arrays = replace(arrays, provenance=arrays.provenance | content)
                path = self.store.write(video.video, stream, arrays, self.job.settings(stream))
                written += path.stat().st_size
        except Exception as error:  # any error: the job goes on with the other videos
            known = isinstance(error, WatchwordError)
            problem = str(error) if known else f"cannot extract {video.path}: {type(error).__name__}: {error}"
            return Outcome(video, problem, tuple(dict.fromkeys(warnings)), written, isinstance(error, DiskFull))
        return Outcome(video, "", tuple(dict.fromkeys(warnings)), written)

    @torch.no_grad()
    def arrays(
        self, path: Path, streams: Sequence[str], warnings: list[str], most: int | None = None
    ) -> dict[str, StreamArrays]:
        """Streams of a video, without a store; at most `most` time steps, evenly spaced."""
        users: dict[Settings, list[str]] = defaultdict(list)  # streams by spec: equal specs share their passes
        for stream in streams:
            users[self.job.specs[stream]].append(stream)
        parts: dict[str, list[StreamArrays]] = defaultdict(list)
        for spec, extracted in self._extracted(path, list(users), warnings, most):
            for stream in users[spec]:
                for suffix, part in EXTRACTORS[stream].keep(extracted).items():
                    parts[stream + suffix].append(part)
        return {stream: joined(some) for stream, some in parts.items()}

    def _extracted(
        self, path: Path, specs: Sequence[Settings], warnings: list[str], most: int | None
    ) -> Iterator[tuple[Settings, Extracted]]:
        visible = {str(number): spec for number, spec in enumerate(specs) if isinstance(spec, StreamSpec)}
        cache = ImageCache()
        samplers = {name: SAMPLERS[type(spec)](spec, self.networks, most, cache) for name, spec in visible.items()}
        views = {
            f"{name}/{view}": View(sampler, size)
            for name, sampler in samplers.items()
            for view, size in sampler.views().items()
        }
        if views:
            for position, frames in ahead(iterate_views(path, views, chunk=CHUNK, report=warnings.append)):
                name, _, view = position.partition("/")
                for extracted in samplers[name].see(frames, view):
                    yield visible[name], extracted
        for sound in specs:
            if isinstance(sound, AudioSpec):
                for extracted in self.audio(path, sound, warnings):
                    yield sound, extracted

    def audio(self, path: Path, spec: AudioSpec, warnings: list[str], start: float = 0.0) -> Iterator[Extracted]:
        """Sound in blocks of windows, for videos of any length; a silent video gives one block without time steps.

        Blocks that end before `start` are passed over.
        """
        network: Any = self.networks.get(AUDIO_BACKBONES, spec.backbone, spec.weights)
        stride = network.mel.step_samples
        step = WINDOWS_AT_ONCE * stride
        block = step - stride + PATCH_SAMPLES  # samples of WINDOWS_AT_ONCE windows
        held, begin = np.empty(0, np.float32), 0
        for samples in ahead(iterate_audio(path, SAMPLE_RATE, report=warnings.append)):
            held = np.concatenate([held, samples])
            while len(held) >= block + stride:
                if begin + block > start * SAMPLE_RATE:
                    yield _windows(network, spec, held[:block], begin)
                held, begin = held[step:], begin + step
        yield _windows(network, spec, held, begin)


def _windows(network: Any, spec: AudioSpec, samples: Any, begin: int) -> Extracted:
    windows = network.windows(torch.from_numpy(samples))
    times = windows.times.numpy() + begin / SAMPLE_RATE
    return Extracted(times, {"pooled": windows.vectors, "scores": windows.scores}, AUDIO_BACKBONES[spec.backbone])


def ahead(items: Iterator[T], size: int = 4) -> Iterator[T]:
    """The items, made in a thread of its own up to `size` before they are wanted: decoding beside the networks."""
    waiting: queue.Queue[tuple[bool, Any]] = queue.Queue(size)
    stopped = threading.Event()

    def put(item: tuple[bool, Any]) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.2)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((True, item))
                if stopped.is_set():
                    return
        except BaseException as error:  # raised again where the items are wanted
            put((False, error))
        else:
            put((False, None))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            good, item = waiting.get()
            if good:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.set()
        thread.join()


def extract_here(job: Job, videos: Iterable[VideoFile]) -> Iterator[Outcome]:
    extraction = Extraction(job)
    extraction.load()
    return map(extraction.extract, videos)


def extract_local(job: Job, videos: Iterable[VideoFile], workers: int) -> Iterator[Outcome]:
    """On this machine, in as many processes as asked for."""
    if workers <= 1:
        return extract_here(job, videos)
    Extraction(job).load()  # fetches weights once, and says what is wrong with them in one line
    return map(_outcome, run_local(partial(_extractor, job), videos, workers))


def extract_ray(job: Job, videos: Iterable[VideoFile], workers: int | None = None) -> Iterator[Outcome]:
    """On a Ray cluster. Videos, store and users' weights are read and written by path."""
    job = replace(job, store=job.store.absolute())
    Extraction(job).load()
    paths = (replace(video, path=video.path.absolute()) for video in videos)
    return map(_outcome, run_ray(partial(_extractor, job), paths, workers))


def _extractor(job: Job) -> Callable[[VideoFile], Outcome]:
    return Extraction(job).extract


def _outcome(found: Outcome | Lost[VideoFile]) -> Outcome:
    if isinstance(found, Lost):
        return Outcome(found.item, f"cannot extract {found.item.path}: {found}")
    return found
