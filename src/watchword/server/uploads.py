"""Request bodies to files: counted, hashed, complete or deleted."""

import asyncio
import errno
import hashlib
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote

from watchword.errors import WatchwordError

PIECE = 1 << 20  # bytes of a write
STALL_SECONDS = 60.0  # without data, then the upload is dropped
RESERVE = 256 << 20  # bytes of disk that stay free for the library
LONGEST_NAME = 200  # characters


class TooLarge(WatchwordError):  # noqa: N818
    """More bytes than allowed."""


class DiskFull(WatchwordError):  # noqa: N818
    """No space for the upload."""


class Stalled(WatchwordError):  # noqa: N818
    """The client sends no more data."""


@dataclass(frozen=True)
class Received:
    path: Path
    size: int
    identity: str  # of the content


def clean_name(header: str) -> str:
    """A video's name from a percent-encoded header: one printable line, no folders.

    It may hold <, &, quotes and any letters: it is text, and never part of a path, a header or HTML.
    """
    text = unquote(header, errors="replace")
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
    size, digest, held = 0, hashlib.sha256(), bytearray()
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
