"""The files of the server, in a folder beside the library's file.

    library.db                       descriptions and explanations
    library.db.uploads/jobs.db       the queue
    library.db.uploads/incoming/     uploads until they are captioned, each with a random name
    library.db.uploads/videos/       captioned uploads, named by the sha256 of their content

No name from a client is ever part of a path. A video that is uploaded twice is stored once. Videos of
`watchword library add` are served from where they are, and never deleted. An upload is on disk whole, or not at all.
"""

import asyncio
import errno
import hashlib
import os
import re
import secrets
import shutil
import threading
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote

from watchword.atomic_io import DiskFull
from watchword.captioning.description import Description
from watchword.errors import WatchwordError
from watchword.library import Library, VideoRow
from watchword.server.jobs import Job, Jobs
from watchword.server.probe_pool import OTHER
from watchword.video.formats import IMAGE_TYPES, VIDEO_TYPES

# Only files with these suffixes are served. `.film` is what version 0.1 called `.video`.
TYPES = VIDEO_TYPES | IMAGE_TYPES | dict.fromkeys((OTHER, ".film"), "application/octet-stream")


class Storage:
    """The library and the folder beside it."""

    def __init__(self, path: Path, places: int) -> None:
        self.library = Library(path)
        self.videos = self.library.uploads
        folder = self.videos.parent
        self.incoming = folder / "incoming"
        self.lock = threading.RLock()  # held while a file is moved or deleted; taken before the jobs' lock
        try:
            for made in (folder, self.incoming, self.videos):
                made.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WatchwordError(f"cannot make the folder {folder}: {error.strerror or error}") from error
        self.jobs = Jobs(folder / "jobs.db", places)
        self._sweep()

    def _sweep(self) -> None:
        """Deletes uploads that are incomplete or unknown: a server may be killed at any time."""
        unfinished = self.jobs.unfinished()
        wanted = {self.incoming / job.file for job in unfinished} | {self._path_of(job) for job in unfinished}
        for path in (*self.incoming.iterdir(), *self.videos.iterdir()):
            if path not in wanted and not self._is_known(path):
                path.unlink(missing_ok=True)

    def _is_known(self, path: Path) -> bool:
        """Whether the library has a video of this file."""
        video = self.library.find(f"sha256:{path.stem}")
        row = self.library.video(video) if video is not None else None
        return row is not None and row.source == path

    # --- uploads ---------------------------------------------------------------------------------------------------

    def new_file(self) -> Path:
        """A new name for an upload; the file is not created."""
        return self.incoming / secrets.token_hex(16)

    def upload_of(self, job: Job) -> Path | None:
        """The file of a job: incoming, or moved already if the server was killed just then; or that of its video."""
        if job.is_again:
            row = self.library.video(job.video or 0)
            return self.video_file(row) if row else None
        for path in (self.incoming / job.file, self._path_of(job)):
            if path.is_file():
                return path
        return None

    def drop(self, job: Job) -> None:
        """Deletes the upload of a job that failed or was cancelled."""
        (self.incoming / job.file).unlink(missing_ok=True)

    def keep(self, job: Job, description: Description, explanation: dict[str, Any] | None) -> bool:
        """Stores a captioned video; False if the job was cancelled."""
        with self.lock:
            found = self.jobs.find(job.id)
            if found is None or found.state != "working":
                return False
            source: Path | None = self._path_of(job)
            added = job.added
            if job.is_again:
                row = self.library.video(job.video or 0)
                if row is None:
                    return False
                source, added = row.source, row.added
            elif (self.incoming / job.file).exists():
                os.replace(self.incoming / job.file, self._path_of(job))
            video = self.library.add(
                description, name=job.name, identity=job.identity, source=source, explanation=explanation, added=added
            )
            return self.jobs.finish(job, video, description.caption, description.confidence)

    def _path_of(self, job: Job) -> Path:
        return self.videos / f"{job.identity.removeprefix('sha256:')}{Path(job.file).suffix}"

    # --- videos -----------------------------------------------------------------------------------------------------

    def description(self, row: VideoRow) -> Description:
        """With the video's name in place of its path."""
        return replace(self.library.description(row.id), video=Path(row.name))

    def video_file(self, row: VideoRow) -> Path | None:
        """The file, if it still exists."""
        path = row.source
        return path if path is not None and path.suffix.lower() in TYPES and path.is_file() else None

    def remove(self, video: int) -> bool:
        """The file first: if the server is killed in between, the entry can be deleted again."""
        with self.lock:
            row = self.library.video(video)
            if row is None:
                return False
            if row.source is not None and row.source.parent == self.videos:
                row.source.unlink(missing_ok=True)
            self.library.remove(video)
            self.jobs.delete(video)
            return True


