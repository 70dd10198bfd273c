"""What a lane reader gets and gives, and the three readers by name."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from watchword.errors import WatchwordError, unknown
from watchword.types import Cue, Lane, Language

LANES: tuple[Lane, ...] = ("speech", "text", "sounds")  # in the order in which they are read


@dataclass(frozen=True)
class LaneOptions:
    """The lanes to read beside the captions, and the settings of the speech recogniser."""

    speech: bool = False
    text: bool = False
    sounds: bool = False
    speech_model: str = ""  # weights by name, or a folder; the best that is installed
    language: str = ""  # of the speech, such as en; guessed

    @property
    def wanted(self) -> tuple[Lane, ...]:
        return tuple(lane for lane in LANES if getattr(self, lane))


@dataclass(frozen=True)
class LanePart:
    """The next part of a lane."""

    reached: float  # seconds of the video that are read
    cues: tuple[Cue, ...] = ()  # that ended since the last part
    open_cues: tuple[Cue, ...] = ()  # that go on
    language: Language | None = None
    is_last: bool = False


@dataclass(frozen=True)
class LaneProgress:
    """How far a lane is read."""

    reached: float = 0.0
    cues: tuple[Cue, ...] = ()
    open_cues: tuple[Cue, ...] = ()
    language: Language | None = None
    is_done: bool = False

    def with_part(self, part: LanePart) -> "LaneProgress":
        language = part.language or self.language
        return LaneProgress(part.reached, self.cues + part.cues, part.open_cues, language, part.is_last)

    @property
    def all_cues(self) -> tuple[Cue, ...]:
        """In order of time."""
        return tuple(sorted((*self.cues, *self.open_cues), key=lambda cue: (cue.start, cue.end)))


class LaneReader(Protocol):
    """Reads one lane of video after video; its networks are loaded once."""

    def read(self, path: Path, progress: LaneProgress, warnings: list[str]) -> Iterator[LanePart]:
        """The parts from `progress` on, each as soon as it is read. Damage of the file is appended to `warnings`."""
        ...


def read_lanes(
    path: Path, options: LaneOptions, lanes: dict[Lane, LaneProgress], warnings: list[str]
) -> Iterator[tuple[Lane, LanePart]]:
    """The wanted lanes of a video, one after the other, part by part; `lanes` is the progress, which is kept up."""
    for lane in options.wanted:
        if lane in lanes and lanes[lane].is_done:
            continue
        progress = lanes.setdefault(lane, LaneProgress())
        for part in open_reader(lane, options).read(path, progress, warnings):
            lanes[lane] = lanes[lane].with_part(part)
            yield lane, part
        last = LanePart(lanes[lane].reached, is_last=True)
        lanes[lane] = lanes[lane].with_part(last)
        yield lane, last


@cache
def open_reader(lane: Lane, options: LaneOptions) -> LaneReader:
    """Loaded once for all videos. An error says what to install."""
    check_lanes(options)
    match lane:
        case "speech":
            from watchword.lanes.speech import SpeechReader

            return SpeechReader(options.speech_model, options.language)
        case "text":
            from watchword.lanes.screen_text import TextReader

            return TextReader()
        case "sounds":
            from watchword.lanes.sounds import SoundReader

            return SoundReader()
        case _:
            raise unknown("lane", lane, LANES)


def check_lanes(options: LaneOptions) -> None:
    """Packages and weights, before hours of work: an error says how to get what is missing."""
    if options.speech:
        _check_package("faster_whisper", "speech")
        from watchword.lanes.whisper_weights import find_weights

        find_weights(options.speech_model)
    if options.text:
        _check_package("rapidocr", "text")
    if options.sounds:
        from watchword.backbones.weights import is_present

        if not is_present("yamnet"):
            raise WatchwordError("--sounds needs the network YAMNet: watchword weights get yamnet (4 MB)")


def _check_package(module: str, lane: Lane) -> None:
    if find_spec(module) is None:
        raise WatchwordError(f"--{lane} needs {module.replace('_', '-')}: pip install 'watchword[{lane}]'")
