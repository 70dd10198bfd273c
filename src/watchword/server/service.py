"""All that the endpoints work with, put together: the shelf, the worker and its captioner, those who look."""

import asyncio
import threading
from contextlib import aclosing
from functools import lru_cache
from pathlib import Path

from starlette.requests import Request

from watchword.errors import WatchwordError
from watchword.server.caption_process import Teller
from watchword.server.jobs import Job
from watchword.server.probe_pool import Busy, Lookers
from watchword.server.schemas import Limits
from watchword.server.storage import Shelf
from watchword.server.uploads import Received, TooLarge, receive
from watchword.server.worker import Worker
from watchword.video import shown

PICTURES_KEPT = 256    # in memory: some tens of kilobytes each


class NotAFilm(WatchwordError):  # noqa: N818
    """There is nothing to see in it."""


class Service:
    """One library, one captioner, for all who ask. A library that is in use is told when it is made."""

    def __init__(self, library: Path, model: str | None, limits: Limits) -> None:
        self.limits = limits
        self.shelf = Shelf(library, limits.queue)
        self.teller, self.lookers = Teller(model), Lookers()
        self.worker = Worker(self.shelf, self.teller)
        self.leaving = threading.Event()
        self.picture = lru_cache(PICTURES_KEPT)(self._picture)

    def __enter__(self) -> "Service":
        """The captioner is asked for its name first: one that cannot work is one line, before anything is served."""
        try:
            self.who = self.teller.greet()
        except BaseException:
            self.close()
            raise
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.worker.stop()
        self.lookers.stop()
        self.shelf.jobs.close()

    async def take(self, request: Request, name: str) -> Job:
        """An upload becomes a job: a place in the queue, bytes on disk, and a child has seen that it is a film."""
        with self.shelf.jobs.place():
            length = request.headers.get("content-length")
            async with aclosing(request.stream()) as chunks:
                upload = await receive(
                    chunks, self.shelf.new_file(), self.limits.bytes, int(length) if length else None
                )
            try:
                return await asyncio.to_thread(self._check, upload, name)
            except BaseException:
                upload.path.unlink(missing_ok=True)
                raise

    def _check(self, upload: Received, name: str) -> Job:
        try:
            seen = self.lookers.probe(upload.path)
        except Busy:
            raise
        except WatchwordError as error:
            line = str(error).replace(shown(upload.path), name)
            raise NotAFilm(line if name in line else f"cannot read {name}: {line}") from error
        if seen.seconds > self.limits.seconds:
            longest = f"{self.limits.seconds / 3600:g} hours"
            raise TooLarge(f"{name} is longer than {longest}: this server takes no longer ones (--longest)")
        path = upload.path.rename(upload.path.with_suffix(seen.ending))
        try:
            return self.shelf.jobs.add(name, path.name, upload.identity, seen.seconds)
        except BaseException:
            path.unlink(missing_ok=True)
            raise

    def _picture(self, path: Path, changed: int, seconds: float, size: tuple[int, int]) -> bytes:
        """Kept by the file's time of change too: another film under the same name has other pictures."""
        return self.lookers.picture(path, seconds, *size)

    def remove(self, film: int) -> bool:
        self.picture.cache_clear()
        return self.shelf.remove(film)