# --- request bodies to files: counted, hashed, complete or deleted ---------------------------------------------------


PIECE = 1 << 20  # bytes of a write
STALL_SECONDS = 60.0  # without data, then the upload is dropped
SLOW_SECONDS = 30.0  # after which an upload must have come at ...
MIN_RATE = 1000.0  # ... bytes a second, on average
RESERVE = 256 << 20  # bytes of disk that stay free for the library
LONGEST_NAME = 200  # characters


class TooLarge(WatchwordError):  # noqa: N818
    """More bytes than allowed."""


class Stalled(WatchwordError):  # noqa: N818
    """The client sends no more data."""


@dataclass(frozen=True)
class Received:
    path: Path
    size: int
    identity: str  # of the content


def clean_name(header: str) -> str:
    """A video's name from a percent-encoded header."""
    return plain_name(unquote(header, errors="replace"))


def plain_name(text: str) -> str:
    """One printable line, no folders.

    It may hold <, &, quotes and any letters: it is text, and never part of a path, a header or HTML.
    """
    last = re.split(r"[/\\]", text)[-1]
    name = " ".join("".join(char if char.isprintable() else " " for char in last).split())
    if len(name) > LONGEST_NAME:
        stem, dot, ending = name.rpartition(".")
        ending = dot + ending if stem and len(ending) <= 8 else ""
        name = name[: LONGEST_NAME - len(ending)] + ending
    return name if name.strip(".") else "video"


async def receive(chunks: AsyncIterator[bytes], path: Path, most: int, expected: int | None) -> Received:
    """An upload on disk, or no file; `expected` bytes if the client said how many."""
    _check_size(expected or 0, most)
    try:
        if (expected or 0) + RESERVE > shutil.disk_usage(path.parent).free:
            raise DiskFull("the server's disk is full: free some space and upload it again")
        return await _write(chunks, path, most)
    except BaseException as error:
        with suppress(OSError):
            path.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise DiskFull("the server's disk is full: free some space and upload it again") from error
        raise


async def _write(chunks: AsyncIterator[bytes], path: Path, most: int) -> Received:
    size, digest, held, began = 0, hashlib.sha256(), bytearray(), time.monotonic()
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as file:

        def put(piece: bytes, is_last: bool = False) -> None:
            digest.update(piece)
            _write_all(file, piece)
            if is_last:
                os.fsync(file.fileno())

        while True:
            try:
                async with asyncio.timeout(STALL_SECONDS):
                    chunk = await anext(chunks, None)
            except TimeoutError:
                raise Stalled(f"no data for {STALL_SECONDS:g} s: upload it again") from None
            size += len(chunk or b"")
            _check_size(size, most)
            if chunk is not None and size < MIN_RATE * (time.monotonic() - began - SLOW_SECONDS):
                raise Stalled(f"less than {MIN_RATE:g} bytes a second: upload it again over a faster connection")
            held += chunk or b""
            if chunk is None or len(held) >= PIECE:
                await asyncio.to_thread(put, bytes(held), chunk is None)
                held.clear()
            if chunk is None:
                return Received(path, size, f"sha256:{digest.hexdigest()}")


def _write_all(file: BinaryIO, piece: bytes) -> None:
    """A write may be partial on a nearly full disk."""
    view = memoryview(piece)
    while view:
        view = view[file.write(view) :]


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise TooLarge(f"the video has more than {most / 1e6:g} MB, the limit of this server (--max-megabytes)")
