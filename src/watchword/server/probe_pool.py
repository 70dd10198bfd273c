"""In a child: whether a file is a film, and pictures of it. No torch: it is here in a third of a second.

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
from watchword.server.subprocesses import Child, Message, answer_questions

CPU_SECONDS = 30.0         # a walk over the packets takes about 1 s for an hour of film
SILENCE_SECONDS = 120.0
WAIT_SECONDS = 60.0        # for a free child

# What FFmpeg calls a container -> the ending we give its file; others are kept as .film and never shown by a browser.
ENDINGS = {
    "mov,mp4,m4a,3gp,3g2,mj2": ".mp4", "matroska,webm": ".mkv", "avi": ".avi", "ogg": ".ogv", "gif": ".gif",
    "mpegts": ".ts", "mpeg": ".mpg", "flv": ".flv", "asf": ".wmv", "png_pipe": ".png", "jpeg_pipe": ".jpg",
    "webp_pipe": ".webp",
}  # fmt: skip
OF_WEBM = {"vp8", "vp9", "av1"}


@dataclass(frozen=True)
class Seen:
    """What a film is."""

    seconds: float
    width: int
    height: int
    ending: str    # one of ours
    codec: str


class Lookers:
    """A few children that look at films for all threads."""

    def __init__(self, count: int = 2, memory_bytes: int = 1 << 30) -> None:
        words = "watchword.server.probe_pool", str(memory_bytes)
        self.children = [Child(*words, silence_seconds=SILENCE_SECONDS) for _ in range(count)]
        self.free: Queue[Child] = Queue()
        for child in self.children:
            self.free.put(child)

    def probe(self, path: Path) -> Seen:
        """WatchwordError for whatever is not a film."""
        values = self._ask({"film": str(path)})
        return Seen(
            float(values["seconds"]), int(values["width"]), int(values["height"]),
            values["ending"] if values["ending"] in {*ENDINGS.values(), ".webm"} else ".film", str(values["codec"]),
        )  # fmt: skip

    def picture(self, path: Path, seconds: float, width: int, height: int) -> bytes:
        """A JPEG of what is on screen, at most so large."""
        values = self._ask({"film": str(path), "picture": {"seconds": seconds, "width": width, "height": height}})
        return base64.b64decode(values["jpeg"])

    def stop(self) -> None:
        for child in self.children:
            child.stop()

    def _ask(self, question: Message) -> Message:
        try:
            child = self.free.get(timeout=WAIT_SECONDS)
        except Empty:
            raise Busy("the server is looking at other films: try again") from None
        try:
            (values,) = child.ask({**question, "cpu_seconds": CPU_SECONDS})
            return values
        finally:
            self.free.put(child)


class Busy(WatchwordError):  # noqa: N818
    """Nobody is free to look."""


# --- inside the child ----------------------------------------------------------------------------------------------


def look(question: Message) -> Iterator[Message]:
    path = Path(question["film"])
    if "picture" in question:
        yield {"jpeg": base64.b64encode(_jpeg(path, **question["picture"])).decode()}
    else:
        yield _probe(path)


def _probe(path: Path) -> Message:
    from watchword.video import probe
    from watchword.video.container import opened

    film = probe(path)
    with opened(path) as container:
        name = container.format.name
    ending = ".webm" if name == "matroska,webm" and film.codec in OF_WEBM else ENDINGS.get(name, ".film")
    return {
        "seconds": film.duration_seconds, "width": film.width, "height": film.height, "ending": ending,
        "codec": film.codec,
    }  # fmt: skip


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
    import watchword.video  # noqa: F401 - before memory is counted

    answer_questions(look, memory_bytes=int(sys.argv[1]))
