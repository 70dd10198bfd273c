"""The objects behind the endpoints, and the thread that captions the videos of the queue."""

import asyncio
import os
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import aclosing, closing
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request

from watchword.atomic_io import DiskFull
from watchword.errors import WatchwordError
from watchword.lanes import LaneOptions
from watchword.library import VideoRow
from watchword.server.caption_process import CaptionProcess
from watchword.server.jobs import TRIES, Job
from watchword.server.multipart import OVERHEAD, FormFile
from watchword.server.probe_pool import Busy, ProbePool
from watchword.server.schemas import Limits
from watchword.server.storage import Received, Storage, TooLarge, clean_name, plain_name, receive
from watchword.server.subprocesses import ProcessDied
from watchword.video import shown

FRAMES_KEPT = 256  # in memory: some tens of kilobytes each


class NotAVideo(WatchwordError):  # noqa: N818
    """The upload is not a video."""


class Service:
    """One library and its captioners. A library that another server uses is an error of the constructor."""

    def __init__(
        self,
        library: Path,
        model: str | None,
        limits: Limits,
        describers: int = 1,
        lanes: LaneOptions | None = None,
        captioner: Callable[[str | None, int | None, LaneOptions | None], CaptionProcess] = CaptionProcess,
    ) -> None:
        self.limits = limits
        self.storage = Storage(library, limits.queue)
        self.probes = ProbePool()
        threads = max(1, (os.cpu_count() or 1) // describers) if describers > 1 else None
        self.workers = [Worker(self.storage, captioner(model, threads, lanes)) for _ in range(describers)]
        self.stopping = threading.Event()
        self.frame = lru_cache(FRAMES_KEPT)(self._frame)

    def __enter__(self) -> "Service":
        """Loads the captioner: an error is reported before anything is served."""
        try:
            self.info = self.workers[0].captioner.info()
        except BaseException:
            self.close()
            raise
        for worker in self.workers:
            worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for worker in self.workers:
            worker.stopping.set()
        for worker in self.workers:
            worker.stop()
        self.probes.stop()
        self.storage.jobs.close()

    @property
    def is_healthy(self) -> bool:
        return not self.stopping.is_set() and all(worker.is_alive() for worker in self.workers)

    async def upload(self, request: Request, header: str, captioner: str = "") -> Job:
        """An upload becomes a job: bytes on disk, a place in the queue, checked to be a video.

        It has no place before it is complete: slow and unfinished uploads keep nobody out.
        The body is the file, and `header` its percent-encoded name; or a form with a file.
        """
        kind, length = request.headers.get("content-type", ""), request.headers.get("content-length")
        form = FormFile(kind) if kind.lower().startswith("multipart/form-data") else None
        if form is None and not header:
            raise NotAVideo("x-watchword-name: send the name of the video in this header, or the video as a form")
        self.storage.jobs.check_place()
        expected = max(0, int(length) - (OVERHEAD if form else 0)) if length else None
        async with aclosing(request.stream()) as body:
            chunks = form.chunks(body) if form else body
            received = await receive(chunks, self.storage.new_file(), self.limits.bytes, expected)
        name = clean_name(header) if header else plain_name(form.name if form else "")
        try:
            with self.storage.jobs.place():
                return await asyncio.to_thread(self._check, received, name, captioner)
        except BaseException:
            received.path.unlink(missing_ok=True)
            raise

    def _check(self, received: Received, name: str, captioner: str) -> Job:
        try:
            probed = self.probes.probe(received.path)
        except Busy:
            raise
        except WatchwordError as error:
            line = str(error).replace(shown(received.path), name)
            raise NotAVideo(line if name in line else f"cannot read {name}: {line}") from error
        if probed.seconds > self.limits.seconds:
            longest = f"{self.limits.seconds / 3600:g} hours"
            raise TooLarge(f"{name} is longer than {longest}, the limit of this server (--max-hours)")
        path = received.path.rename(received.path.with_suffix(probed.suffix))
        try:
            return self.storage.jobs.add(name, path.name, received.identity, probed.seconds, captioner)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def describe_again(self, row: VideoRow, captioner: str) -> Job:
        """A job for a video of the library; the one that it has already, if any."""
        jobs = self.storage.jobs
        with jobs.changed:
            for job in jobs.unfinished():
                if job.video == row.id:
                    return job
            with jobs.place():
                identity = self.storage.library.identity(row.id) or ""
                return jobs.add(row.name, self.storage.new_file().name, identity, row.seconds, captioner, row.id)

    def cancel(self, job: Job) -> None:
        with self.storage.lock, self.storage.jobs.changed:
            self.storage.jobs.cancel(job)
            running = [worker for worker in self.workers if worker.current == job.id]
            for worker in running:
                worker.captioner.stop()  # a new process takes two seconds to start
            if not running:
                self.storage.drop(job)

    def _frame(self, path: Path, changed: int, seconds: float, size: tuple[int, int]) -> bytes:
        """Cached by the file's time of change too: another video may get the same path."""
        return self.probes.frame(path, seconds, *size)

    def remove(self, video: int) -> bool:
        self.frame.cache_clear()
        return self.storage.remove(video)


# --- the worker ------------------------------------------------------------------------------------------------------


IDLE_SECONDS = 1.0


class Worker(threading.Thread):
    """Takes the oldest waiting job. No video ends it."""

    def __init__(self, storage: Storage, captioner: CaptionProcess) -> None:
        super().__init__(daemon=True, name="watchword worker")
        self.storage, self.jobs, self.captioner = storage, storage.jobs, captioner
        self.stopping = threading.Event()
        self.current: str | None = None  # the current job; changes only under the jobs' lock

    def run(self) -> None:
        reported = ""  # a disk stays full for a while: it is said once
        while not self.stopping.is_set():
            try:
                if not self._work():
                    self.jobs.wait(IDLE_SECONDS)
                reported = ""
            except Exception as error:  # a full disk or a bug: the next video may succeed
                if str(error) != reported:
                    _report(error)
                reported = str(error)
                self.stopping.wait(IDLE_SECONDS)

    def stop(self) -> None:
        """The current job waits for the next start."""
        self.stopping.set()
        with self.jobs.changed:
            self.jobs.changed.notify_all()
        self.captioner.stop()
        if self.is_alive():
            self.join()

    def _work(self) -> bool:
        """One job, if one waits."""
        with self.jobs.changed:
            self.jobs.recover()  # a job whose end a full disk prevented
            job = self.jobs.begin()
            self.current = job.id if job else None
        if job is None:
            return False
        try:
            self._describe(job)
        except ProcessDied as error:
            if self.stopping.is_set():
                self.jobs.requeue(job, job.tries - 1)
            elif error.is_final or job.tries >= TRIES:
                self.jobs.fail(job, f"cannot describe {job.name}: {error}")
            else:
                self.jobs.requeue(job, job.tries)
        except DiskFull:  # the job is taken up again when there is space
            raise
        except WatchwordError as error:
            self.jobs.fail(job, str(error))
        except Exception as error:  # messages of the process are not trusted
            _report(error)
            self.jobs.fail(job, f"cannot describe {job.name}: {type(error).__name__}: {error}")
        finally:
            with self.jobs.changed:
                self.current = None
                self.jobs.running.discard(job.id)
        found = self.jobs.find(job.id)
        if found is None or found.state in {"failed", "cancelled"}:
            self.storage.drop(job)
        return True

    def _describe(self, job: Job) -> None:
        path = self.storage.upload_of(job)
        if path is None:
            raise WatchwordError(f"cannot describe {job.name}: its file is missing; upload it again")
        with closing(self.captioner.describe(path, job.name, job.seconds, job.captioner)) as updates:
            for update in updates:
                if update.description is not None:
                    self.storage.keep(job, update.description, update.explanation)
                elif not self.jobs.reach(job, update.reached, update.caption, update.confidence):
                    return


def _report(error: Exception) -> None:
    """A line for what a person can act on, a traceback for a bug."""
    if isinstance(error, WatchwordError):
        print(f"watchword: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error, file=sys.stderr)
