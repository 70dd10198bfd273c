"""Many videos: one after the other, in several processes of this machine, or on a Ray cluster."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from watchword.captioning.bundle import SHIPPED, missing_weights
from watchword.captioning.description import Description
from watchword.captioning.journal import DescribeJob, Journal, VideoProgress
from watchword.captioning.pipeline import DescribeOptions
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.video import shown
from watchword.video.inputs import VideoInput, name_of
from watchword.workers import Lost, cores, run_local, run_ray

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner

Engine = Literal["local", "ray"]


def describe_many(
    videos: Iterable[VideoInput], captioner: "Captioner", options: DescribeOptions, workers: int, rate: float | None
) -> Iterator[Description | WatchwordError]:
    """A description for each video, in order; the error of one that cannot be described."""
    if workers <= 1:
        yield from map(_describer(captioner, options, rate), videos)
        return
    make = partial(_make_describer, portable_name(captioner), str(captioner.device), options, rate)
    for found in run_local(make, map(_portable, videos), workers, ordered=True):
        yield WatchwordError(f"cannot describe {_shown(found.item)}: {found}") if isinstance(found, Lost) else found


def _make_describer(
    name: str, device: str, options: DescribeOptions, rate: float | None
) -> Callable[[VideoInput], Description | WatchwordError]:
    from watchword.captioning.captioner import Captioner

    return _describer(Captioner.load(name, device=device), options, rate)


def _describer(
    captioner: "Captioner", options: DescribeOptions, rate: float | None
) -> Callable[[VideoInput], Description | WatchwordError]:
    def describe(video: VideoInput) -> Description | WatchwordError:
        try:
            return captioner.describe_input(video, options, rate)
        except WatchwordError as error:
            return error
        except Exception as error:  # any error: the job goes on with the other videos
            return WatchwordError(f"cannot describe {_shown(video)}: {type(error).__name__}: {error}")

    return describe


def _shown(video: Any) -> str:
    return str(video) if isinstance(video, str | Path) else name_of(video)


def _portable(video: VideoInput) -> VideoInput:
    """As it can be sent to another process: of a file object, its content."""
    return video.read() if hasattr(video, "read") else video


def portable_name(captioner: "Captioner") -> str:
    """A name that other processes and machines find the captioner by. Its weights are fetched here, once."""
    if missing_weights(captioner.bundle):
        captioner.extraction.load()
    folder = captioner.bundle.folder
    return folder.name if folder.parent == SHIPPED else str(folder.absolute())


def without_lines(target: Path | None, videos: Sequence[Path]) -> list[Path]:
    """The videos that have no line in a file of JSON lines; half a line of a killed job is removed."""
    if target is None or not target.exists():
        return list(videos)
    content = target.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    try:
        known = {str(parse_json(line.decode())["video"]) for line in whole.splitlines()}
    except (ValueError, KeyError, TypeError) as error:
        raise WatchwordError(f"{target} has a line that is no description ({error}): name another --output") from error
    if len(whole) < len(content):
        os.truncate(target, len(whole))
    return [video for video in videos if shown(video) not in known]


# --- jobs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ParallelJob(DescribeJob):
    """A job whose videos are captioned by several workers: each comes once, as soon as it is done."""

    workers: int | None = None  # None: one for each core of the machine, or of the cluster
    engine: Engine = "local"

    def run(self) -> Iterator[VideoProgress]:
        begun = {path: self.journal.find(path) for path in self.videos}
        for path, noted in begun.items():
            if noted is not None and noted.is_done:
                yield replace(noted, video=path)
        waiting = [path for path, noted in begun.items() if noted is None or not noted.is_done]
        if waiting:
            yield from self._run_workers(waiting)

    def _run_workers(self, paths: Sequence[Path]) -> Iterator[VideoProgress]:
        captioner = self.load()
        make = partial(_make_progress, portable_name(captioner), str(captioner.device), self.options)
        if self.engine == "ray":
            results = run_ray(make, [path.absolute() for path in paths], self.workers)
        else:
            results = run_local(make, paths, min(self.workers or cores(), len(paths)))
        given = {path.absolute(): path for path in paths}
        for found in results:
            if isinstance(found, Lost):
                path = given[found.item.absolute()]
                yield VideoProgress(path, error=f"cannot describe {path}: {found}")
                continue
            video = replace(found.video, video=given[found.video.video.absolute()])
            for row in found.rows if video.is_done else ():
                self.journal.note(video, row)
            yield video


@dataclass(frozen=True)
class Captioned:
    """A video that a worker has captioned, and what is to be noted of it in the journal."""

    video: VideoProgress
    rows: tuple[dict[str, Any], ...]


class Notes(Journal):
    """The journal of a worker: kept in memory, for the process that has the file."""

    def __init__(self) -> None:
        super().__init__(None, {}, resume=False)
        self.rows: list[dict[str, Any]] = []

    def note(self, video: VideoProgress, row: dict[str, Any]) -> None:
        self.rows.append(row)


def _make_progress(name: str, device: str, options: DescribeOptions) -> Callable[[Path], Captioned]:
    from watchword.captioning.captioner import Captioner

    captioner = Captioner.load(name, device=device)

    def caption(path: Path) -> Captioned:
        notes = Notes()
        *_, video = DescribeJob([path], options, lambda: captioner, notes).run()
        return Captioned(video, tuple(notes.rows))

    return caption


# --- videos for a library --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task:
    """A video to describe, and what an earlier description has of it."""

    video: Path
    identity: str
    known: int | None = None
    before: Description | None = None


def run_tasks(
    tasks: Iterable[Task],
    captioner: "Captioner",
    options: DescribeOptions,
    workers: int | None,
    engine: Engine,
) -> Iterator[tuple[Task, VideoProgress]]:
    """Each task with its described video, as soon as it is done. Tasks are taken as workers become free."""
    make = partial(_make_task_work, portable_name(captioner), str(captioner.device), options)
    run = run_ray(make, tasks, workers) if engine == "ray" else run_local(make, tasks, workers or cores())
    for found in run:
        if isinstance(found, Lost):
            task = found.item
            yield task, VideoProgress(task.video, error=f"cannot describe {task.video}: {found}")
        else:
            yield found


def _make_task_work(name: str, device: str, options: DescribeOptions) -> Callable[[Task], tuple[Task, VideoProgress]]:
    from watchword.captioning.captioner import Captioner

    captioner = Captioner.load(name, device=device)

    def work(task: Task) -> tuple[Task, VideoProgress]:
        notes = Notes()
        if task.before is not None:
            notes.begin_with(task.video, task.before)
        *_, video = DescribeJob([task.video], options, lambda: captioner, notes).run()
        return task, video

    return work
