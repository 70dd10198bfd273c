"""A job of one or many videos that can be stopped and resumed: a journal notes every segment and part that is done."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from watchword.captioning.description import (
    Description,
    Segment,
    cue_from_dict,
    cue_to_dict,
    language_from_dict,
    language_to_dict,
    segment_from_dict,
    segment_to_dict,
)
from watchword.captioning.pipeline import DescribeOptions, assemble, caption_video, with_lanes
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.lanes import LanePart, LaneProgress, read_lanes
from watchword.types import Lane
from watchword.video import read_timeline

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner


@dataclass
class VideoProgress:
    """One video of a job."""

    video: Path
    seconds: float = 0.0
    segments: list[Segment] = field(default_factory=list)  # all, before confidence is checked and similar ones merged
    warnings: list[str] = field(default_factory=list)
    error: str = ""
    is_done: bool = False
    lanes: dict[Lane, LaneProgress] = field(default_factory=dict)
    lane: Lane = "captions"  # the current one
    has_captions: bool = False  # from an earlier description

    @property
    def is_captioned(self) -> bool:
        """Whether the other lanes come next."""
        is_at_end = bool(self.segments) and self.segments[-1].end >= self.seconds
        return self.has_captions or bool(self.lanes) or is_at_end

    @property
    def reached(self) -> float:
        """Seconds of the current lane that are done."""
        if self.lane != "captions":
            return min(self.lanes[self.lane].reached, self.seconds)
        return self.segments[-1].end if self.segments else 0.0

    def description(self, captioner: str, options: DescribeOptions) -> Description:
        found = assemble(self.video, self.seconds, captioner, self.segments, self.warnings, options)
        return with_lanes(found, self.lanes)


class Journal:
    """The file beside an output: a line for each segment, each part of another lane, and the end of each video.

    Its first line holds the settings of the job; a journal with other settings is not resumed.
    """

    def __init__(self, path: Path | None, job: dict[str, Any], resume: bool) -> None:
        self.path = path
        self.videos: dict[str, VideoProgress] = {}
        if path is None:
            return
        if resume and path.exists():
            self._read(path, job)
        else:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(job) + "\n", "utf-8")
            except OSError as error:
                raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error

    def _read(self, path: Path, job: dict[str, Any]) -> None:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")
        whole, rest = lines[:-1], lines[-1]  # a line without an end was being written when the job was killed
        try:
            begun = parse_json(whole[0])
            for key in (key for key in {**begun, **job} if begun.get(key) != job.get(key)):
                before, now = begun.get(key, "not set"), job.get(key, "not set")
                raise WatchwordError(
                    f"{path} was begun with other settings ({key}: {before}, now {now}): "
                    "repeat the old ones, or leave out --resume to start again"
                )
            for line in whole[1:]:
                self._read_row(parse_json(line))
        except (IndexError, KeyError, ValueError, TypeError, AttributeError) as error:
            raise WatchwordError(f"{path} is damaged ({error}): delete it and start again") from error
        if rest:
            path.write_text("".join(f"{line}\n" for line in whole), "utf-8")

    def _read_row(self, row: dict[str, Any]) -> None:
        video = self.videos.setdefault(row["video"], VideoProgress(Path(row["video"]), row["seconds"]))
        video.segments += [segment_from_dict(row["segment"])] if "segment" in row else []
        video.warnings, video.is_done = row.get("warnings", []), "warnings" in row
        if "lane" in row:
            before = video.lanes.get(row["lane"], LaneProgress())
            video.lanes[row["lane"]] = before.with_part(_part_from_dict(row))

    def find(self, video: Path) -> VideoProgress | None:
        """What an earlier job noted of a video."""
        with suppress(OSError):  # a video that is not there, or not to be reached, is reported when it is read
            return self.videos.get(_identity(video))
        return None

    def begin_with(self, path: Path, description: Description) -> None:
        """The captions and lanes of an earlier description are not made again."""
        video = self.videos.setdefault(_identity(path), VideoProgress(path, description.seconds))
        video.segments, video.has_captions = list(description.segments), True
        for lane, cues in description.lanes.items():
            language = description.language if lane == "speech" else None
            video.lanes[lane] = LaneProgress(cues=cues, language=language, is_done=True)

    def note(self, video: VideoProgress, row: dict[str, Any]) -> None:
        if self.path is None:
            return
        line = json.dumps({"video": _identity(video.video), "seconds": video.seconds, **row})
        try:
            with self.path.open("a", encoding="ascii") as file:
                file.write(line + "\n")
        except OSError as error:
            raise WatchwordError(f"cannot write {self.path}: {error.strerror or error}") from error

    def close(self) -> None:
        """Deletes the file: everything is done."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def _part_to_dict(part: LanePart) -> dict[str, Any]:
    cues, open_cues = ([cue_to_dict(cue) for cue in some] for some in (part.cues, part.open_cues))
    language = language_to_dict(part.language)
    values = {"reached": part.reached, "cues": cues, "open_cues": open_cues, "language": language}
    return values | {"is_last": part.is_last}


def _part_from_dict(values: dict[str, Any]) -> LanePart:
    cues, open_cues = (tuple(map(cue_from_dict, values[key])) for key in ("cues", "open_cues"))
    return LanePart(values["reached"], cues, open_cues, language_from_dict(values["language"]), values["is_last"])


def _identity(video: Path) -> str:
    """A video is the same if it has the same name, size and time."""
    status = video.stat()
    return f"{video}\t{status.st_size}\t{status.st_mtime_ns}"


@dataclass(frozen=True)
class DescribeJob:
    """Videos, the options for them, and the journal."""

    videos: Sequence[Path]
    options: DescribeOptions
    load: Callable[[], "Captioner"]  # called when the first video has been opened
    journal: Journal

    def run(self) -> Iterator[VideoProgress]:
        """Each video at its start, after each segment or part, and at its end. A damaged one does not stop others."""
        captioner: Captioner | None = None
        for path in self.videos:
            video = self._begin(path)
            yield video
            if video.is_done or video.error:
                continue
            has_captions = video.is_captioned
            if not has_captions:
                captioner = captioner or self.load()  # its error is not the video's
            try:
                if captioner is not None and not has_captions:
                    for segment in caption_video(
                        captioner,
                        path,
                        self.options,
                        seconds=video.seconds,
                        start=video.reached,
                        warnings=video.warnings,
                    ):
                        video.segments.append(segment)
                        self.journal.note(video, {"segment": segment_to_dict(segment)})
                        yield video
                for lane, part in read_lanes(path, self.options.lanes, video.lanes, video.warnings):
                    video.lane = lane
                    self.journal.note(video, {"lane": lane, **_part_to_dict(part)})
                    yield video
            except Exception as error:  # any error: the job goes on with the other videos
                known = isinstance(error, WatchwordError)
                video.error = str(error) if known else f"cannot describe {path}: {type(error).__name__}: {error}"
            else:
                video.is_done = True
                self.journal.note(video, {"warnings": video.warnings})
            yield video

    def _begin(self, path: Path) -> VideoProgress:
        """A video with what the journal has of it; one that cannot be read has an error."""
        noted = self.journal.find(path)
        if noted is not None:
            return replace(noted, video=path)
        video = VideoProgress(path)
        try:
            video.seconds = read_timeline(path, video.warnings.append).end
        except WatchwordError as error:
            return VideoProgress(path, error=str(error))
        return video
