"""The files of the server, in a folder beside the library's file.

    library.db                       descriptions and explanations
    library.db.uploads/jobs.db       the queue
    library.db.uploads/incoming/     uploads until they are captioned, each with a random name
    library.db.uploads/videos/       captioned uploads, named by the sha256 of their content

No name from a client is ever part of a path. A video that is uploaded twice is stored once. Videos of
`watchword library add` are served from where they are, and never deleted.
"""

import os
import secrets
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

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
        """The file of a job: incoming, or moved already if the server was killed just then."""
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
            path = self._path_of(job)
            if (self.incoming / job.file).exists():
                os.replace(self.incoming / job.file, path)
            video = self.library.add(
                description, name=job.name, identity=job.identity, source=path, explanation=explanation, added=job.added
            )
            return self.jobs.finish(job, video, description.caption)

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
