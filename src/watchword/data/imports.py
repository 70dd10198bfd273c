"""Imports features from files of other tools, and categories of clips, into the store.

| file | what is in it |
|---|---|
| `x.npz` | one array per video, called by its id; or `ids` (n,) and `feats` (n, ...) |
| folder | one `ID.npy` per video |
| `x.h5`, `x.hdf5` | one dataset per video (or one in a group per video); or `ids` and `feats` |

One video is in memory at a time, also when all are packed into one array: it is read through, not loaded.
Pickled objects are refused: reading them can run code.

The category of a clip becomes a stream of one time step and one location, one-hot. MSR-VTT has 20 categories (music,
sports, cooking, ...), and systems are compared with and without this input.
"""

import contextlib
import hashlib
import json
import math
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from watchword.data.reading import without_suffix
from watchword.errors import WatchwordError
from watchword.features.store import Store, settings_key
from watchword.tensors import CATEGORY
from watchword.types import Clip, FloatArray, StreamArrays, StreamName

Array = NDArray[Any]
Arrays = Iterator[tuple[str, Callable[[], Array]]]  # video and how to read it, in the order of the file
ID_NAMES = ("ids", "names", "videos", "video_ids", "video_id")
FEATURE_NAMES = ("feats", "features", "feat", "values")
DEFAULT_LAYOUTS = {1: "D", 2: "FD", 3: "FND", 4: "FHWD"}
# What damaged files raise; the last two come from shapes beyond all memory.
BROKEN = (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, zlib.error, MemoryError, OverflowError)


@dataclass(frozen=True)
class Rules:
    """How the numbers of a file are to be read. All of it changes what is stored, so all of it is in the key."""

    dtype: str = "float16"  # rounds to 11 bits: 0.05 % of a value at most
    layout: str = ""  # letters for the axes of one video: F D N, or H W for a grid
    fps: float | None = None  # time steps a second
    duration_seconds: float | None = None  # first time step at 0, last at this time
    notes: dict[str, str] = field(default_factory=dict)  # what a person says about them: backbone=vgg16

    def settings(self) -> dict[str, str]:
        return self.notes | {"dtype": self.dtype, "layout": self.layout or "by rank", "times": self._times_rule()}

    def times(self, num_steps: int) -> FloatArray:
        if self.fps:
            return np.arange(num_steps) / self.fps
        last = self.duration_seconds or 1.0
        return np.linspace(0.0, last, num_steps) if num_steps > 1 else np.array([last / 2])

    def _times_rule(self) -> str:
        if self.fps:
            return f"{self.fps:g} a second"
        return f"evenly over {self.duration_seconds:g} s" if self.duration_seconds else "unknown: evenly over 0..1"


@dataclass(frozen=True)
class Outcome:
    """What became of one video."""

    video: str
    problem: str = ""  # why it is not in the store; empty if it is
    was_there: bool = False


@dataclass(frozen=True)
class FeatureFile:
    """A file of features: which videos it has, and each one's array when asked for."""

    videos: list[str]
    arrays: Arrays  # to be read one after the other
    scale: float | None = None  # 8-bit square roots: x = (stored * scale) ** 2
    layout: str = ""  # where the file itself says so


@contextlib.contextmanager
def open_features(path: Path) -> Iterator[FeatureFile]:
    """The file or folder, whichever of the known kinds it is."""
    with contextlib.ExitStack() as stack:
        with _said_clearly(path):
            file = _opened(path, stack)
        yield replace(file, arrays=_guarded(path, file.arrays))


def _opened(path: Path, stack: contextlib.ExitStack) -> FeatureFile:
    suffix = path.suffix.lower()
    if path.is_dir():
        return _folder(path)
    if not path.exists():
        raise WatchwordError(f"no such file or folder: {path}")
    if suffix == ".npz":
        return _archive(path, stack.enter_context(zipfile.ZipFile(path)))
    if suffix in {".h5", ".hdf5", ".hdf"}:
        return _hierarchy(path, stack.enter_context(_hdf5().File(path, "r")))
    raise WatchwordError(f"cannot read {path}: expected .npz, .h5, .hdf5 or a folder of .npy")


