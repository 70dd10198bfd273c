"""Bytes to disk, whole or not at all."""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from watchword.errors import DiskFull as DiskFull
from watchword.errors import WatchwordError


def check_outputs(outputs: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Refuses an output that is one of the inputs, under whatever name: no command writes over what it reads."""
    known = {identity for path in inputs if (identity := _identity(path))}
    for path in outputs:
        if _identity(path) in known:
            raise WatchwordError(f"the output {path} is an input of this command: name another file")


def _identity(path: Path) -> tuple[int, int] | None:
    """Of a file; None if there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


def _unnamed(folder: Path) -> BinaryIO | None:
    """A file without a name, of which nothing stays when the process is killed; None where the system has none."""
    if not hasattr(os, "O_TMPFILE") or not os.path.isdir("/proc/self/fd"):
        return None
    try:
        return os.fdopen(os.open(folder, os.O_TMPFILE | os.O_WRONLY, 0o666), "wb")
    except OSError:
        return None


@contextlib.contextmanager
def whole_file(path: Path, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write: complete under the name when the block ends, or the name as it was, also when the process is
    killed or the disk fills up in between.

    `durable`: also when the power fails. That costs 5 to 10 ms a file, so what can be made again goes without it.
    """
    temporary = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        with _unnamed(path.parent) or temporary.open("xb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            if not temporary.exists():
                # with a folder, though the name is absolute, Python asks the system to follow the link in /proc
                os.link(f"/proc/self/fd/{file.fileno()}", temporary, src_dir_fd=file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise DiskFull(
                f"the disk is full: {path} was not written, what was there before is untouched; make room and go on"
            ) from error
        raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):  # gone after a rename
            temporary.unlink()


def path_of(file: BinaryIO) -> Path:
    """For what writes by path alone: a file of `whole_file` may have no name yet."""
    return Path(file.name if isinstance(file.name, str) else f"/proc/self/fd/{file.fileno()}")


def write_whole(path: Path, content: bytes | str, durable: bool = True) -> None:
    """All of it, as `whole_file` writes."""
    with whole_file(path, durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)
