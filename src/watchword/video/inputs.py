"""A video as a program has it: a path, bytes, a file object, or an array of frames. All become a file that is read."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

import av
import numpy as np
from numpy.typing import NDArray

from watchword.errors import VideoUnreadable, WatchwordError
from watchword.video.container import shown

VideoInput = str | os.PathLike[str] | bytes | BinaryIO | NDArray[np.uint8]


@contextmanager
def as_file(video: VideoInput, rate: float | None = None) -> Iterator[tuple[Path, Path]]:
    """The file of a video, and the name to show; frames need a `rate`, in frames a second.

    What is no path is written into a temporary file, whose name no error tells.
    """
    if isinstance(video, str | os.PathLike):
        yield Path(video), Path(video)
        return
    name = Path(name_of(video))
    with tempfile.TemporaryDirectory(prefix="watchword-") as folder:
        path = Path(folder) / "video"
        try:
            path = _written(video, rate, path)
            yield path, name
        except WatchwordError as error:
            raise type(error)(str(error).replace(shown(path), shown(name))) from error


def name_of(video: VideoInput) -> str:
    """What a video without a path is called."""
    if isinstance(video, bytes | bytearray | memoryview):
        return "bytes"
    named = getattr(video, "name", None) if hasattr(video, "read") else "frames"
    return named if isinstance(named, str) else "file"


def _written(video: Any, rate: float | None, path: Path) -> Path:
    if isinstance(video, bytes | bytearray | memoryview):
        path.write_bytes(video)
        return path
    if hasattr(video, "read"):
        with path.open("wb") as file:
            shutil.copyfileobj(video, file, 1 << 20)
        return path
    return _write_frames(np.asarray(video), rate, path.with_suffix(".mkv"))


def _write_frames(frames: NDArray[Any], rate: float | None, path: Path) -> Path:
    """As a lossless video."""
    if frames.ndim != 4 or frames.shape[3] != 3 or frames.dtype != np.uint8 or not frames.size:
        raise VideoUnreadable(f"frames must be (F, H, W, 3) of uint8, RGB, not {frames.shape} of {frames.dtype}")
    if rate is None or not 0 < rate < 1000:
        raise VideoUnreadable(f"frames need their rate, in frames a second: rate=25, not {rate}")
    with av.open(str(path), "w") as container:
        stream = container.add_stream("ffv1", rate=Fraction(rate).limit_denominator(1001))
        stream.height, stream.width, stream.pix_fmt = frames.shape[1], frames.shape[2], "bgr0"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode(None))
    return path
