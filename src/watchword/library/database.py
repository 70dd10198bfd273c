"""The file of a library: SQLite, for any number of threads and processes.

Every call has a connection of its own, which costs 0.4 ms: threads, forks and other processes never share one, and
nothing stays open when the file is deleted. Readers do not wait for a writer (write-ahead log), writers wait for
each other. SQLite's errors become one line for a person. Files of older versions are upgraded when they are opened.

Beside the file lie locks and journals of videos that are being captioned: processes that add the same folder share the
work.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from watchword.atomic_io import write_whole
from watchword.errors import DiskFull, WatchwordError
from watchword.explain.attention import upgraded
from watchword.library import signatures
from watchword.library.query import read_vectors
from watchword.types import Lane

try:
    import fcntl
except ImportError:  # Windows: without locks two processes may caption a video twice, which loses nothing
    fcntl = None  # type: ignore[assignment]

BUSY_SECONDS = 20.0  # to wait for another writer: adding a video takes milliseconds
APPLICATION = 0x57574C42  # "WWLB": marks the file as a library
VERSION = 4
RESERVE = 4 << 20  # bytes beside the file that deleting may use when the disk is full

# A segment's `content` is JSON of captioning.description; `caption` is its best caption. Cues of the other lanes are
# rows of the same table, so that one search covers all: their `caption` is their text. Captions are indexed twice:
# by stems ("runs" finds "running"), and as they are spelled, because stems do not begin with "runni".
# No triggers: the schema of the file is not trusted, and older SQLite then forbids FTS5 in triggers.
TEXT_INDEXES = """
CREATE VIRTUAL TABLE stems USING fts5 (
    caption, content = 'segments', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE spellings USING fts5 (
    caption, content = 'segments', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2', detail = 'none'
);
CREATE VIRTUAL TABLE words USING fts5vocab (spellings, row);
"""
INDEXES = """
CREATE INDEX videos_by_source ON videos (source);
CREATE INDEX videos_by_time ON videos (added, id);
CREATE INDEX segments_by_video ON segments (video, start);
"""
VECTOR_TABLES = f"""
{signatures.TABLE}
CREATE TABLE pending (
    segment INTEGER PRIMARY KEY REFERENCES segments ON DELETE CASCADE  -- without a vector of its caption
);
"""
SCHEMA = f"""
CREATE TABLE videos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: a link to a removed video finds nothing
    identity TEXT NOT NULL UNIQUE,
    name TEXT NOT NULL,
    path BLOB NOT NULL,                    -- bytes: a file name need not be text
    source BLOB, source_size INTEGER, source_time INTEGER,
    seconds REAL NOT NULL,
    caption TEXT NOT NULL,
    confidence REAL NOT NULL,
    captioner TEXT NOT NULL,
    warnings TEXT NOT NULL,                -- JSON
    added REAL NOT NULL,
    lanes TEXT NOT NULL DEFAULT '{{}}'       -- JSON: lane -> what is known of it as a whole
);
CREATE TABLE explanations (
    video INTEGER PRIMARY KEY REFERENCES videos ON DELETE CASCADE,
    content BLOB NOT NULL                  -- JSON, zlib
);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    video INTEGER NOT NULL REFERENCES videos ON DELETE CASCADE,
    start REAL NOT NULL,
    "end" REAL NOT NULL,
    caption TEXT NOT NULL,
    confidence REAL NOT NULL,
    content TEXT NOT NULL,                 -- JSON
    lane TEXT NOT NULL DEFAULT 'captions'
);
CREATE TABLE vectors (
    segment INTEGER PRIMARY KEY REFERENCES segments ON DELETE CASCADE,
    encoder TEXT NOT NULL,
    vector BLOB NOT NULL                   -- float16
);
{VECTOR_TABLES}
{INDEXES}
{TEXT_INDEXES}
"""
# Version 1 had other names for the same columns.
FROM_1 = f"""
DROP TABLE words;
DROP TABLE stems;
DROP TABLE spellings;
DROP INDEX films_by_source;
DROP INDEX films_by_time;
DROP INDEX shots_by_film;
ALTER TABLE films RENAME TO videos;
ALTER TABLE videos RENAME COLUMN film TO path;
ALTER TABLE videos RENAME COLUMN sentence TO caption;
ALTER TABLE shots RENAME TO segments;
ALTER TABLE segments RENAME COLUMN film TO video;
ALTER TABLE segments RENAME COLUMN sentence TO caption;
ALTER TABLE evidence RENAME TO explanations;
ALTER TABLE explanations RENAME COLUMN film TO video;
ALTER TABLE vectors RENAME COLUMN shot TO segment;
{INDEXES}
{TEXT_INDEXES}
INSERT INTO stems (stems) VALUES ('rebuild');
INSERT INTO spellings (spellings) VALUES ('rebuild');
"""
# Version 2 had captions alone.
FROM_2 = """
ALTER TABLE videos ADD COLUMN lanes TEXT NOT NULL DEFAULT '{}';
ALTER TABLE segments ADD COLUMN lane TEXT NOT NULL DEFAULT 'captions';
"""
# Version 3 compared every vector with the query.
FROM_3 = f"""
{VECTOR_TABLES}
INSERT INTO pending SELECT id FROM segments WHERE id NOT IN (SELECT segment FROM vectors);
"""
SCRIPTS = {0: SCHEMA, 1: FROM_1 + FROM_2 + FROM_3, 2: FROM_2 + FROM_3, 3: FROM_3}  # by the version of the file


class Database:
    """An SQLite file that is a library."""

    def __init__(self, path: Path) -> None:
        self.path = self.opened = path.absolute()
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
                raise _explained(error, self.path) from error
            self._open_read_only()
        except BROKEN as error:
            raise _explained(error, self.path) from error
        else:
            self.mode = "rw"  # a file that is deleted in between is an error, not silently created again

    def _open_read_only(self) -> None:
        """A library on a read-only disk can still be read; one of an older version from an upgraded copy."""
        self.mode = "ro&immutable=1"
        with self.reading() as connection:
            version = self._version(connection)
        if version != VERSION:
            self._copy = tempfile.TemporaryDirectory(prefix="watchword-")
            self.opened = Path(shutil.copyfile(self.path, Path(self._copy.name) / self.path.name))
            self.mode = "rw"
            self._prepare()
            self.mode = "ro&immutable=1"

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """One consistent view of the library, on a full disk too."""
        with self._transaction("BEGIN", self._connect_to_read) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: all of it is written or nothing."""
        if "immutable" in self.mode:
            raise WatchwordError(f"cannot write {self.path}: it is read-only")
        with self._transaction("BEGIN IMMEDIATE", self._connect) as connection:
            yield connection

    @contextmanager
    def deleting(self) -> Iterator[sqlite3.Connection]:
        """As `writing`. On a full disk it takes the reserve: SQLite needs space even to delete."""
        if self.is_disk_full:
            self._reserve.unlink(missing_ok=True)
        with self.writing() as connection:
            yield connection

    @property
    def is_disk_full(self) -> bool:
        return shutil.disk_usage(self.path.parent).free < RESERVE

    @property
    def _reserve(self) -> Path:
        return self.path.with_name(f"{self.path.name}-reserve")

    def keep_reserve(self) -> None:
        """Takes the reserve again where there is space."""
        if not self._reserve.exists() and shutil.disk_usage(self.path.parent).free > 10 * RESERVE:
            with suppress(WatchwordError):
                write_whole(self._reserve, bytes(RESERVE), durable=False)

    def tidy(self) -> None:
        """Removes deleted text from the file: indexes keep deleted words and the log deleted pages for a while."""
        with self.writing() as connection:
            connection.execute("INSERT INTO stems (stems) VALUES ('optimize')")
            connection.execute("INSERT INTO spellings (spellings) VALUES ('optimize')")
        connection = self._connect()
        try:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error
        finally:
            connection.close()

    @contextmanager
    def _transaction(self, begin: str, connect: Callable[[], sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        connection: sqlite3.Connection | None = None
        try:
            connection = connect()
            connection.execute(begin)
            yield connection
            connection.execute("COMMIT")
        except BROKEN as error:
            raise _explained(error, self.path) from error
        finally:
            if connection is not None:
                connection.close()  # what was not committed is rolled back

    def _connect(self) -> sqlite3.Connection:
        address = f"{self.opened.as_uri()}?mode={self.mode}"
        connection = sqlite3.connect(address, timeout=BUSY_SECONDS, isolation_level=None, uri=True)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA trusted_schema = OFF")  # the file may come from elsewhere
        connection.execute("PRAGMA secure_delete = ON")  # deleted rows are overwritten
        return connection

    def _connect_to_read(self) -> sqlite3.Connection:
        """On a full disk SQLite cannot make the file that readers share: a reader who is alone does without it."""
        connection = self._connect()
        try:
            connection.execute("PRAGMA user_version").fetchone()
            return connection
        except sqlite3.OperationalError as error:
            connection.close()
            if _code(error) not in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
                raise
        connection = self._connect()
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        return connection

    def _prepare(self) -> None:
        connection = self._connect_to_read()
        try:
            if self._version(connection) == VERSION:
                return
        finally:
            connection.close()
        connection = self._connect()
        try:
            _write_ahead(connection)
            connection.execute("BEGIN IMMEDIATE")
            version = self._version(connection)  # another process may have been here while this one waited
            if version != VERSION:
                for statement in _statements(SCRIPTS[version]):
                    connection.execute(statement)
                if version == 1:
                    _upgrade_explanations(connection)
                if version:
                    _upgrade_vectors(connection)
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(f"PRAGMA user_version = {VERSION}")
            connection.execute("COMMIT")
        finally:
            connection.close()

    def _version(self, connection: sqlite3.Connection) -> int:
        """0 for a file that is still empty; a file of another program is an error."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application == APPLICATION:
            if version > VERSION:
                raise WatchwordError(f"{self.path} was made by a newer watchword (library {version}): update watchword")
            return int(version)
        if application or version or connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            raise WatchwordError(f"{self.path} is a database of another program: name another file")
        return 0


def _upgrade_explanations(connection: sqlite3.Connection) -> None:
    for video, content in connection.execute("SELECT video, content FROM explanations").fetchall():
        try:
            values = upgraded(json.loads(zlib.decompress(content)))
        except (ValueError, KeyError, TypeError, zlib.error):
            continue  # damaged: it is reported when it is read
        packed = zlib.compress(json.dumps(values, separators=(",", ":")).encode())
        connection.execute("UPDATE explanations SET content = ? WHERE video = ?", (packed, video))


def _upgrade_vectors(connection: sqlite3.Connection) -> None:
    """Their signatures. An encoder's vectors have one length; others are damaged."""
    lengths = connection.execute("SELECT encoder, length(vector), count(*) FROM vectors GROUP BY 1, 2 ORDER BY 3")
    for encoder, length in {encoder: length for encoder, length, _ in lengths if length and length % 2 == 0}.items():
        rows = connection.execute(
            "SELECT segment, lane, vector FROM vectors JOIN segments ON segments.id = segment "
            "WHERE encoder = ? AND length(vector) = ? ORDER BY segment",
            (encoder, length),
        )
        while some := rows.fetchmany(signatures.BLOCK_SIZE):
            vectors = read_vectors([vector for _, _, vector in some])
            signatures.put(connection, encoder, [(segment, lane) for segment, lane, _ in some], vectors)


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Switching to the log needs an exclusive lock, and SQLite does not wait for it by itself."""
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")  # without effect on a disk without shared memory
            return
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def _statements(script: str) -> Iterator[str]:
    """`executescript` would commit the open transaction."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


# A name that is no text, in a damaged schema, ends up in SQLite's message, which Python then cannot decode.
BROKEN = (sqlite3.Error, UnicodeDecodeError)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF  # without the extension


def _explained(error: sqlite3.Error | UnicodeDecodeError, path: Path) -> WatchwordError:
    """What to do about it."""
    if isinstance(error, UnicodeDecodeError):
        return WatchwordError(f"{path} is damaged ({error}): move it away and add the videos again")
    lines = {
        sqlite3.SQLITE_FULL: f"the disk is full: {path} is as it was before; free some space and run the command again",
        sqlite3.SQLITE_IOERR: f"the disk failed ({error}): {path} is as it was before; is the disk full or missing?",
        sqlite3.SQLITE_READONLY: f"cannot write {path}: it is read-only",
        sqlite3.SQLITE_CANTOPEN: f"cannot open {path}: it is missing, or permission is denied for it or its folder",
        sqlite3.SQLITE_PERM: f"cannot open {path}: permission denied",
        sqlite3.SQLITE_NOTADB: f"{path} is not a library: name another file",
        sqlite3.SQLITE_CORRUPT: f"{path} is damaged ({error}): move it away and add the videos again",
        sqlite3.SQLITE_BUSY: f"another process has kept {path} busy for {BUSY_SECONDS:.0f} s: try again",
    }
    kind = DiskFull if _code(error) in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR} else WatchwordError
    return kind(lines.get(_code(error), f"cannot use {path}: {error}"))


# --- rows ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class VideoRow:
    """A video of the library."""

    id: int
    name: str  # printable, whatever bytes the file's name has
    seconds: float
    caption: str  # the most confident
    confidence: float
    num_segments: int
    added: float  # seconds since 1970
    captioner: str
    source: Path | None  # its path when it was added
    num_edited: int = 0  # segments whose caption a person wrote


@dataclass(frozen=True)
class Hit:
    """A segment, or a cue of another lane, that a search has found."""

    video: int
    name: str
    start: float  # seconds
    end: float
    caption: str  # or what is said, written or heard
    confidence: float
    pieces: tuple[tuple[str, bool], ...]  # the caption, or a snippet, in pieces, and whether each matches the query
    rank: float  # higher is better: BM25, or the cosine of sentence embeddings
    key_seconds: float = 0.0  # whose frame shows what the caption says
    edited: bool = False  # written by a person
    lane: Lane = "captions"


# --- identity, locks and journals of videos --------------------------------------------------------------------------


def identity_of(video: Path) -> str:
    """The hash of its content: a video that was moved, copied or touched is the same."""
    try:
        if not video.is_file():  # a pipe or a device may never end
            raise WatchwordError(f"cannot read {video}: no such file, or not a file")
        with video.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except OSError as error:
        raise WatchwordError(f"cannot read {video}: {error.strerror or error}") from error


class VideoLocks:
    """Locks on videos that this process captions for a library; they end with the process.

    A lock is on one byte of a file that stays empty; the identity determines the byte's offset. All of a process are on
    one handle, because closing any handle of the file would end them.
    """

    def __init__(self, library: Path) -> None:
        self.held: set[str] = set()
        if fcntl is None:
            return
        path = library.with_name(f"{library.name}-claims")
        try:
            self.handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error

    def take(self, identity: str) -> bool:
        """Whether the video was free; then it is ours."""
        if identity in self.held:
            return False
        if fcntl is not None:
            try:
                fcntl.lockf(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _offset(identity))
            except (BlockingIOError, PermissionError):
                return False
        self.held.add(identity)
        return True

    def release(self, identity: str) -> None:
        self.held.discard(identity)
        if fcntl is not None:
            fcntl.lockf(self.handle, fcntl.LOCK_UN, 1, _offset(identity))

    def close(self) -> None:
        if fcntl is not None:
            os.close(self.handle)


def _offset(identity: str) -> int:
    return int.from_bytes(hashlib.sha256(identity.encode()).digest()[:7])


@contextmanager
def lock_video(library: Path, identity: str) -> Iterator[bool]:
    """Whether the video is free; it is locked until the context or the process ends."""
    locks = VideoLocks(library)
    try:
        yield locks.take(identity)
    finally:
        locks.close()


def journal_of(library: Path, identity: str) -> Path:
    """The journal of a video that is not in the library yet."""
    return library.with_name(f"{library.name}-{hashlib.sha256(identity.encode()).hexdigest()[:16]}.part")
