"""From films to a store: each film decoded once for all its streams, while the networks work on what came before.

    extraction = Extraction(prepare(Path("features"), ["appearance", "motion"]))
    outcome = extraction.extract(Film("clip7", Path("clip7.mp4")))
"""

import queue
import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from watchword.backbones.mel import PATCH_SAMPLES, SAMPLE_RATE
from watchword.config import Settings
from watchword.errors import WatchwordError, unknown
from watchword.features.extractors import EXTRACTORS, joined
from watchword.features.looks import FlowLook, Look, PictureLook, RegionLook, SoundLook, WindowLook
from watchword.features.networks import DETECTORS, EARS, FLOWS, PICTURES, WINDOWS, Backbone, Networks, find, fingerprint
from watchword.features.store import Store, settings_key
from watchword.features.watching import WATCHERS, ImageCache, Moments
from watchword.types import StreamArrays
from watchword.video import View, iterate_audio, watch

CHUNK = 16           # frames that go through a network together: fastest on a CPU, and one window of I3D
WINDOWS_AT_ONCE = 64  # of sound
TABLES: dict[type[Settings], tuple[str, dict[str, Backbone]]] = {
    PictureLook: ("picture network", PICTURES),
    RegionLook: ("detector", DETECTORS),
    WindowLook: ("motion network", WINDOWS),
    FlowLook: ("flow network", FLOWS),
    SoundLook: ("network for sound", EARS),
}
T = TypeVar("T")


@dataclass(frozen=True)
class Film:
    """A film's name in the store, and its file."""

    video: str
    path: Path


@dataclass(frozen=True)
class Job:
    """What to make and where to keep it: all that a worker, here or on another machine, must know."""

    store: Path
    looks: dict[str, Settings]                  # by stream, with everything that changes the numbers
    checkpoints: dict[str, Path] = field(default_factory=dict)  # users' weights by their sha256
    overwrite: bool = False

    def streams(self, stream: str) -> tuple[str, ...]:
        """The names under which a stream is stored: several depths are several streams."""
        look = self.looks[stream]
        if not stream.endswith("_layers") or not isinstance(look, Look):
            return (stream,)
        depths = find(*TABLES[type(look)], look.backbone).layers
        return tuple(f"{stream}.{number}" for number in range(1, len(depths) + 1))

    def settings(self, stream: str) -> dict[str, Any]:
        """All that changes the numbers of a stream: its key in the store. Depths share those of the whole."""
        return self.looks[stream.partition(".")[0]].model_dump(exclude_none=True)

    def missing(self, video: str) -> list[str]:
        """The streams that the store does not have of a film, made as asked for here."""
        store = Store(self.store)

        def has(stream: str) -> bool:
            key = settings_key(self.settings(stream))
            return all(store.has(video, f"{name}@{key}") for name in self.streams(stream))

        return [stream for stream in self.looks if self.overwrite or not has(stream)]


@dataclass(frozen=True)
class Outcome:
    """What became of a film."""

    film: Film
    problem: str = ""                           # why it is not in the store
    warnings: tuple[str, ...] = ()              # damage: what is good of the film is in the store
    num_bytes: int = 0


def prepare(store: Path, streams: Sequence[str], words: Sequence[str] = (), overwrite: bool = False) -> Job:
    """A job out of streams' names and words such as `motion.moments=28`; unknown names and missing files stop here."""
    changes: dict[str, dict[str, str]] = {}
    for word in words:
        key, equals, value = word.partition("=")
        stream, dot, name = key.partition(".")
        if not (equals and dot):
            raise WatchwordError(f"--settings {word!r}: expected stream.key=value, such as motion.moments=28")
        if stream not in streams:
            raise unknown("stream in --settings", stream, streams)
        changes.setdefault(stream, {})[name] = value
    looks: dict[str, Settings] = {}
    checkpoints: dict[str, Path] = {}
    for stream in streams:
        if stream not in EXTRACTORS:
            raise unknown("stream", stream, EXTRACTORS)
        kind = type(EXTRACTORS[stream].look)
        look = kind.read(changes.get(stream, {}), f"--settings {stream}")
        looks[stream] = _resolved(look, checkpoints)
    return Job(store, looks, checkpoints, overwrite)


