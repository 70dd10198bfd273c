"""The queue of uploads, in a file: a killed server continues when it is started again.

One server holds the file by SQLite's exclusive lock, so two servers never caption the same upload. Every change is on
disk before it is reported.
"""

import secrets
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from watchword.atomic_io import DiskFull
from watchword.errors import WatchwordError

State = Literal["waiting", "working", "done", "failed", "cancelled"]
FINAL: tuple[State, ...] = ("done", "failed", "cancelled")
TRIES = 3  # attempts, if a video ends its process or the server
KEPT = 200  # finished jobs that are kept

VERSION = 4

SCHEMA = """
CREATE TABLE IF NOT EXISTS jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,   -- the order of uploads
    id TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,                         -- any text; never part of a path
    file TEXT NOT NULL,                         -- its name in the folder of uploads
    identity TEXT NOT NULL,
    seconds REAL NOT NULL,
    added REAL NOT NULL,
    state TEXT NOT NULL DEFAULT 'waiting',
    tries INTEGER NOT NULL DEFAULT 0,
    done_seconds REAL NOT NULL DEFAULT 0,
    caption TEXT NOT NULL DEFAULT '',
    video INTEGER,                              -- when it is done; before that, of a video that is described again
    error TEXT,
    captioner TEXT NOT NULL DEFAULT '',         -- empty: the server's
    confidence REAL NOT NULL DEFAULT 1          -- of the caption
)
"""


RENAMED = {"sentence": "caption", "film": "video", "problem": "error"}  # columns of version 1
ADDED = {3: "captioner TEXT NOT NULL DEFAULT ''", 4: "confidence REAL NOT NULL DEFAULT 1"}  # by version


class QueueFull(WatchwordError):  # noqa: N818
    """The queue is full."""


@dataclass(frozen=True)
class Job:
    """An upload and its state."""

    number: int
    id: str
    name: str
    file: str
    identity: str
    seconds: float
    added: float
    state: State
    tries: int
    done_seconds: float
    caption: str
    video: int | None
    error: str | None
    captioner: str
    confidence: float

    @property
    def is_final(self) -> bool:
        return self.state in FINAL

    @property
    def is_again(self) -> bool:
        """Of an unfinished job: whether its video is in the library already."""
        return self.video is not None