@contextlib.contextmanager
def _said_clearly(path: Path) -> Iterator[None]:
    try:
        yield
    except BROKEN as error:
        raise WatchwordError(f"cannot read {path}: {error}; is it whole?") from error


def _guarded(path: Path, arrays: Arrays) -> Arrays:
    """The arrays of a file that may turn out to be damaged half-way."""
    with _said_clearly(path):
        yield from arrays


def import_features(
    file: FeatureFile,
    store: Store,
    stream: str,
    rules: Rules,
    *,
    source: str = "",
    names: dict[str, str] | None = None,
    overwrite: bool = False,
) -> Iterator[Outcome]:
    """Puts every video of a file into the store, one after the other; a bad one is reported and the rest goes on."""
    settings = rules.settings() | ({"coding": "8-bit square roots"} if file.scale else {})
    if file.layout and not rules.layout:
        settings["layout"] = file.layout
    there = StreamName.parse(stream).with_key(settings_key(settings))
    for name, read in file.arrays:
        video = (names or {}).get(name, name)
        if not overwrite and store.has(video, there):
            yield Outcome(video, was_there=True)
            continue
        try:
            arrays = _stream_arrays(_decoded(read(), file.scale), video, rules, rules.layout or file.layout)
            provenance = arrays.provenance | {"imported_from": source, "imported_as": name}
            store.write(video, stream, replace(arrays, provenance=provenance), settings)
        except WatchwordError as error:
            if isinstance(error.__cause__, OSError):  # the disk is full or gone: every other video would fail too
                raise
            yield Outcome(video, str(error))
        except BROKEN as error:
            yield Outcome(video, f"cannot read video {video!r}: {error}")
        else:
            yield Outcome(video)


def _decoded(array: Array, scale: float | None) -> Array:
    return array if scale is None else np.square(array.astype(np.float32) * np.float32(scale), dtype=np.float32)


def _stream_arrays(array: Array, video: str, rules: Rules, layout: str) -> StreamArrays:
    """One video's array in whatever order -> (F, N, D) with times and boxes."""
    if array.dtype.kind not in "fiub":
        raise WatchwordError(f"video {video!r} holds {array.dtype} instead of numbers")
    layout = layout or DEFAULT_LAYOUTS.get(array.ndim, "")
    if len(layout) != array.ndim:
        expected = f"layout {layout}" if layout else "1 to 4 axes"
        raise WatchwordError(f"video {video!r} has shape {array.shape}, expected {expected}; see --layout")
    if array.size == 0:
        raise WatchwordError(f"video {video!r} is empty: shape {array.shape}")
    order = [layout.index(letter) for letter in "FHWND" if letter in layout]
    size = dict(zip(layout, array.shape, strict=True))
    places = size.get("N", size.get("H", 1) * size.get("W", 1))
    values = array.transpose(order).reshape(size.get("F", 1), places, size["D"])  # (F, N, D)
    boxes, where = _boxes(places, size.get("H"), size.get("W"))
    with np.errstate(over="ignore"):
        stored = values.astype(rules.dtype)
    if not np.isfinite(stored).all() and np.isfinite(values).all():
        largest = float(np.abs(values).max())
        raise WatchwordError(f"video {video!r} has values up to {largest:.3g}, too large for float16: --dtype float32")
    return StreamArrays(stored, rules.times(len(stored)), boxes, provenance={"boxes": where})


