"""The file of a library: SQLite, opened, made, and kept whole by two processes at once.

Every call has a connection of its own, which costs 0.4 ms: threads, forks and other processes never share one, and
nothing stays open when somebody deletes the file. Readers do not wait for a writer (write-ahead log), writers wait for
each other. What SQLite has to complain about becomes one line for a person.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from watchword.errors import WatchwordError

BUSY_SECONDS = 20.0            # to wait for another writer: one film's sentences take milliseconds
APPLICATION = 0x57574C42       # "WWLB": how a library is told from other files of SQLite
VERSION = 1

# A shot's `content` is what describing.writers writes of it; `sentence` is its best one, for searching. Sentences are
# indexed twice: by stems ("runs" finds "running"), and as they are spelled, because stems do not begin with "runni".
# No triggers: a file from a stranger is opened with an untrusted schema, where older SQLite forbids FTS5 to triggers.
SCHEMA = """
CREATE TABLE films (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given again: a link to a removed film finds nothing
    identity TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    film BLOB NOT NULL,                    -- the description's path: bytes, a file name need not be text
    source BLOB, source_size INTEGER, source_time INTEGER,
    seconds REAL NOT NULL,
    sentence TEXT NOT NULL,
    confidence REAL NOT NULL,
    captioner TEXT NOT NULL,
    warnings TEXT NOT NULL,                -- JSON
    added REAL NOT NULL
);
CREATE INDEX films_by_source ON films (source);
CREATE INDEX films_by_time ON films (added, id);
CREATE TABLE evidence (
    film INTEGER PRIMARY KEY REFERENCES films ON DELETE CASCADE,
    content BLOB NOT NULL                  -- JSON, zlib
);
CREATE TABLE shots (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    film INTEGER NOT NULL REFERENCES films ON DELETE CASCADE,
    start REAL NOT NULL,
    "end" REAL NOT NULL,
    sentence TEXT NOT NULL,
    confidence REAL NOT NULL,
    content TEXT NOT NULL                  -- JSON
);
CREATE INDEX shots_by_film ON shots (film, start);
CREATE TABLE vectors (
    shot INTEGER PRIMARY KEY REFERENCES shots ON DELETE CASCADE,
    encoder TEXT NOT NULL,
    vector BLOB NOT NULL                   -- float16
);
CREATE VIRTUAL TABLE stems USING fts5 (
    sentence, content = 'shots', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE spellings USING fts5 (
    sentence, content = 'shots', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', detail = 'none'
);
CREATE VIRTUAL TABLE words USING fts5vocab (spellings, row);
"""


class LibraryFile:
    """One file of SQLite that is known to be a library."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.mode = "rwc"
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WatchwordError(f"cannot make the folder {self.path.parent}: {error.strerror or error}") from error
        if self.path.exists() and not self.path.is_file():
            raise WatchwordError(f"{self.path} is not a file: name the library's file, say {self.path / 'library.db'}")
        try:
            self._prepare()
        except sqlite3.OperationalError as error:
            if _code(error) not in {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY} or not self.path.exists():
                raise _told(error, self.path) from error
            self.mode = "ro&immutable=1"  # on a disk that nobody can write on, a library can still be read
            with self.reading() as connection:
                self._is_made(connection)
        except sqlite3.Error as error:
            raise _told(error, self.path) from error
        else:
            self.mode = "rw"  # a file that is deleted while we use it is missed, not silently begun again

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One view of the library: what is written meanwhile is seen by the next."""
        with self._transaction("BEGIN") as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """All of it or nothing, also when the process is killed in between."""
        if "immutable" in self.mode:
            raise WatchwordError(f"cannot write {self.path}: it is read-only")
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    def tidy(self) -> None:
        """Takes what was removed out of the file: indexes keep removed words, the log removed pages, for a while."""
        with self.writing() as connection:
            connection.execute("INSERT INTO stems (stems) VALUES ('optimize')")
            connection.execute("INSERT INTO spellings (spellings) VALUES ('optimize')")
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise _told(error, self.path) from error
        finally:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            connection = self._connect()
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise _told(error, self.path) from error
        finally:
            if connection is not None:
                connection.close()  # what was not committed is rolled back

    def _connect(self) -> sqlite3.Connection:
        address = f"{self.path.as_uri()}?mode={self.mode}"
        connection = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from a stranger
        connection.execute("PRAGMA secure_delete = ON")    # what is removed is overwritten
        return connection

    def _prepare(self) -> None:
        connection = self._connect()
        try:
            if self._is_made(connection):
                return
            _write_ahead(connection)
            connection.execute("BEGIN IMMEDIATE")
            if not self._is_made(connection):  # by another process, while we waited
                for statement in _statements(SCHEMA):
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _is_made(self, connection: sqlite3.Connection) -> bool:
        """False for a file that is still empty; somebody else's file is an error."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == APPLICATION:
            if version > VERSION:
                raise WatchwordError(f"{self.path} was made by a newer watchword (library {version}): update watchword")
            return True
        if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise WatchwordError(f"{self.path} is a database of another program: name another file")
        return False


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switching to the log needs the file alone, and SQLite does not wait for that by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")  # where a disk has no shared memory: it stays as it was
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _statements(script: str) -> Iterator[str]:
    """`executescript` would commit what was begun."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extension


def _told(error: sqlite3.Error, path: Path) -> WatchwordError:
    """What a person can do about it."""
    lines = {
        sqlite3.SQLITE_FULL: f"the disk is full: {path} is as it was before; make room and go on",
        sqlite3.SQLITE_IOERR: f"the disk failed ({error}): {path} is as it was before; is the disk full, or gone?",
        sqlite3.SQLITE_READONLY: f"cannot write {path}: it is read-only",
        sqlite3.SQLITE_CANTOPEN: f"cannot open {path}: it is missing, or you may not read or write it and its folder",
        sqlite3.SQLITE_PERM: f"cannot open {path}: you may not",
        sqlite3.SQLITE_NOTADB: f"{path} is not a library: name another file",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged ({error}): move it away and add the films again",
        sqlite3.SQLITE_BUSY: f"another process has kept {path} busy for {BUSY_SECONDS:.0f} s: try again",
    }
    return WatchwordError(lines.get(_code(error), f"cannot use {path}: {error}"))
