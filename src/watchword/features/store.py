"""The feature store: one safetensors file per video, stream and settings, whole or not at all.

    STORE/appearance/3f9a01c2/settings.json            what made these numbers; 3f9a01c2 is its hash
    STORE/appearance/3f9a01c2/video7.safetensors       values, times, boxes, mask; provenance in the header

A stream is called by its name (`appearance`) while it was made with one set of settings, and by name and key
(`appearance@3f9a01c2`, or an unmistakable beginning of the key) once there are several. Files are memory-mapped: asking
for a shape reads the header alone. Writers fill a temporary name and rename it, so that a reader never gets half a
file, whoever is killed and however many write at once.
"""

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from watchword.atomic_io import write_whole
from watchword.documents import parse_json
from watchword.errors import WatchwordError, unknown
from watchword.types import FloatArray, StreamArrays, StreamName

SUFFIX = ".safetensors"
STREAM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
LONGEST_NAME = 180  # bytes of an encoded video id: file systems stop at 255 with suffix and temporary marks
ABANDONED_SECONDS = 600  # an older temporary file belongs to a writer that was killed


def settings_key(settings: Mapping[str, Any]) -> str:
    """A short hash of all that changes the numbers; the order of the settings does not matter."""
    return hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode()).hexdigest()[:8]


