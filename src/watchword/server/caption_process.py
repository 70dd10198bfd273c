"""A process that holds one captioner and captions video after video.

    python -m watchword.server.caption_process MODEL LANES

All of captioning runs here, not only decoding: frames are many and captions are few, so little data crosses the border
of the process, and torch stays out of the server.
"""

import json
import sys
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchword.captioning.description import Description, Segment, description_from_dict, description_to_dict
from watchword.captioning.pipeline import DescribeOptions, assemble, caption_video, with_lanes
from watchword.errors import WatchwordError
from watchword.lanes import LaneOptions, LaneProgress, read_lanes
from watchword.library.query import has_minilm
from watchword.server.subprocesses import Message, Subprocess, serve_requests
from watchword.types import Lane
from watchword.video import read_timeline, shown

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner

MEMORY_BYTES = 4 << 30  # more than the networks need
SILENCE_SECONDS = 900.0  # between two segments; CPU limits find a dead decoder long before
OPTIONS = DescribeOptions(top=3)


@dataclass(frozen=True)
class CaptionUpdate:
    """How far a video is captioned; `description` at the end."""

    reached: float  # seconds
    caption: str
    confidence: float
    description: Description | None = None
    explanation: dict[str, Any] | None = None


@dataclass(frozen=True)
class CaptionerInfo:
    """The captioner of the process."""

    captioner: str
    hint: str  # how to get a better one
    semantic_search: bool  # whether captions can be embedded; known where torch is
    captioners: tuple[str, ...] = ()  # that can be chosen: this one, and shipped ones whose backbones are installed


class CaptionProcess:
    """The process as the server uses it."""

    def __init__(self, model: str | None, threads: int | None = None, lanes: LaneOptions | None = None) -> None:
        words = [model or "", json.dumps(asdict(lanes or LaneOptions()))]
        environment = {"OMP_NUM_THREADS": str(threads)} if threads else {}
        self.process = Subprocess(
            "watchword.server.caption_process", *words, silence_seconds=SILENCE_SECONDS, environment=environment
        )

    def info(self) -> CaptionerInfo:
        """Loads the captioner: one that cannot be loaded is an error at the start."""
        (values,) = self.process.request({"cpu_seconds": 600})
        return CaptionerInfo(**values | {"captioners": tuple(values["captioners"])})

    def describe(self, path: Path, name: str, seconds: float, captioner: str = "") -> Generator[CaptionUpdate]:
        """By the process's own captioner, unless another one is named."""
        request = {"video": str(path), "name": name, "captioner": captioner, "cpu_seconds": 120 + 20 * seconds}
        for message in self.process.request(request):
            description = description_from_dict(message["description"]) if "description" in message else None
            told = float(message["reached"]), str(message["caption"]), float(message["confidence"])
            yield CaptionUpdate(*told, description, message.get("explanation"))

    def stop(self) -> None:
        self.process.stop()


# --- inside the process --------------------------------------------------------------------------------------------


class CaptionHandler:
    """Responds with a message for each segment, and the whole description at the end."""

    def __init__(self, model: str | None, lanes: LaneOptions | None = None) -> None:
        self.model = model
        self.options = replace(OPTIONS, lanes=lanes or LaneOptions())
        self.loaded: tuple[str, Captioner] | None = None  # one at a time: each takes some hundred megabytes

    def handle(self, request: Message) -> Iterator[Message]:
        captioner = self.load(request.get("captioner", ""))
        if "video" not in request:
            about = {"captioner": captioner.name, "hint": captioner.hint, "semantic_search": has_minilm()}
            yield about | {"captioners": choices(captioner.name)}
            return
        path, name = Path(request["video"]), request["name"]
        try:
            yield from self.describe(captioner, path, name)
        except WatchwordError as error:
            raise WatchwordError(renamed(str(error), path, name)) from error

    def load(self, name: str) -> "Captioner":
        from watchword.captioning.captioner import Captioner

        if self.loaded is None or self.loaded[0] != name:
            self.loaded = None
            self.loaded = name, Captioner.load(name or self.model)
        return self.loaded[1]

    def describe(self, captioner: "Captioner", path: Path, name: str) -> Iterator[Message]:
        from watchword.explain.attention import Explanation

        warnings, segments = list[str](), list[Segment]()
        seconds = read_timeline(path, warnings.append).end
        passes: list[Lane] = ["captions", *self.options.lanes.wanted]
        for segment in caption_video(captioner, path, self.options, seconds=seconds, warnings=warnings):
            segments.append(segment)
            yield {"reached": segment.end / len(passes), **_latest(segments)}
        lanes: dict[Lane, LaneProgress] = {}
        for lane, part in read_lanes(path, self.options.lanes, lanes, warnings):
            done = passes.index(lane) * seconds + min(part.reached, seconds)
            yield {"reached": done / len(passes), **_latest(segments)}
        lines = [renamed(line, path, name) for line in warnings]
        description = assemble(Path(name), seconds, captioner.name, segments, lines, self.options)
        description = with_lanes(description, lanes)
        yield {
            "reached": seconds,
            "caption": description.caption,
            "confidence": description.confidence,
            "description": description_to_dict(description),
            "explanation": Explanation.of(description).values(),
        }


def _latest(segments: Sequence[Segment]) -> Message:
    """What is told of a job that goes on."""
    best = segments[-1].best if segments else None
    return {"caption": best.text, "confidence": best.confidence} if best else {"caption": "", "confidence": 1.0}


def choices(own: str) -> list[str]:
    """The captioner of the process, and the shipped ones whose backbones are installed."""
    from watchword.captioning.bundle import find_shipped, missing_weights, shipped

    return [own, *(name for name in shipped() if name != own and not missing_weights(find_shipped(name)))]


def renamed(line: str, path: Path, name: str) -> str:
    """Messages show the name of the upload, not the path of its file."""
    return line.replace(shown(path), name)


if __name__ == "__main__":
    import watchword.captioning.captioner  # noqa: F401 - torch, before memory is limited

    model, lanes = sys.argv[1:]
    handler = CaptionHandler(model or None, LaneOptions(**json.loads(lanes)))
    serve_requests(handler.handle, memory_bytes=MEMORY_BYTES)