def _boxes(places: int, height: int | None, width: int | None) -> tuple[FloatArray, str]:
    """Where N places sit, row by row; (N, 4)."""
    side = math.isqrt(places)
    if not (height and width):
        if side * side != places:
            return np.tile(np.array([[0.0, 0.0, 1.0, 1.0]]), (places, 1)), "unknown: the whole picture"
        height = width = side
    rows, columns = (axis.ravel() for axis in np.indices((height, width)))
    boxes = np.stack([columns / width, rows / height, (columns + 1) / width, (rows + 1) / height], axis=1)
    return boxes, "the whole picture" if places == 1 else f"grid of {height} x {width}"


# --- the kinds of file ---------------------------------------------------------------------------------------------


def _folder(path: Path) -> FeatureFile:
    files = sorted(path.rglob("*.npy"))
    if not files:
        raise WatchwordError(f"{path} has no .npy files; expected one per video, called ID.npy")
    videos = _names((file.relative_to(path).with_suffix("").as_posix() for file in files), path)

    def read(file: Path) -> Array:
        with file.open("rb") as stream:
            return _read_array(stream, file.stat().st_size)

    return FeatureFile(videos, _lazily(videos, files, read))


def _archive(path: Path, archive: zipfile.ZipFile) -> FeatureFile:
    members = [name for name in archive.namelist() if name.endswith(".npy")]
    keys = {name.removesuffix(".npy"): name for name in members}

    def read(name: str) -> Array:
        with archive.open(name) as stream:
            return _read_array(stream, archive.getinfo(name).file_size)

    ids, features = _packed(keys)
    if not (ids and features):
        if not keys:
            raise WatchwordError(f"{path} has no arrays")
        videos = _names(keys, path)
        return FeatureFile(videos, _lazily(videos, members, read))
    videos = _names(_texts(read(keys[ids]), path), path)
    with archive.open(keys[features]) as stream:
        shape, _, dtype = _read_header(stream, archive.getinfo(keys[features]).file_size)
    _check_length(path, videos, shape)
    scale = float(read(keys["scale"])) if "scale" in keys and dtype == np.uint8 else None
    num_indices = len(read(keys["frame_index"])) if "frame_index" in keys else 0
    transposed = len(shape) == 3 and num_indices == shape[2] != shape[1]  # (n, D, F): the num_indices are the last axis
    return FeatureFile(videos, _one_by_one(archive, keys[features], videos), scale, "DF" if transposed else "")


def _one_by_one(archive: zipfile.ZipFile, member: str, videos: list[str]) -> Arrays:
    """The rows of one packed array, read in the order of the file."""
    with archive.open(member) as stream:
        size = archive.getinfo(member).file_size
        shape, fortran_order, dtype = _read_header(stream, size)
        if fortran_order:  # a row is scattered over the whole file: it cannot be read in order
            with archive.open(member) as whole:
                rows = _read_array(whole, size)
            yield from _lazily(videos, range(len(rows)), rows.__getitem__)
            return
        num_bytes = math.prod(shape[1:]) * dtype.itemsize
        for number, video in enumerate(videos):
            content = stream.read(num_bytes)
            if len(content) != num_bytes:
                raise ValueError(f"it ends at video {number + 1} of {len(videos)}")
            row = np.frombuffer(content, dtype).reshape(shape[1:])
            yield from _lazily([video], [row], lambda array: array)


def _hierarchy(path: Path, file: Any) -> FeatureFile:
    datasets: list[str] = []
    dataset_type = _hdf5().Dataset

    def note(name: str, node: Any) -> None:
        if isinstance(node, dataset_type):
            datasets.append(name)

    file.visititems(note)
    if not datasets:
        raise WatchwordError(f"{path} has no datasets")
    ids, features = _packed(datasets)
    if ids and features:
        videos = _names(_texts(np.asarray(file[ids]), path), path)
        _check_length(path, videos, file[features].shape)
        return FeatureFile(videos, _lazily(videos, range(len(videos)), lambda row: np.asarray(file[features][row])))
    # v_abc/c3d_features, alone in its group, is called v_abc
    called = [name.rpartition("/")[0] if "/" in name and len(file[name].parent) == 1 else name for name in datasets]
    videos = _names(called, path)
    return FeatureFile(videos, _lazily(videos, datasets, lambda name: np.asarray(file[name])))


