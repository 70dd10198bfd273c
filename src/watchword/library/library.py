"""A library: videos, the captions of their segments, and search. One file."""

import json
import os
import secrets
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from watchword.captioning.description import (
    Description,
    Segment,
    cue_from_dict,
    cue_to_dict,
    language_from_dict,
    language_to_dict,
    segment_from_dict,
    segment_to_dict,
)
from watchword.errors import WatchwordError
from watchword.library import signatures
from watchword.library.database import Database, Hit, VideoRow
from watchword.library.edits import INDEXES, edit_segment, with_edits
from watchword.library.query import (
    NEAR,
    NUM_EDITED,
    Encoder,
    Listing,
    Query,
    as_bytes,
    clean,
    minilm,
    read_vectors,
    selects_of,
)
from watchword.types import Cue, Lane
from watchword.video import shown

LANES: tuple[Lane, ...] = get_args(Lane)
MAX_SPELLINGS = 32  # words that a prefix may stand for
BATCH_SIZE = 1024  # captions that are embedded before they are stored
NUM_RANKED = 5000  # matches of a query, the newest, that are ranked
SNIPPET = 40  # words of a long text that are shown around a match
HIT_COLUMNS = """
    segments.id, segments.video AS video, videos.name, segments.start AS start, segments.end, segments.caption,
    segments.confidence AS confidence, segments.lane
"""
HIT = f"""
    SELECT {HIT_COLUMNS}
    FROM segments JOIN videos ON videos.id = segments.video WHERE segments.id = ?
"""
CONFIDENCES = "SELECT id, confidence FROM segments WHERE id IN (SELECT value FROM json_each(?))"
THERE = "SELECT id, caption FROM segments WHERE id IN (SELECT value FROM json_each(?))"
OF_VIDEO = "video = ? AND lane = 'captions' ORDER BY"
DAMAGE = (ValueError, KeyError, TypeError, AttributeError)  # of stored JSON
VIDEO_COLUMNS = f"""
    id, name, seconds, caption, confidence, added, captioner, source, {NUM_EDITED} AS num_edited,
    (SELECT count(*) FROM segments WHERE segments.video = videos.id AND lane = 'captions') AS num_segments
"""
ALL = Listing()


