"""Who extracts: this process, several processes, or a Ray cluster. All of them run `Extraction.extract`."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial

from watchword.features.extraction import Extraction, Job, Outcome, VideoFile
from watchword.workers import Lost, run_local, run_ray


def extract_here(job: Job, videos: Iterable[VideoFile]) -> Iterator[Outcome]:
    extraction = Extraction(job)
    extraction.load()
    return map(extraction.extract, videos)


def extract_local(job: Job, videos: Iterable[VideoFile], workers: int) -> Iterator[Outcome]:
    """On this machine, in as many processes as asked for."""
    if workers <= 1:
        return extract_here(job, videos)
    Extraction(job).load()  # fetches weights once, and says what is wrong with them in one line
    return map(_outcome, run_local(partial(_extractor, job), videos, workers))


def extract_ray(job: Job, videos: Iterable[VideoFile], workers: int | None = None) -> Iterator[Outcome]:
    """On a Ray cluster. Videos, store and users' weights are read and written by path."""
    job = replace(job, store=job.store.absolute())
    Extraction(job).load()
    paths = (replace(video, path=video.path.absolute()) for video in videos)
    return map(_outcome, run_ray(partial(_extractor, job), paths, workers))


def _extractor(job: Job) -> Callable[[VideoFile], Outcome]:
    return Extraction(job).extract


def _outcome(found: Outcome | Lost[VideoFile]) -> Outcome:
    if isinstance(found, Lost):
        return Outcome(found.item, f"cannot extract {found.item.path}: {found}")
    return found