def _resolved(look: Any, checkpoints: dict[str, Path]) -> Settings:
    """The look with its network's size, and sha256s in the place of weights."""
    backbone = find(*TABLES[type(look)], look.backbone)
    pairs = {"weights": look.backbone} | ({"eye_weights": look.eye} if isinstance(look, RegionLook) else {})
    if isinstance(look, RegionLook):
        find("picture network", PICTURES, look.eye)
    changes: dict[str, Any] = {}
    for name, network in pairs.items():
        given = getattr(look, name)
        changes[name] = fingerprint(network, given)
        if given:
            checkpoints[changes[name]] = Path(given).absolute()
    if isinstance(look, Look):
        changes["pixels"] = look.pixels or backbone.pixels
    resolved: Settings = look.model_copy(update=changes)
    return resolved


class Extraction:
    """Takes film after film; the networks are built once."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.store = Store(job.store)
        self.networks = Networks(job.checkpoints)

    def load(self) -> None:
        """Builds every network now: what is wrong with weights is said before the first film."""
        for look in self.job.looks.values():
            if isinstance(look, SoundLook):
                self.networks.get(EARS, look.backbone, look.weights)
            elif isinstance(look, Look):
                WATCHERS[type(look)](look, self.networks, None, ImageCache())

    def extract(self, film: Film) -> Outcome:
        """All streams that the store lacks. A film that cannot be read is an outcome, not an error."""
        warnings: list[str] = []
        written = 0
        try:
            for stream, arrays in self.arrays(film.path, self.job.missing(film.video), warnings).items():
                path = self.store.write(film.video, stream, arrays, self.job.settings(stream))
                written += path.stat().st_size
        except Exception as error:  # whatever it is, thousands of other films wait
            known = isinstance(error, WatchwordError)
            problem = str(error) if known else f"cannot extract {film.path}: {type(error).__name__}: {error}"
            return Outcome(film, problem, tuple(dict.fromkeys(warnings)), written)
        return Outcome(film, "", tuple(dict.fromkeys(warnings)), written)

    @torch.no_grad()
    def arrays(
        self, path: Path, streams: Sequence[str], warnings: list[str], most: int | None = None
    ) -> dict[str, StreamArrays]:
        """Streams of a film, without a store; `most`: of more moments to look at, only so many, evenly chosen."""
        users: dict[Settings, list[str]] = defaultdict(list)  # streams by look: equal looks are seen once
        for stream in streams:
            users[self.job.looks[stream]].append(stream)
        parts: dict[str, list[StreamArrays]] = defaultdict(list)
        for look, moments in self._moments(path, list(users), warnings, most):
            for stream in users[look]:
                for suffix, part in EXTRACTORS[stream].keep(moments).items():
                    parts[stream + suffix].append(part)
        return {stream: joined(some) for stream, some in parts.items()}

    def _moments(
        self, path: Path, looks: Sequence[Settings], warnings: list[str], most: int | None
    ) -> Iterator[tuple[Settings, Moments]]:
        visible = {str(number): look for number, look in enumerate(looks) if isinstance(look, Look)}
        cache = ImageCache()
        watchers = {name: WATCHERS[type(look)](look, self.networks, most, cache) for name, look in visible.items()}
        views = {
            f"{name}/{view}": View(watcher, size)
            for name, watcher in watchers.items()
            for view, size in watcher.views().items()
        }
        if views:
            for place, frames in ahead(watch(path, views, chunk=CHUNK, report=warnings.append)):
                name, _, view = place.partition("/")
                for moments in watchers[name].see(frames, view):
                    yield visible[name], moments
        for sound in looks:
            if isinstance(sound, SoundLook):
                for moments in self.heard(path, sound, warnings):
                    yield sound, moments

    def heard(self, path: Path, look: SoundLook, warnings: list[str], start: float = 0.0) -> Iterator[Moments]:
        """Sound in blocks of windows, so that a long film fits; a silent film gives moments too: none, of the width.

        Blocks that end before `start` are passed over.
        """
        network: Any = self.networks.get(EARS, look.backbone, look.weights)
        stride = network.mel.step_samples
        step = WINDOWS_AT_ONCE * stride
        block = step - stride + PATCH_SAMPLES  # samples of WINDOWS_AT_ONCE windows
        held, begin = np.empty(0, np.float32), 0
        for samples in ahead(iterate_audio(path, SAMPLE_RATE, report=warnings.append)):
            held = np.concatenate([held, samples])
            while len(held) >= block + stride:
                if begin + block > start * SAMPLE_RATE:
                    yield _windows(network, look, held[:block], begin)
                held, begin = held[step:], begin + step
        yield _windows(network, look, held, begin)


def _windows(network: Any, look: SoundLook, samples: Any, begin: int) -> Moments:
    heard = network.hear(torch.from_numpy(samples))
    return Moments(heard.times.numpy() + begin / SAMPLE_RATE, {"pooled": heard.vectors}, EARS[look.backbone])


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