class Jobs:
    """The table. Any thread may use it."""

    def __init__(self, path: Path, places: int) -> None:
        self.path, self.places = path, places
        self.coming = 0  # complete uploads that are checked and are not jobs yet
        self.running: set[str] = set()  # jobs that a worker has
        self.changed = threading.Condition(threading.RLock())
        try:
            self.connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False)
            self.connection.row_factory = sqlite3.Row
            self.connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = FULL")
            self.connection.execute("PRAGMA secure_delete = ON")
            self.connection.execute("BEGIN EXCLUSIVE")  # from here on no other process can open it
            (version,) = self.connection.execute("PRAGMA user_version").fetchone()
            if version > VERSION:
                raise WatchwordError(f"{path} was made by a newer watchword: update watchword")
            if version == 1:
                for old, new in RENAMED.items():
                    self.connection.execute(f"ALTER TABLE jobs RENAME COLUMN {old} TO {new}")
            self.connection.execute(SCHEMA)
            for since, column in ADDED.items():
                if 0 < version < since:
                    self.connection.execute(f"ALTER TABLE jobs ADD COLUMN {column}")
            self.connection.execute(f"PRAGMA user_version = {VERSION}")
            self.connection.execute("COMMIT")
        except sqlite3.Error as error:
            if "locked" in str(error):
                raise WatchwordError(
                    f"another watchword serve has this library open ({path.parent}): use its page, or --library FILE"
                ) from error
            raise WatchwordError(f"{path} is damaged ({error}): delete it; finished videos are kept") from error
        self.recover()

    def close(self) -> None:
        with self.changed:
            self.connection.close()

    # --- uploads --------------------------------------------------------------------------------------------------

    def check_place(self) -> None:
        """QueueFull if no place is free. To be called before an upload's first byte, which reserves nothing."""
        with self.changed:
            if self.coming + len(self._rows("state = 'waiting'")) >= self.places:
                raise QueueFull(f"{self.places} videos are waiting already: try again later")

    @contextmanager
    def place(self) -> Iterator[None]:
        """A place in the queue for a complete upload; QueueFull if there is none."""
        with self.changed:
            self.check_place()
            self.coming += 1
        try:
            yield
        finally:
            with self.changed:
                self.coming -= 1

    def add(
        self, name: str, file: str, identity: str, seconds: float, captioner: str = "", video: int | None = None
    ) -> Job:
        """To be called while a place is held. `video`: one of the library that is described again."""
        with self.changed:
            job = secrets.token_hex(16)
            self._execute(
                "INSERT INTO jobs (id, name, file, identity, seconds, added, captioner, video) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (job, name, file, identity, seconds, time.time(), captioner, video),
            )
            self.changed.notify_all()
            found = self.find(job)
            assert found is not None
            return found

    # --- the worker ------------------------------------------------------------------------------------------------

    def recover(self) -> None:
        """Jobs that were interrupted wait again; a video that ended the server every time has failed."""
        for job in self._rows("state = 'working'"):
            if job.id in self.running:
                continue
            if job.tries < TRIES:
                self.requeue(job, job.tries)
            else:
                self.fail(job, f"cannot describe {job.name}: the server ended while it did, {TRIES} times")

    def begin(self) -> Job | None:
        """Takes the oldest waiting job."""
        with self.changed:
            waiting = self._rows("state = 'waiting' ORDER BY number LIMIT 1")
            if not waiting:
                return None
            self._change(waiting[0], state="working", tries=waiting[0].tries + 1)
            self.running.add(waiting[0].id)
            return self.find(waiting[0].id)

    def wait(self, seconds: float) -> None:
        """Until a job waits, or so long."""
        with self.changed:
            if not self._rows("state = 'waiting'"):
                self.changed.wait(seconds)

    def reach(self, job: Job, done_seconds: float, caption: str, confidence: float) -> bool:
        """False if the job was cancelled."""
        return self._change(job, "working", done_seconds=done_seconds, caption=caption, confidence=confidence)

    def finish(self, job: Job, video: int, caption: str, confidence: float) -> bool:
        end: dict[str, Any] = {"state": "done", "done_seconds": job.seconds}
        return self._change(job, "working", video=video, caption=caption, confidence=confidence, **end)

    def fail(self, job: Job, error: str) -> bool:
        return self._change(job, "working", state="failed", error=error)

    def requeue(self, job: Job, tries: int) -> bool:
        """Interrupted: it waits again."""
        return self._change(job, "working", state="waiting", tries=tries, done_seconds=0.0, caption="")

    def cancel(self, job: Job) -> bool:
        return self._change(job, "waiting", "working", state="cancelled")

    # --- queries ---------------------------------------------------------------------------------------------------

    def find(self, job: str) -> Job | None:
        found = self._rows("id = ?", job)
        return found[0] if found else None

    def all(self) -> list[Job]:
        """The newest first."""
        return self._rows("1 ORDER BY number DESC")

    def unfinished(self) -> list[Job]:
        return self._rows("state IN ('waiting', 'working')")

    def delete(self, video: int) -> None:
        """Deletes the jobs of a video."""
        with self.changed:
            self._execute("DELETE FROM jobs WHERE video = ?", (video,))
            self._execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def _execute(self, statement: str, values: Sequence[Any] = ()) -> sqlite3.Cursor:
        try:
            return self.connection.execute(statement, values)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
                raise DiskFull("the server's disk is full: delete videos, or free some space") from error
            raise WatchwordError(f"cannot use {self.path}: {error}") from error

    def _rows(self, where: str, *values: Any) -> list[Job]:
        with self.changed:
            return [Job(**row) for row in self._execute(f"SELECT * FROM jobs WHERE {where}", values)]

    def _change(self, job: Job, *states: State, **values: Any) -> bool:
        """If the job is in one of these states; says whether it was."""
        columns, among = ", ".join(f"{name} = ?" for name in values), ", ".join("?" * len(states)) or "state"
        with self.changed:
            done = self._execute(
                f"UPDATE jobs SET {columns} WHERE id = ? AND state IN ({among})", (*values.values(), job.id, *states)
            )
            self.changed.notify_all()
            if values.get("state") in FINAL:
                self._forget_old()
            return done.rowcount > 0

    def _forget_old(self) -> None:
        final = ", ".join(f"'{state}'" for state in FINAL)
        self._execute(
            f"DELETE FROM jobs WHERE state IN ({final}) AND number NOT IN "
            f"(SELECT number FROM jobs WHERE state IN ({final}) ORDER BY number DESC LIMIT {KEPT})"
        )
