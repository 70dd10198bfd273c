"""Where everything lies: beside the library's file, a folder of ours, under names of ours.

    library.db                       sentences, evidence
    library.db.films/jobs.db         what waits
    library.db.films/incoming/       uploads until they are described: a random name each
    library.db.films/films/          described uploads: the sha256 of their content

No name of a client is ever part of a path. A film that comes twice is kept once. Films that `watchword library add`
found elsewhere are shown from where they lie, and never deleted.
"""

import os
import secrets
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

from watchword.captioning.description import Description
from watchword.errors import WatchwordError
from watchword.library import FilmRow, Library
from watchword.server.jobs import Job, Jobs

# Ending -> what a browser is told. Only what is here is served: a path in a library is not a reason to read any file.
TYPES = {
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm", ".ogv": "video/ogg",
    ".ogg": "video/ogg", ".mkv": "video/x-matroska", ".avi": "video/x-msvideo", ".divx": "video/x-msvideo",
    ".3gp": "video/3gpp", ".ts": "video/mp2t", ".mts": "video/mp2t", ".m2ts": "video/mp2t", ".mpg": "video/mpeg",
    ".mpeg": "video/mpeg", ".vob": "video/mpeg", ".flv": "video/x-flv", ".f4v": "video/mp4", ".wmv": "video/x-ms-wmv",
    ".asf": "video/x-ms-asf", ".gif": "image/gif", ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg",
    ".webp": "image/webp", ".bmp": "image/bmp", ".film": "application/octet-stream",
    ".mxf": "application/octet-stream", ".rm": "application/octet-stream", ".rmvb": "application/octet-stream",
    ".ogm": "application/octet-stream", ".y4m": "application/octet-stream", ".tif": "application/octet-stream",
    ".tiff": "application/octet-stream",
}  # fmt: skip


class Shelf:
    """The library and the folder beside it."""

    def __init__(self, path: Path, places: int) -> None:
        self.library = Library(path)
        self.films = self.library.uploads
        folder = self.films.parent
        self.incoming = folder / "incoming"
        self.lock = threading.RLock()  # held while a film comes to its place or goes; before the jobs' own
        try:
            for made in (folder, self.incoming, self.films):
                made.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise WatchwordError(f"cannot make the folder {folder}: {error.strerror or error}") from error
        self.jobs = Jobs(folder / "jobs.db", places)
        self._sweep()

    def _sweep(self) -> None:
        """Uploads that were broken off, or that nobody knows any more: a server may be killed at any moment."""
        unfinished = self.jobs.unfinished()
        wanted = {self.incoming / job.file for job in unfinished} | {self._place(job) for job in unfinished}
        for path in (*self.incoming.iterdir(), *self.films.iterdir()):
            if path not in wanted and not self._is_known(path):
                path.unlink(missing_ok=True)

    def _is_known(self, path: Path) -> bool:
        """To the library: its film may have been removed from it, or added again from elsewhere."""
        film = self.library.find(f"sha256:{path.stem}")
        row = self.library.film(film) if film is not None else None
        return row is not None and row.source == path

    # --- uploads ---------------------------------------------------------------------------------------------------

    def new_file(self) -> Path:
        """A name that nobody has, for an upload; the file is not made."""
        return self.incoming / secrets.token_hex(16)

    def upload_of(self, job: Job) -> Path | None:
        """The film that a job is about: where it came in, or in its place if we were killed a moment too late."""
        for path in (self.incoming / job.file, self._place(job)):
            if path.is_file():
                return path
        return None

    def drop(self, job: Job) -> None:
        """Of a job that failed or was cancelled nothing stays."""
        (self.incoming / job.file).unlink(missing_ok=True)

    def keep(self, job: Job, description: Description, evidence: dict[str, Any] | None) -> bool:
        """A described film comes to its place; False where nobody wants it any more."""
        with self.lock:
            found = self.jobs.find(job.id)
            if found is None or found.state != "working":
                return False
            place = self._place(job)
            if (self.incoming / job.file).exists():
                os.replace(self.incoming / job.file, place)
            film = self.library.add(
                description, name=job.name, identity=job.identity, source=place, evidence=evidence, added=job.added
            )
            return self.jobs.finish(job, film, description.sentence)

    def _place(self, job: Job) -> Path:
        return self.films / f"{job.identity.removeprefix('sha256:')}{Path(job.file).suffix}"

    # --- films -----------------------------------------------------------------------------------------------------

    def description(self, row: FilmRow) -> Description:
        """Under its name: where it lies is nobody's business."""
        return replace(self.library.description(row.id), film=Path(row.name))

    def film_file(self, row: FilmRow) -> Path | None:
        """The film itself, if it is still there."""
        path = row.source
        return path if path is not None and path.suffix.lower() in TYPES and path.is_file() else None

    def remove(self, film: int) -> bool:
        """The file first: killed in between, we leave a film to delete again, not a file that nobody knows."""
        with self.lock:
            row = self.library.film(film)
            if row is None:
                return False
            if row.source is not None and row.source.parent == self.films:
                row.source.unlink(missing_ok=True)
            self.library.remove(film)
            self.jobs.forget(film)
            return True
