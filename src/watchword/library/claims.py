"""Who a film is, and who is busy with it: two processes that add the same folder share the work."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchword.errors import WatchwordError

try:
    import fcntl
except ImportError:  # Windows: without claims two processes may do the same film twice, which loses nothing
    fcntl = None  # type: ignore[assignment]


def identity_of(film: Path) -> str:
    """Its content: a film that was moved, copied or touched is the same film."""
    try:
        if not film.is_file():  # a pipe or a device may never end
            raise WatchwordError(f"cannot read {film}: no such file, or not a file")
        with film.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise WatchwordError(f"cannot read {film}: {error.strerror or error}") from error


@contextmanager
def claim(library: Path, identity: str) -> Iterator[bool]:
    """Whether the film is ours to work on. A claim ends with the process that made it, however that ends.

    It is a lock on one byte of a file that is always empty; the byte's place is drawn from the identity.
    """
    if fcntl is None:
        yield True
        return
    place = int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7])
    path = library.with_name(f"{library.name}-claims")
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except (BlockingIOError, PermissionError):
            yield False
        else:
            yield True
    finally:
        os.close(handle)


def part_of(library: Path, identity: str) -> Path:
    """Where it is noted how far a film is while it is not in the library."""
    return library.with_name(f"{library.name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.part")
