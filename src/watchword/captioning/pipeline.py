"""Captioning a video: the one pipeline of the Python API, the command line, the library and the server.

    read the timeline -> extract features -> (segment) -> generate captions -> merge

No torch is imported here before the first video is captioned.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from watchword.captioning.description import Description, Segment
from watchword.captioning.merge import merge_similar
from watchword.lanes import LaneOptions, LaneProgress, read_lanes
from watchword.types import Lane
from watchword.video import read_timeline

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner

WHOLE_SECONDS = 40.0  # a longer video becomes a timeline by default
TRIM_EVERY = 16  # segments: trimming the heap takes a seventh of a second


@dataclass(frozen=True)
class DescribeOptions:
    """What to generate for a video."""

    top: int = 1  # captions for each segment
    beam: int = 5  # beam size
    timeline: bool | None = None  # None: for videos of more than WHOLE_SECONDS
    min_confidence: float = 0.0  # segments whose best caption has less are left out
    lanes: LaneOptions = field(default_factory=LaneOptions)  # what to read beside the captions

    @classmethod
    def of(cls, **settings: Any) -> Self:
        """From keywords of this class and of `LaneOptions` together. A speech model or a language asks for speech."""
        names = {lane.name for lane in fields(LaneOptions)}
        lanes = LaneOptions(**{name: value for name, value in settings.items() if name in names})
        lanes = replace(lanes, speech=lanes.speech or bool(lanes.speech_model or lanes.language))
        return cls(lanes=lanes, **{name: value for name, value in settings.items() if name not in names})

    def wants_timeline(self, seconds: float) -> bool:
        return seconds > WHOLE_SECONDS if self.timeline is None else self.timeline


def caption_video(
    captioner: "Captioner",
    path: Path,
    options: DescribeOptions,
    *,
    seconds: float | None = None,
    start: float = 0.0,
    warnings: list[str] | None = None,
) -> Iterator[Segment]:
    """The segments of a video, each as soon as it is captioned; one segment where no timeline is wanted.

    `seconds` is the video's length where it is known already. A timeline begins at `start`. Damage found in the file
    is appended to `warnings`.
    """
    warnings = [] if warnings is None else warnings
    seconds = read_timeline(path, warnings.append).end if seconds is None else seconds
    if not options.wants_timeline(seconds):
        yield captioner.caption_segment(captioner.extract(path, seconds, warnings), options)
        return
    for number, features in enumerate(captioner.extract_segments(path, start, seconds, warnings)):
        yield captioner.caption_segment(features, options)
        if number % TRIM_EVERY == 0:
            captioner.trim_heap()


def describe_video(captioner: "Captioner", path: Path, options: DescribeOptions) -> Description:
    """All segments of a video, merged, and the lanes beside them."""
    warnings: list[str] = []
    seconds = read_timeline(path, warnings.append).end
    segments = list(caption_video(captioner, path, options, seconds=seconds, warnings=warnings))
    lanes: dict[Lane, LaneProgress] = {}
    for _ in read_lanes(path, options.lanes, lanes, warnings):
        pass
    return with_lanes(assemble(path, seconds, captioner.name, segments, warnings, options), lanes)


def with_lanes(description: Description, lanes: Mapping[Lane, LaneProgress]) -> Description:
    """The description with the lanes as far as they are read."""
    cues = {lane: progress.all_cues for lane, progress in lanes.items()}
    language = lanes["speech"].language if "speech" in lanes else None
    return replace(description, lanes=cues, language=language)


def assemble(
    video: Path,
    seconds: float,
    captioner: str,
    segments: Iterable[Segment],
    warnings: Iterable[str],
    options: DescribeOptions,
) -> Description:
    """A description of the segments that are confident enough; neighbours with similar captions are merged."""
    confident = (segment for segment in segments if segment.best.confidence >= options.min_confidence)
    return Description(video, seconds, captioner, tuple(merge_similar(confident)), tuple(dict.fromkeys(warnings)))