class Store:
    """A folder of features. Opening it touches nothing: the folder is made by the first write."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self._cleaned: set[Path] = set()

    # --- what there is ---------------------------------------------------------------------------------------------

    def streams(self) -> list[str]:
        """The names to read by: `appearance`, or `appearance@key` for each key when there are several."""
        found = []
        for name in _folders(self.folder):
            keys = self.keys(name)
            found += [name] if len(keys) == 1 else [StreamName.parse(name).with_key(key) for key in keys]
        return found

    def keys(self, stream: str) -> list[str]:
        """The settings that a stream was made with and that hold a video."""
        folder = self.folder / StreamName.parse(stream).base
        return [key for key in _folders(folder) if next(_files(folder / key), None)]

    def videos(self, stream: str) -> list[str]:
        """The videos of a stream, sorted."""
        return sorted(_decode(path) for path in _files(self._folder_of(stream)))

    def has(self, video: str, stream: str) -> bool:
        """Whether a video is there; False as well when the whole stream is not."""
        key = StreamName.parse(stream).key
        if not any(found.startswith(key) for found in self.keys(stream)):
            return False
        return (self._folder_of(stream) / _encode(video)).exists()

    def settings(self, stream: str) -> dict[str, Any]:
        """What a stream was made with."""
        path = self._folder_of(stream) / "settings.json"
        try:
            settings = parse_json(path.read_text("utf-8"))
            if not isinstance(settings, dict):
                raise ValueError("expected an object")
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot read {path}: {error}; import or extract the stream again") from error
        return settings

    def shape(self, video: str, stream: str) -> tuple[int, int, int]:
        """F, N, D of a video, from the header of its file alone."""
        with self._open(video, stream) as file:
            frames, locations, width = file.get_slice("values").get_shape()
        return frames, locations, width

    def width(self, stream: str) -> int:
        """D, which is the same for all videos of a stream (`write` checks it)."""
        return self.shape(_decode(next(_files(self._folder_of(stream)))), stream)[2]

    # --- reading and writing ---------------------------------------------------------------------------------------

    def read(self, video: str, stream: str) -> StreamArrays:
        """One video's stream, in the number format it has on disk."""
        with self._open(video, stream) as file:
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (a file, not a dict)
            provenance = dict(file.metadata() or {})
            found = StreamArrays(arrays["values"], arrays["times"], arrays["boxes"], arrays.get("mask"), provenance)
            _check_shapes(f"{stream} of video {video!r}", found)
            _check_finite(f"{stream} of video {video!r}", times=found.times, boxes=found.boxes)
        return found

    def provenance(self, video: str, stream: str) -> dict[str, str]:
        """What the header of a video's file tells about it."""
        with self._open(video, stream) as file:
            return dict(file.metadata() or {})

    def write(self, video: str, stream: str, arrays: StreamArrays, settings: Mapping[str, Any]) -> Path:
        """Keeps a video's stream; the file that was there before is replaced in one instant or not at all."""
        if not STREAM_NAME.fullmatch(stream):
            raise WatchwordError(f"cannot call a stream {stream!r}: use letters, digits, '_', '-' and '.'")
        tensors = _checked(video, stream, arrays)
        folder = self.folder / stream / settings_key(settings)
        path = folder / _encode(video)
        described = {name: value if isinstance(value, str) else json.dumps(value) for name, value in settings.items()}
        provenance = described | arrays.provenance | {"video": _quoted(video), "stream": stream, "key": folder.name}
        metadata = {str(name): _utf8(value) for name, value in provenance.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WatchwordError(f"cannot write {folder}: {error.strerror or error}") from error
        self._clean(folder)
        if not (folder / "settings.json").exists():
            text = json.dumps(dict(settings), indent=2, sort_keys=True, default=str)
            write_whole(folder / "settings.json", text)
        self._check_width(folder, path, video, tensors["values"].shape[2])
        write_whole(path, save(tensors, metadata), durable=False)
        return path

    # --- inside ----------------------------------------------------------------------------------------------------

    def _folder_of(self, stream: str) -> Path:
        """The folder of a stream, once it is clear which settings are meant."""
        name = StreamName.parse(stream)
        keys = self.keys(stream)
        if not keys:
            if not self.folder.is_dir():
                raise WatchwordError(f"no feature store at {self.folder}: make one with watchword features import ...")
            there = self.streams()
            if not there:
                raise WatchwordError(f"the store {self.folder} is empty: fill it with watchword features import ...")
            raise unknown(f"stream of {self.folder}", stream, there)
        fitting = [key for key in keys if key.startswith(name.key)]
        if len(fitting) == 1:
            return self.folder / name.base / fitting[0]
        choices = ", ".join(f"{each} ({self._short(each)})" for each in map(name.with_key, fitting or keys))
        problem = "was made with several settings" if fitting else f"has no settings {name.key!r}"
        raise WatchwordError(f"stream {name.base} of {self.folder} {problem}: say which, {choices}")

    def _short(self, stream: str) -> str:
        settings = self.settings(stream)
        return " ".join(f"{setting}={value}" for setting, value in sorted(settings.items())) or "no settings"

    @contextlib.contextmanager
    def _open(self, video: str, stream: str) -> Iterator[Any]:
        folder = self._folder_of(stream)
        path = folder / _encode(video)
        try:
            with safe_open(path, framework="numpy") as file:
                missing = {"values", "times", "boxes"} - set(file.keys())
                if missing:
                    raise WatchwordError(f"{path} lacks {', '.join(sorted(missing))}: not a file of a feature store")
                yield file
        except FileNotFoundError as error:
            others = self.videos(StreamName.parse(folder.parent.name).with_key(folder.name))
            raise WatchwordError(
                f"the store {self.folder} has no {stream} of video {video!r} ({len(others):,} others, such as "
                f"{others[0]!r}): bring it in with watchword features import, or check how the videos are called"
            ) from error
        except OSError as error:
            raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
        except WatchwordError:
            raise
        except Exception as error:  # of the file's header, its kinds of numbers, its shapes
            raise WatchwordError(
                f"{path} is damaged ({error}): delete it, then import or extract {video!r} again"
            ) from error

    def _check_width(self, folder: Path, path: Path, video: str, width: int) -> None:
        other = next((file for file in _files(folder) if file != path), None)
        if other is None:
            return
        with contextlib.suppress(SafetensorError), safe_open(other, framework="numpy") as file:
            there = file.get_slice("values").get_shape()[2]
            if there != width:
                raise WatchwordError(
                    f"video {video!r} has features of width {width}, the others of {folder.parent.name} have {there}: "
                    "give it another stream name or other settings"
                )

    def _clean(self, folder: Path) -> None:
        """Removes what killed writers left behind; once per folder and store."""
        if folder in self._cleaned:
            return
        self._cleaned.add(folder)
        for path in folder.glob(".*.tmp"):
            with contextlib.suppress(OSError):  # another process may be cleaning as well
                if time.time() - path.stat().st_mtime > ABANDONED_SECONDS:
                    path.unlink()


def _checked(video: str, stream: str, arrays: StreamArrays) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays as they go to disk, or the one line that says why not."""
    values, times, boxes, mask = arrays.values, arrays.times, arrays.boxes, arrays.mask
    name = f"{stream} of video {video!r}"
    _check_shapes(name, arrays)
    _check_finite(name, values=values, times=times, boxes=boxes)
    half = values.dtype == np.float16
    tensors = {
        "values": np.ascontiguousarray(values, dtype=np.float16 if half else np.float32),
        "times": np.ascontiguousarray(times, dtype=np.float32),
        "boxes": np.ascontiguousarray(boxes, dtype=np.float32),
    }
    if mask is not None:
        tensors["mask"] = np.ascontiguousarray(mask, dtype=np.bool_)
    return tensors


def _check_shapes(name: str, arrays: StreamArrays) -> None:
    values, times, boxes, mask = arrays.values, arrays.times, arrays.boxes, arrays.mask
    if values.ndim != 3 or values.shape[2] == 0:
        raise WatchwordError(f"{name} has shape {values.shape}; expected (time steps, locations, width)")
    time_steps, locations, _ = values.shape
    if times.shape != (time_steps,):
        raise WatchwordError(f"{name} has {time_steps} time steps but times of shape {times.shape}")
    if boxes.shape not in {(locations, 4), (time_steps, locations, 4)}:
        raise WatchwordError(f"{name} has {time_steps} x {locations} locations but boxes of shape {boxes.shape}")
    if mask is not None and mask.shape != (time_steps, locations):
        raise WatchwordError(f"{name} has {time_steps} x {locations} locations but a mask of shape {mask.shape}")


def _check_finite(name: str, **arrays: FloatArray) -> None:
    for what, array in arrays.items():
        broken = array.size - int(np.count_nonzero(np.isfinite(array)))
        if broken:
            raise WatchwordError(f"{name}: {broken} of {array.size} {what} are NaN or infinite")


def _folders(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _files(folder: Path) -> Iterator[Path]:
    """Finished files: temporary names begin with a dot, encoded video names never do."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(SUFFIX) and not entry.name.startswith("."):
                yield folder / entry.name


def _quoted(video: str) -> str:
    """Any id as plain ASCII: no separators, no dots in front, nothing that a file system might normalise."""
    quoted = quote(video, safe="", errors="surrogatepass")
    return "%2E" + quoted[1:] if quoted.startswith(".") else quoted


def _encode(video: str) -> str:
    if not video:
        raise WatchwordError("a video needs a name: its id is empty")
    quoted = _quoted(video)
    if len(quoted) > LONGEST_NAME:  # '%%' never comes out of quoting, so no other id can have this name
        quoted = f"{quoted[:100]}%%{hashlib.sha256(quoted.encode()).hexdigest()}"
    return quoted + SUFFIX


def _decode(path: Path) -> str:
    name = path.name.removesuffix(SUFFIX)
    if "%%" in name:  # shortened: the whole id stands in the header
        with contextlib.suppress(SafetensorError), safe_open(path, framework="numpy") as file:
            name = (file.metadata() or {}).get("video", name)
    return unquote(name, errors="surrogatepass")


def _utf8(value: object) -> str:
    return str(value).encode("utf-8", "backslashreplace").decode()
