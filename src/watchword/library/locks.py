"""The identity of a video, and a lock while it is captioned: processes that add the same folder share the work."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchword.errors import WatchwordError

try:
    import fcntl
except ImportError:  # Windows: without locks two processes may caption a video twice, which loses nothing
    fcntl = None  # type: ignore[assignment]


def identity_of(video: Path) -> str:
    """The hash of its content: a video that was moved, copied or touched is the same."""
    try:
        if not video.is_file():  # a pipe or a device may never end
            raise WatchwordError(f"cannot read {video}: no such file, or not a file")
        with video.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise WatchwordError(f"cannot read {video}: {error.strerror or error}") from error


@contextmanager
def lock_video(library: Path, identity: str) -> Iterator[bool]:
    """Whether the video is free; it is locked until the context or the process ends.

    The lock is on one byte of a file that stays empty; the identity determines the byte's offset.
    """
    if fcntl is None:
        yield True
        return
    offset = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7])
    path = library.with_name(f"{library.name}-claims")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, offset)
        except (BlockingIOError, PermissionError):
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def journal_of(library: Path, identity: str) -> Path:
    """The journal of a video that is not in the library yet."""
    return library.with_name(f"{library.name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.part")
