"""A library: films, what was said about their shots, and finding it again. One file."""

import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from watchword.captioning.description import Description, Shot
from watchword.captioning.writers import read_shot, shot_values
from watchword.errors import WatchwordError
from watchword.library.file import LibraryFile
from watchword.library.meaning import NEAR, Encoder, as_bytes, cosines, minilm
from watchword.library.query import Query, clean
from watchword.library.rows import FilmRow, Hit
from watchword.video import shown

INDEXES = ("stems", "spellings")
MOST_SPELLINGS = 32  # words that an unfinished one may stand for
AT_ONCE = 256        # sentences that are understood before they are kept
HIT = """
    SELECT shots.film, films.name, shots.start, shots.end, shots.sentence, shots.confidence
    FROM shots JOIN films ON films.id = shots.film WHERE shots.id = ?
"""
FILM_COLUMNS = """
    id, name, seconds, sentence, confidence, added, captioner, source,
    (SELECT count(*) FROM shots WHERE shots.film = films.id) AS num_shots
"""


class Library:
    """Films by number. Any thread, and any number of processes, may use one file at the same time."""

    def __init__(self, path: Path, encoder: Callable[[], Encoder] = minilm) -> None:
        self.file = LibraryFile(path)
        self.encoder = encoder  # opened when somebody searches by meaning

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def uploads(self) -> Path:
        """Beside the file: copies of films that came through the page, and are the library's own."""
        return self.path.with_name(f"{self.path.name}.films") / "films"

    # --- films -----------------------------------------------------------------------------------------------------

    def add(
        self,
        description: Description,
        *,
        name: str,
        identity: str,
        source: Path | None,
        evidence: dict[str, Any] | None,
        added: float | None = None,
    ) -> int:
        """The film's number. A film of this identity, or one that lay in this place before, is replaced."""
        place = os.fsencode(source.absolute()) if source else None
        size, changed = _stamp(source) if source else (None, None)
        with self.file.writing() as connection:
            replaced = connection.execute(
                "SELECT id FROM films WHERE identity = ? OR source = ? ORDER BY identity <> ?",
                (clean(identity), place, clean(identity)),
            ).fetchall()
            for row in replaced:
                _delete(connection, row["id"])
            values = {
                "id": replaced[0]["id"] if replaced else None,
                "identity": clean(identity),
                "name": _shown(name),
                "film": os.fsencode(description.film),
                "source": place,
                "source_size": size,
                "source_time": changed,
                "seconds": description.seconds,
                "sentence": clean(description.sentence),
                "confidence": description.confidence,
                "captioner": clean(description.captioner),
                "warnings": json.dumps(description.warnings),
                "added": time.time() if added is None else added,
            }
            film = _insert(connection, "films", values)
            for shot in description.shots:
                best = {"sentence": clean(shot.best.text), "confidence": shot.best.confidence}
                times = {"film": film, "start": shot.start, "end": shot.end}
                _insert(connection, "shots", times | best | {"content": json.dumps(_shot_values(shot))})
            for index in INDEXES:
                connection.execute(
                    f"INSERT INTO {index} (rowid, sentence) SELECT id, sentence FROM shots WHERE film = ?", (film,)
                )
            if evidence is not None:
                content = zlib.compress(json.dumps(evidence, separators=(",", ":")).encode())
                _insert(connection, "evidence", {"film": film, "content": content})
        return film

    def remove(self, film: int) -> bool:
        """Takes every word that was said about a film out of the file; the film itself stays where it is."""
        with self.file.writing() as connection:
            is_there = _delete(connection, film)
        if is_there:
            self.file.tidy()
        return is_there

    def count(self) -> int:
        with self.file.reading() as connection:
            return int(connection.execute("SELECT count(*) FROM films").fetchone()[0])

    def films(self, *, limit: int = 50, offset: int = 0) -> list[FilmRow]:
        """The newest first."""
        page = "ORDER BY added DESC, id DESC LIMIT ? OFFSET ?"
        with self.file.reading() as connection:
            rows = connection.execute(f"SELECT {FILM_COLUMNS} FROM films {page}", (_page(limit), _page(offset)))
            return [_film(row) for row in rows]

    def film(self, film: int) -> FilmRow | None:
        with self.file.reading() as connection:
            row = connection.execute(f"SELECT {FILM_COLUMNS} FROM films WHERE id = ?", (film,)).fetchone()
        return _film(row) if row else None

    def description(self, film: int) -> Description:
        """All that describing.writers need; attention is in the evidence."""
        with self.file.reading() as connection:
            row = connection.execute("SELECT * FROM films WHERE id = ?", (film,)).fetchone()
            shots = connection.execute("SELECT content FROM shots WHERE film = ? ORDER BY id", (film,)).fetchall()
        if row is None:
            raise WatchwordError(f"no film {film} in {self.path}")
        try:
            found = tuple(read_shot(json.loads(shot["content"])) for shot in shots)
            warnings = tuple(json.loads(row["warnings"]))
        except (ValueError, KeyError, TypeError) as error:
            raise WatchwordError(f"film {film} of {self.path} is damaged ({error}): add it again") from error
        return Description(Path(os.fsdecode(row["film"])), row["seconds"], row["captioner"], found, warnings)

    def evidence(self, film: int) -> dict[str, Any] | None:
        with self.file.reading() as connection:
            row = connection.execute("SELECT content FROM evidence WHERE film = ?", (film,)).fetchone()
        try:
            return json.loads(zlib.decompress(row["content"])) if row else None
        except (ValueError, zlib.error) as error:
            raise WatchwordError(f"film {film} of {self.path} is damaged ({error}): add it again") from error

    # --- what is known ---------------------------------------------------------------------------------------------

    def find(self, identity: str) -> int | None:
        """The number of the film with this identity."""
        with self.file.reading() as connection:
            row = connection.execute("SELECT id FROM films WHERE identity = ?", (clean(identity),)).fetchone()
        return row["id"] if row else None

    def find_file(self, path: Path) -> int | None:
        """The number of the film that was added from this file, if it is still as it was: by place, size and time."""
        size, changed = _stamp(path)
        if size is None:
            return None
        wanted = (os.fsencode(path.absolute()), size, changed)
        with self.file.reading() as connection:
            row = connection.execute(
                "SELECT id FROM films WHERE source = ? AND source_size = ? AND source_time = ?", wanted
            ).fetchone()
        return row["id"] if row else None

    def move(self, film: int, source: Path) -> None:
        """The film lies elsewhere now."""
        size, changed = _stamp(source)
        with self.file.writing() as connection:
            connection.execute(
                "UPDATE films SET name = ?, source = ?, source_size = ?, source_time = ? WHERE id = ?",
                (_shown(source.name), os.fsencode(source.absolute()), size, changed, film),
            )

    # --- searching -------------------------------------------------------------------------------------------------

    def search(self, query: str, *, limit: int = 20, offset: int = 0, meaning: bool = False) -> list[Hit]:
        """Moments, the best first; of equally good ones the surest. `meaning`: also what is said in other words."""
        search = self._search_meaning if meaning else self._search_words
        return search(Query.read(query), _page(limit), _page(offset))

    def count_hits(self, query: str, *, meaning: bool = False) -> int:
        """How many moments `search` would find without a limit."""
        if meaning:
            return len(self._near(Query.read(query)))
        with self.file.reading() as connection:
            expression = Query.read(query).expression(lambda word: _beginning_with(connection, word))
            if not expression:
                return 0
            counted = connection.execute("SELECT count(*) FROM stems WHERE stems MATCH ?", (expression,))
            return int(counted.fetchone()[0])

    def _search_words(self, query: Query, limit: int, offset: int) -> list[Hit]:
        mark = secrets.token_hex(8)  # a caption cannot pretend to be marked
        with self.file.reading() as connection:
            expression = query.expression(lambda word: _beginning_with(connection, word))
            if not expression:
                return []
            rows = connection.execute(
                """
                SELECT shots.film, films.name, shots.start, shots.end, shots.sentence, shots.confidence,
                       highlight(stems, 0, ?, ?) AS marked, -bm25(stems) AS score
                FROM stems JOIN shots ON shots.id = stems.rowid JOIN films ON films.id = shots.film
                WHERE stems MATCH ?
                ORDER BY score DESC, shots.confidence DESC, shots.film, shots.start LIMIT ? OFFSET ?
                """,
                (mark, mark, expression, limit, offset),
            ).fetchall()
        return [_hit(row, _pieces(row["marked"], mark), row["score"]) for row in rows]

    def _search_meaning(self, query: Query, limit: int, offset: int) -> list[Hit]:
        near = self._near(query)[offset : offset + limit]
        with self.file.reading() as connection:
            rows = [(connection.execute(HIT, (shot,)).fetchone(), cosine) for shot, cosine in near]
        return [_hit(row, ((row["sentence"], False),), cosine) for row, cosine in rows if row]  # one may be gone

    def _near(self, query: Query) -> list[tuple[int, float]]:
        """Shots and their cosines, the nearest first."""
        if not query.wanted:
            return []
        self.understand()
        encoder = self.encoder()
        (asked,) = encoder.encode([query.text])
        with self.file.reading() as connection:
            unwanted = query.exclusion(lambda word: _beginning_with(connection, word))
            excluded = "AND shot NOT IN (SELECT rowid FROM stems WHERE stems MATCH ?)" if unwanted else ""
            rows = connection.execute(
                "SELECT shot, vector, confidence FROM vectors JOIN shots ON shots.id = shot "
                f"WHERE encoder = ? AND length(vector) = ? {excluded}",  # a file from a stranger may hold anything
                (encoder.name, len(as_bytes(asked)), *([unwanted] if unwanted else [])),
            ).fetchall()
        if not rows:
            return []
        found = cosines(asked, [row["vector"] for row in rows])
        order = np.lexsort((-np.array([row["confidence"] for row in rows]), -found))  # the last is the first key
        return [(rows[place]["shot"], float(found[place])) for place in order if found[place] >= NEAR]

    def understand(self, report: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Vectors for sentences that have none yet; how many it were. Searching does it where nobody has before."""
        encoder = self.encoder()
        with self.file.reading() as connection:
            rows = connection.execute(
                "SELECT id, sentence FROM shots "
                "WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE shot = shots.id AND encoder = ?)",
                (encoder.name,),
            ).fetchall()
        shots: dict[str, list[int]] = {}
        for row in rows:  # what is said often is read once
            shots.setdefault(row["sentence"], []).append(row["id"])
        sentences = sorted(shots, key=len)  # of like length together
        for start in range(0, len(sentences), AT_ONCE):
            some = sentences[start : start + AT_ONCE]
            vectors = zip(some, map(as_bytes, encoder.encode(some)), strict=True)
            with self.file.writing() as connection:  # a film may be removed meanwhile
                connection.executemany(
                    "INSERT OR REPLACE INTO vectors SELECT id, ?, ? FROM shots WHERE id = ?",
                    [(encoder.name, vector, shot) for sentence, vector in vectors for shot in shots[sentence]],
                )
            report(start + len(some), len(sentences))
        return len(sentences)


def _beginning_with(connection: sqlite3.Connection, word: str) -> list[str]:
    """Words of the library that an unfinished one may become."""
    if not word.isalnum():
        return []
    rows = connection.execute(
        "SELECT term FROM words WHERE term > ? AND term < ? LIMIT ?", (word, word + "\U0010ffff", MOST_SPELLINGS)
    )
    return [row["term"] for row in rows]


def _pieces(marked: str, mark: str) -> tuple[tuple[str, bool], ...]:
    return tuple((text, place % 2 == 1) for place, text in enumerate(marked.split(mark)) if text)


def _hit(row: sqlite3.Row, pieces: tuple[tuple[str, bool], ...], rank: float) -> Hit:
    return Hit(
        row["film"], row["name"], row["start"], row["end"], row["sentence"], row["confidence"], pieces, rank
    )


def _film(row: sqlite3.Row) -> FilmRow:
    source = Path(os.fsdecode(row["source"])) if row["source"] is not None else None
    return FilmRow(
        row["id"], row["name"], row["seconds"], row["sentence"], row["confidence"], row["num_shots"], row["added"],
        row["captioner"], source,
    )  # fmt: skip


def _shot_values(shot: Shot) -> dict[str, Any]:
    """As the writers write it, but not rounded where they would round again: they must say the same of what is read."""
    values = shot_values(shot) | {"start": shot.start, "end": shot.end}
    for kept, sentence in zip([values, *values["alternatives"]], shot.sentences, strict=True):
        kept["confidence"] = sentence.confidence
    return values


def _insert(connection: sqlite3.Connection, table: str, values: dict[str, Any]) -> int:
    columns, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    row = connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(values.values()))
    assert row.lastrowid is not None
    return row.lastrowid


def _shown(name: str) -> str:
    """A name that can be shown on one line, whatever a file system or a stranger made it of."""
    try:
        return shown(Path(name))
    except UnicodeEncodeError:  # half a character, which no file system gives
        return shown(Path(clean(name)))


def _delete(connection: sqlite3.Connection, film: int) -> bool:
    """Shots, evidence and vectors go with their film; the indexes must be told first what they lose."""
    for index in INDEXES:
        connection.execute(
            f"INSERT INTO {index} ({index}, rowid, sentence) SELECT 'delete', id, sentence FROM shots WHERE film = ?",
            (film,),
        )
    return connection.execute("DELETE FROM films WHERE id = ?", (film,)).rowcount > 0


def _stamp(path: Path) -> tuple[int | None, int | None]:
    """Size and time of a file; nothing of one that is not there."""
    try:
        status = path.stat()
    except OSError:
        return None, None
    return status.st_size, status.st_mtime_ns


def _page(number: int) -> int:
    return max(0, min(number, 2**31))  # a negative LIMIT would be none