def _hdf5() -> Any:
    try:
        import h5py
    except ImportError as error:
        raise WatchwordError("HDF5 files need h5py: pip install 'watchword[hdf5]'") from error
    return h5py


def _lazily(videos: Iterable[str], keys: Iterable[Any], read: Callable[[Any], Array]) -> Arrays:
    for video, key in zip(videos, keys, strict=True):
        yield video, lambda key=key: read(key)  # type: ignore[misc]


def _packed(names: Iterable[str]) -> tuple[str | None, str | None]:
    """What the ids and the features of all videos are called, when they are packed into one array."""
    there = set(names)
    ids, features = ((name for name in kind if name in there) for kind in (ID_NAMES, FEATURE_NAMES))
    return next(ids, None), next(features, None)


def _texts(ids: Array, path: Path) -> list[str]:
    if ids.dtype.kind not in "USO" or ids.ndim != 1:
        raise WatchwordError(f"{path}: ids must be a list of names, found {ids.dtype} of shape {ids.shape}")
    return [name.decode("utf-8", "surrogateescape") if isinstance(name, bytes) else str(name) for name in ids.tolist()]


def _names(names: Iterable[str], path: Path) -> list[str]:
    videos = [without_suffix(name) for name in names]
    seen: set[str] = set()
    for video in videos:
        if video in seen:
            raise WatchwordError(f"{path}: video {video!r} is there twice")
        seen.add(video)
    return videos


def _check_length(path: Path, videos: list[str], shape: tuple[int, ...]) -> None:
    if len(shape) < 2 or shape[0] != len(videos):
        raise WatchwordError(f"{path}: {len(videos)} ids but features of shape {shape}; the first axis must be videos")


def _read_header(stream: IO[bytes], size: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran_order, dtype = read(stream)
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error):
        raise
    except Exception as error:  # numpy reads the header as Python, which can fail in many ways
        raise ValueError(f"its header is damaged ({type(error).__name__})") from error
    if math.prod(shape) * dtype.itemsize > size:
        raise ValueError(f"its header declares shape {shape} of {dtype}, more than the {size:,} bytes that it has")
    if dtype.hasobject:
        raise ValueError("it holds Python objects (a pickle), which can run code when read; save it as plain numbers")
    return shape, fortran_order, dtype


def _read_array(stream: IO[bytes], size: int) -> Array:
    """The array of a file of `size` bytes."""
    start = stream.tell()
    _read_header(stream, size)
    stream.seek(start)
    return np.lib.format.read_array(stream, allow_pickle=False)


def write_categories(clips: Sequence[Clip], store: Store) -> int:
    """Keeps the category of every clip; returns how many categories there are.

    A clip without one gets zeros: it is not known. The key of the stream holds the annotation's checksum, so a run
    notices when categories have changed.
    """
    known = {clip.video: clip.category for clip in clips if clip.category is not None}
    if not known:
        raise WatchwordError(f"none of the {len(clips):,} clips has a category: train without the stream {CATEGORY}")
    if min(known.values()) < 0:
        raise WatchwordError(f"category {min(known.values())}: categories are counted from 0")
    count = max(known.values()) + 1
    checksum = hashlib.sha256(json.dumps(sorted(known.items())).encode()).hexdigest()[:16]
    settings = {"made_of": "annotation", "categories": count, "annotation": checksum}
    for clip in clips:
        values = np.zeros((1, 1, count), np.float32)
        if clip.category is not None:
            values[0, 0, clip.category] = 1
        whole = np.array([[0, 0, 1, 1]], np.float32)
        store.write(clip.video, CATEGORY, StreamArrays(values, np.zeros(1, np.float32), whole), settings)
    return count
