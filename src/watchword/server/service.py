"""The objects behind the endpoints: storage, worker, captioner and probes."""

import asyncio
import threading
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request

from watchword.errors import WatchwordError
from watchword.server.caption_process import CaptionProcess
from watchword.server.jobs import Job
from watchword.server.probe_pool import Busy, ProbePool
from watchword.server.schemas import Limits
from watchword.server.storage import Storage
from watchword.server.uploads import Received, TooLarge, receive
from watchword.server.worker import Worker
from watchword.video import shown

FRAMES_KEPT = 256  # in memory: some tens of kilobytes each


class NotAVideo(WatchwordError):  # noqa: N818
    """The upload is not a video."""


class Service:
    """One library and one captioner. A library that another server uses is an error of the constructor."""

    def __init__(self, library: Path, model: str | None, limits: Limits) -> None:
        self.limits = limits
        self.storage = Storage(library, limits.queue)
        self.captioner, self.probes = CaptionProcess(model), ProbePool()
        self.worker = Worker(self.storage, self.captioner)
        self.stopping = threading.Event()
        self.frame = lru_cache(FRAMES_KEPT)(self._frame)

    def __enter__(self) -> "Service":
        """Loads the captioner: an error is reported before anything is served."""
        try:
            self.info = self.captioner.info()
        except BaseException:
            self.close()
            raise
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.worker.stop()
        self.probes.stop()
        self.storage.jobs.close()

    async def upload(self, request: Request, name: str) -> Job:
        """An upload becomes a job: a place in the queue, bytes on disk, checked to be a video."""
        with self.storage.jobs.place():
            length = request.headers.get("content-length")
            async with aclosing(request.stream()) as chunks:
                received = await receive(
                    chunks, self.storage.new_file(), self.limits.bytes, int(length) if length else None
                )
            try:
                return await asyncio.to_thread(self._check, received, name)
            except BaseException:
                received.path.unlink(missing_ok=True)
                raise

    def _check(self, received: Received, name: str) -> Job:
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
            return self.storage.jobs.add(name, path.name, received.identity, probed.seconds)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _frame(self, path: Path, changed: int, seconds: float, size: tuple[int, int]) -> bytes:
        """Cached by the file's time of change too: another video may get the same path."""
        return self.probes.frame(path, seconds, *size)

    def remove(self, video: int) -> bool:
        self.frame.cache_clear()
        return self.storage.remove(video)
