"""Processes that check files and read frames. No torch: they start in a third of a second.

python -m watchword.server.probe_pool MEMORY_BYTES
"""

import base64
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, Queue
from typing import Any

from watchword.errors import WatchwordError
from watchword.server.subprocesses import Message, Subprocess, serve_requests
from watchword.video.formats import CONTAINER_SUFFIXES

CPU_SECONDS = 30.0  # reading the packets of an hour of video takes about 1 s
SILENCE_SECONDS = 120.0
WAIT_SECONDS = 60.0  # for a free process

KNOWN = {*CONTAINER_SUFFIXES.values(), ".webm"}
OTHER = ".video"  # the suffix of files that browsers do not play


@dataclass(frozen=True)
class ProbedVideo:
    """What a file is."""

    seconds: float
    width: int
    height: int
    suffix: str  # of a known container, or OTHER
    codec: str


class ProbePool:
    """A few processes for all threads."""

    def __init__(self, count: int = 2, memory_bytes: int = 1 << 30) -> None:
        words = "watchword.server.probe_pool", str(memory_bytes)
        self.processes = [Subprocess(*words, silence_seconds=SILENCE_SECONDS) for _ in range(count)]
        self.free: Queue[Subprocess] = Queue()
        for process in self.processes:
            self.free.put(process)

    def probe(self, path: Path) -> ProbedVideo:
        """WatchwordError for what is not a video."""
        values = self._request({"video": str(path)})
        return ProbedVideo(
            float(values["seconds"]),
            int(values["width"]),
            int(values["height"]),
            values["suffix"] if values["suffix"] in KNOWN else OTHER,
            str(values["codec"]),
        )

    def frame(self, path: Path, seconds: float, width: int, height: int) -> bytes:
        """A JPEG of the frame at a time, no larger than this."""
        values = self._request({"video": str(path), "frame": {"seconds": seconds, "width": width, "height": height}})
        return base64.b64decode(values["jpeg"])

    def stop(self) -> None:
        for process in self.processes:
            process.stop()

    def _request(self, request: Message) -> Message:
        try:
            process = self.free.get(timeout=WAIT_SECONDS)
        except Empty:
            raise Busy("the server is reading other videos: try again") from None
        try:
            (values,) = process.request({**request, "cpu_seconds": CPU_SECONDS})
            return values
        finally:
            self.free.put(process)


class Busy(WatchwordError):  # noqa: N818
    """No process is free."""


# --- inside the process --------------------------------------------------------------------------------------------


def handle(request: Message) -> Iterator[Message]:
    path = Path(request["video"])
    if "frame" in request:
        yield {"jpeg": base64.b64encode(_jpeg(path, **request["frame"])).decode()}
    else:
        yield _probe(path)


def _probe(path: Path) -> Message:
    from watchword.video import probe
    from watchword.video.formats import suffix_of

    info = probe(path)
    return {
        "seconds": info.duration_seconds,
        "width": info.width,
        "height": info.height,
        "suffix": suffix_of(path, info.codec),
        "codec": info.codec,
    }


def _jpeg(path: Path, seconds: float, width: int, height: int) -> bytes:
    from PIL import Image

    from watchword.video import At, read_frames

    frames = read_frames(path, At((seconds,)), Within(width, height), report=lambda line: None)
    file = io.BytesIO()
    Image.fromarray(frames.pictures[0]).save(file, "JPEG", quality=80)
    return file.getvalue()


@dataclass(frozen=True)
class Within:
    """No larger than width x height, aspect kept, never enlarged."""

    width: int
    height: int

    def layout(self, width: int, height: int) -> Any:
        from watchword.video.transforms import Layout

        ratio = min(1.0, self.width / width, self.height / height)
        wide, high = max(1, round(width * ratio)), max(1, round(height * ratio))
        return Layout(wide, high, wide, high)


if __name__ == "__main__":
    import watchword.video  # noqa: F401 - before memory is limited

    serve_requests(handle, memory_bytes=int(sys.argv[1]))