class Library:
    """Videos by number. Any thread, and any number of processes, may use one file at the same time."""

    def __init__(self, path: Path | str | None = None, encoder: Callable[[], Encoder] = minilm) -> None:
        """Its file; the default is the user's own library."""
        from watchword.library import default_path

        self.file = Database(Path(path) if path else default_path())
        self.encoder = encoder  # loaded for the first semantic search

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def uploads(self) -> Path:
        """The folder for uploads of the web page, beside the file; `.films` in libraries of version 0.1."""
        former = self.path.with_name(f"{self.path.name}.films") / "films"
        return former if former.exists() else self.path.with_name(f"{self.path.name}.uploads") / "videos"

    # --- videos -----------------------------------------------------------------------------------------------------

    def add(
        self,
        description: Description,
        *,
        name: str,
        identity: str,
        source: Path | None,
        explanation: dict[str, Any] | None,
        added: float | None = None,
    ) -> int:
        """The video's number. It replaces a video of this identity, whose edited captions stay, or of this path."""
        path = os.fsencode(source.absolute()) if source else None
        size, changed = _stamp(source) if source else (None, None)
        with self.file.writing() as connection:
            replaced = connection.execute(
                "SELECT id, identity FROM videos WHERE identity = ? OR source = ? ORDER BY identity <> ?",
                (clean(identity), path, clean(identity)),
            ).fetchall()
            if replaced and replaced[0]["identity"] == clean(identity):
                description = with_edits(description, _segments(connection, f"{OF_VIDEO} id", replaced[0]["id"]))
            for row in replaced:
                _delete(connection, row["id"])
            values = {
                "id": replaced[0]["id"] if replaced else None,
                "identity": clean(identity),
                "name": _shown(name),
                "path": os.fsencode(description.video),
                "source": path,
                "source_size": size,
                "source_time": changed,
                "seconds": description.seconds,
                "caption": clean(description.caption),
                "confidence": description.confidence,
                "captioner": clean(description.captioner),
                "warnings": json.dumps(description.warnings),
                "added": time.time() if added is None else added,
                "lanes": json.dumps(_lanes_values(description)),
            }
            video = _insert(connection, "videos", values)
            for segment in description.segments:
                best = {"caption": clean(segment.best.text), "confidence": segment.best.confidence}
                times = {"video": video, "start": segment.start, "end": segment.end}
                _insert(connection, "segments", times | best | {"content": json.dumps(segment_to_dict(segment))})
            for lane, cues in description.lanes.items():
                for cue in cues:
                    best = {"caption": clean(cue.text), "confidence": cue.confidence, "lane": lane}
                    times = {"video": video, "start": cue.start, "end": cue.end}
                    _insert(connection, "segments", times | best | {"content": json.dumps(cue_to_dict(cue))})
            for index in INDEXES:
                connection.execute(
                    f"INSERT INTO {index} (rowid, caption) SELECT id, caption FROM segments WHERE video = ?", (video,)
                )
            connection.execute("INSERT INTO pending SELECT id FROM segments WHERE video = ?", (video,))
            if explanation is not None:
                content = zlib.compress(json.dumps(explanation, separators=(",", ":")).encode())
                _insert(connection, "explanations", {"video": video, "content": content})
        self.file.keep_reserve()
        return video

    def remove(self, video: int) -> bool:
        """Deletes all that the file has of a video; the video itself stays."""
        with self.file.deleting() as connection:
            is_there = _delete(connection, video)
        if is_there and not self.file.is_disk_full:  # tidying takes space; the next removal does it
            self.file.tidy()
        return is_there

    def count(self, listing: Listing = ALL) -> int:
        where, values = listing.condition
        with self.file.reading() as connection:
            return int(connection.execute(f"SELECT count(*) FROM videos WHERE {where}", values).fetchone()[0])

    def videos(self, listing: Listing = ALL, *, limit: int = 50, offset: int = 0) -> list[VideoRow]:
        """By default all, the newest first."""
        where, values = listing.condition
        page = f"WHERE {where} {listing.order} LIMIT ? OFFSET ?"
        with self.file.reading() as connection:
            rows = connection.execute(
                f"SELECT {VIDEO_COLUMNS} FROM videos {page}", (*values, _page(limit), _page(offset))
            )
            return [_video(row) for row in rows]

    def video(self, video: int) -> VideoRow | None:
        with self.file.reading() as connection:
            row = connection.execute(f"SELECT {VIDEO_COLUMNS} FROM videos WHERE id = ?", (video,)).fetchone()
        return _video(row) if row else None

    def description(self, video: int) -> Description:
        """What the writers need; attention is in the explanation."""
        with self.file.reading() as connection:
            row = connection.execute("SELECT * FROM videos WHERE id = ?", (video,)).fetchone()
            if row is None:
                raise WatchwordError(f"no video {video} in {self.path}")
            try:
                found = tuple(_read_segments(connection, f"{OF_VIDEO} id", video))
                warnings, about = tuple(json.loads(row["warnings"])), json.loads(row["lanes"])
                lanes = {name: tuple(_read_cues(connection, video, name)) for name in LANES if name in about}
                language = language_from_dict(about.get("speech", {}).get("language"))
            except DAMAGE as error:
                raise WatchwordError(f"video {video} of {self.path} is damaged ({error}): add it again") from error
        path = Path(os.fsdecode(row["path"]))
        return Description(path, row["seconds"], row["captioner"], found, warnings, lanes, language)

    def edit(self, video: int, segment: int, text: str) -> Segment | None:
        """Corrects the caption of a segment, counted from 0; an empty text restores the original one."""
        with self.file.writing() as connection:
            return edit_segment(connection, video, segment, text)

    def key_seconds(self, video: int) -> float | None:
        """The time whose frame shows what the video's caption says."""
        with self.file.reading() as connection:
            best = _segments(connection, f"{OF_VIDEO} confidence DESC, id LIMIT 1", video)
        return best[0].key_seconds if best else None

    def explanation(self, video: int) -> dict[str, Any] | None:
        with self.file.reading() as connection:
            row = connection.execute("SELECT content FROM explanations WHERE video = ?", (video,)).fetchone()
        try:
            return json.loads(zlib.decompress(row["content"])) if row else None
        except (ValueError, zlib.error) as error:
            raise WatchwordError(f"video {video} of {self.path} is damaged ({error}): add it again") from error

    # --- finding videos --------------------------------------------------------------------------------------------

    def find(self, identity: str) -> int | None:
        """The number of the video with this identity."""
        with self.file.reading() as connection:
            row = connection.execute("SELECT id FROM videos WHERE identity = ?", (clean(identity),)).fetchone()
        return row["id"] if row else None

    def identity(self, video: int) -> str | None:
        with self.file.reading() as connection:
            row = connection.execute("SELECT identity FROM videos WHERE id = ?", (video,)).fetchone()
        return row["identity"] if row else None

    def find_file(self, path: Path) -> int | None:
        """The number of the video that was added from this file, if its path, size and time are the same."""
        size, changed = _stamp(path)
        if size is None:
            return None
        wanted = (os.fsencode(path.absolute()), size, changed)
        with self.file.reading() as connection:
            row = connection.execute(
                "SELECT id FROM videos WHERE source = ? AND source_size = ? AND source_time = ?", wanted
            ).fetchone()
        return row["id"] if row else None

    def move(self, video: int, source: Path, name: str) -> None:
        """The video has another path and name now."""
        size, changed = _stamp(source)
        with self.file.writing() as connection:
            connection.execute(
                "UPDATE videos SET name = ?, source = ?, source_size = ?, source_time = ? WHERE id = ?",
                (_shown(name), os.fsencode(source.absolute()), size, changed, video),
            )

    # --- searching -------------------------------------------------------------------------------------------------

    def search(self, query: str, *, limit: int = 20, offset: int = 0, semantic: bool = False) -> list[Hit]:
        """Segments and cues, the best match first, then the most confident. `semantic`: by sentence embedding."""
        search = self._search_semantic if semantic else self._search_words
        return search(Query.read_all(query), _page(limit), _page(offset))

    def count_hits(self, query: str, *, semantic: bool = False) -> int:
        """How many `search` finds without a limit."""
        queries = Query.read_all(query)
        if semantic:
            return len(self._near(queries)[0])
        with self.file.reading() as connection:
            selects = selects_of(queries, "stems.rowid AS id", lambda word: _beginning_with(connection, word))
            values = [value for _, some in selects for value in some]
            united = " UNION ".join(f"SELECT id FROM ({select})" for select, _ in selects)
            return int(connection.execute(f"SELECT count(*) FROM ({united})", values).fetchone()[0]) if selects else 0

    def _search_words(self, queries: Sequence[Query], limit: int, offset: int) -> list[Hit]:
        mark = secrets.token_hex(8)  # no caption contains it
        with self.file.reading() as connection:
            columns = "stems.rowid AS id, -bm25(stems) AS score"
            selects = selects_of(queries, columns, lambda word: _beginning_with(connection, word))
            if not selects:
                return []
            # The newest NUM_RANKED are ranked among themselves, then as many older ones: so pages share no hit.
            ranked = NUM_RANKED * max(1, -(-(offset + limit) // NUM_RANKED))
            block = f"(row_number() OVER (ORDER BY id DESC) - 1) / {NUM_RANKED}" if ranked > NUM_RANKED else "0"
            united = " UNION ALL ".join(
                f"SELECT id, score, {block} AS block FROM ({select} LIMIT {ranked})" for select, _ in selects
            )
            rows = connection.execute(
                f"WITH found AS MATERIALIZED ({united}), "
                "best AS (SELECT id, max(score) AS score, min(block) AS block FROM found GROUP BY id) "
                "SELECT segments.id AS id, score FROM best JOIN segments ON segments.id = best.id "
                "ORDER BY block, score DESC, confidence DESC, video, start LIMIT ? OFFSET ?",
                (*(value for _, some in selects for value in some), limit, offset),
            ).fetchall()
            numbers = [row["id"] for row in rows]
            marked = _marked(connection, queries, numbers, mark)
            hits = [connection.execute(HIT, (number,)).fetchone() for number in numbers]
            return [
                _hit(connection, hit, _pieces(marked[row["id"]], mark), row["score"])
                for hit, row in zip(hits, rows, strict=True)
            ]

    def _search_semantic(self, queries: Sequence[Query], limit: int, offset: int) -> list[Hit]:
        segments, cosines = self._near(queries)
        end = min(offset + limit, len(cosines))
        if end <= offset:
            return []
        lowest = np.partition(cosines, -end)[-end]
        segments, cosines = segments[cosines >= lowest], cosines[cosines >= lowest]  # captions that are equal, too
        with self.file.reading() as connection:
            numbers = json.dumps(segments.tolist())
            sure = dict(connection.execute(CONFIDENCES, (numbers,)).fetchall())
            confidences = np.array([sure.get(number, 0.0) for number in segments.tolist()])
            order = np.lexsort((segments, -confidences, -cosines))[offset:end]
            rows = [(connection.execute(HIT, (int(segments[place]),)).fetchone(), place) for place in order]
            return [
                _hit(connection, row, ((row["caption"], False),), float(cosines[place])) for row, place in rows if row
            ]  # may be gone

    def _near(self, queries: Sequence[Query]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Segments and cues that are near, and their cosines, in no order."""
        wanted = [query for query in queries if query.wanted]
        nothing = np.zeros(0, np.int64), np.zeros(0, np.float32)
        if not wanted:
            return nothing
        self.embed()
        encoder = self.encoder()
        (asked,) = encoder.encode([" ".join(query.text for query in wanted)])
        lanes = [lane for query in wanted for lane in ([query.lane] if query.lane else LANES)]
        with self.file.reading() as connection:
            unwanted = [query.exclusion(lambda word: _beginning_with(connection, word)) for query in queries]
            excluded = _matching(connection, [expression for expression in unwanted if expression])
            near = signatures.candidates(connection, encoder.name, asked, lanes, signatures.NUM_CANDIDATES, excluded)
            rows = connection.execute(
                "SELECT segment, vector FROM vectors WHERE segment IN (SELECT value FROM json_each(?)) "
                "AND encoder = ? AND length(vector) = ?",  # a file from elsewhere may hold anything
                (json.dumps(near), encoder.name, len(as_bytes(asked))),
            ).fetchall()
        if not rows:
            return nothing
        cosines = read_vectors([row["vector"] for row in rows]) @ asked
        segments = np.array([row["segment"] for row in rows], np.int64)
        return segments[cosines >= NEAR], cosines[cosines >= NEAR]

    def embed(self, report: Callable[[int, int], None] = lambda done, total: None) -> int:
        """Embeds captions that have no vector yet, and says how many. A semantic search does it first."""
        encoder = self.encoder()
        with self.file.reading() as connection:
            former = {name for (name,) in connection.execute("SELECT DISTINCT encoder FROM signatures")}
            missing = "id IN (SELECT segment FROM pending)"
            if former != {encoder.name}:  # vectors of another encoder are replaced
                missing = "id NOT IN (SELECT segment FROM vectors WHERE encoder = ?)"
            named = (encoder.name,) * missing.count("?")
            rows = connection.execute(
                f"SELECT id, caption, lane FROM segments WHERE {missing} ORDER BY id", named
            ).fetchall()
        segments: dict[str, list[tuple[int, Lane]]] = {}
        for row in rows:  # equal captions are embedded once
            segments.setdefault(row["caption"], []).append((row["id"], row["lane"]))
        captions = list(segments)  # neighbours share a block of signatures
        for start in range(0, len(captions), BATCH_SIZE):
            some = captions[start : start + BATCH_SIZE]
            self._store(encoder, {caption: segments[caption] for caption in some}, encoder.encode(some))
            report(start + len(some), len(captions))
        if former - {encoder.name}:
            with self.file.writing() as connection:
                connection.execute("DELETE FROM signatures WHERE encoder <> ?", (encoder.name,))
        return len(captions)

    def _store(
        self, encoder: Encoder, segments: Mapping[str, Sequence[tuple[int, Lane]]], vectors: NDArray[np.float32]
    ) -> None:
        """Vectors of captions, each with the segments that have it."""
        with self.file.writing() as connection:
            numbers = json.dumps([number for some in segments.values() for number, _ in some])
            # a video may be removed, or a caption edited, while captions are encoded
            now = dict(connection.execute(THERE, (numbers,)).fetchall())
            kept = [
                (one, row)
                for row, (caption, some) in enumerate(segments.items())
                for one in some
                if now.get(one[0]) == caption
            ]
            connection.executemany(
                "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)",
                [(number, encoder.name, as_bytes(vectors[row])) for (number, _), row in kept],
            )
            signatures.put(connection, encoder.name, [one for one, _ in kept], vectors[[row for _, row in kept]])
            stored = json.dumps([number for (number, _), _ in kept])
            connection.execute("DELETE FROM pending WHERE segment IN (SELECT value FROM json_each(?))", (stored,))


def _lanes_values(description: Description) -> dict[Lane, dict[str, Any]]:
    """What is stored of each lane beside its cues."""
    language = {"language": language_to_dict(description.language)}
    return {lane: language if lane == "speech" else {} for lane in description.lanes}


def _beginning_with(connection: sqlite3.Connection, word: str) -> list[str]:
    """Words of the library that begin so."""
    if not word.isalnum():
        return []
    rows = connection.execute(
        "SELECT term FROM words WHERE term > ? AND term < ? LIMIT ?", (word, word + "\U0010ffff", MAX_SPELLINGS)
    )
    return [row["term"] for row in rows]


def _matching(connection: sqlite3.Connection, expressions: Sequence[str]) -> NDArray[np.int64]:
    """The segments that match any of them, sorted."""
    select = "SELECT rowid FROM stems WHERE stems MATCH ?"
    found = [number for one in expressions for (number,) in connection.execute(select, (one,))]
    return np.unique(np.array(found, np.int64))


def _marked(
    connection: sqlite3.Connection, queries: Sequence[Query], segments: Sequence[int], mark: str
) -> dict[int, str]:
    """The caption of each segment, or a snippet, with marks around what the first query that it answers wants."""
    columns = f"stems.rowid AS id, snippet(stems, 0, '{mark}', '{mark}', '…', {SNIPPET}) AS marked"
    among = "stems.rowid BETWEEN ? AND ? AND +stems.rowid IN (SELECT value FROM json_each(?))"
    found: dict[int, str] = {}
    for select, values in reversed(
        selects_of(queries, columns, lambda word: _beginning_with(connection, word), among) if segments else []
    ):
        places = (min(segments), max(segments), json.dumps(segments))
        found |= {row["id"]: row["marked"] for row in connection.execute(select, (*values, *places))}
    return found


def _pieces(marked: str, mark: str) -> tuple[tuple[str, bool], ...]:
    return tuple((text, place % 2 == 1) for place, text in enumerate(marked.split(mark)) if text)


def _hit(connection: sqlite3.Connection, row: sqlite3.Row, pieces: tuple[tuple[str, bool], ...], rank: float) -> Hit:
    found = row["video"], row["name"], row["start"], row["end"], row["caption"], row["confidence"]
    (segment,) = _segments(connection, "id = ? AND lane = 'captions'", row["id"]) or (None,)
    if segment is None:
        return Hit(*found, pieces, rank, (row["start"] + row["end"]) / 2, lane=row["lane"])
    return Hit(*found, pieces, rank, segment.key_seconds, segment.best.edited, row["lane"])


def _segments(connection: sqlite3.Connection, where: str, number: int) -> tuple[Segment, ...]:
    """Nothing if they are damaged: a damaged video can be shown, and added again."""
    try:
        return tuple(_read_segments(connection, where, number))
    except DAMAGE:
        return ()


def _read_segments(connection: sqlite3.Connection, where: str, number: int) -> Iterator[Segment]:
    for row in connection.execute(f"SELECT content FROM segments WHERE {where}", (number,)):
        yield segment_from_dict(json.loads(row["content"]))


def _read_cues(connection: sqlite3.Connection, video: int, lane: Lane) -> Iterator[Cue]:
    of_lane = "SELECT content FROM segments WHERE video = ? AND lane = ? ORDER BY id"
    for row in connection.execute(of_lane, (video, lane)):
        yield cue_from_dict(json.loads(row["content"]))


def _video(row: sqlite3.Row) -> VideoRow:
    source = Path(os.fsdecode(row["source"])) if row["source"] is not None else None
    return VideoRow(
        row["id"],
        row["name"],
        row["seconds"],
        row["caption"],
        row["confidence"],
        row["num_segments"],
        row["added"],
        row["captioner"],
        source,
        row["num_edited"],
    )


def _insert(connection: sqlite3.Connection, table: str, values: dict[str, Any]) -> int:
    columns, places = ", ".join(f'"{name}"' for name in values), ", ".join("?" * len(values))
    row = connection.execute(f"INSERT INTO {table} ({columns}) VALUES ({places})", tuple(values.values()))
    assert row.lastrowid is not None
    return row.lastrowid


def _shown(name: str) -> str:
    """A name on one printable line."""
    try:
        return shown(Path(name))
    except UnicodeEncodeError:  # half a character, which no file system gives
        return shown(Path(clean(name)))


def _delete(connection: sqlite3.Connection, video: int) -> bool:
    """Segments, explanation and vectors go with their video; the text indexes need the old rows first."""
    numbers = [number for (number,) in connection.execute("SELECT id FROM segments WHERE video = ?", (video,))]
    signatures.forget(connection, numbers)
    for index in INDEXES:
        connection.execute(
            f"INSERT INTO {index} ({index}, rowid, caption) SELECT 'delete', id, caption FROM segments WHERE video = ?",
            (video,),
        )
    return connection.execute("DELETE FROM videos WHERE id = ?", (video,)).rowcount > 0


def _stamp(path: Path) -> tuple[int | None, int | None]:
    """Size and time of a file; nothing of one that is not there."""
    try:
        status = path.stat()
    except OSError:
        return None, None
    return status.st_size, status.st_mtime_ns


def _page(number: int) -> int:
    return max(0, min(number, 2**31))  # a negative LIMIT would be none
