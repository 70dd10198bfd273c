"""Captions that a person corrected. A segment keeps its original captions below the one by hand."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from watchword.captioning.description import Description, Segment, segment_from_dict, segment_to_dict
from watchword.errors import WatchwordError
from watchword.library import signatures
from watchword.library.query import clean


class TooLong(WatchwordError):  # noqa: N818
    """More characters than a caption may have."""


MAX_CAPTION = 500  # characters
INDEXES = ("stems", "spellings")


def caption_by_hand(text: str) -> str:
    """One printable line."""
    line = " ".join("".join(char if char.isprintable() else " " for char in clean(text)).split())
    if len(line) > MAX_CAPTION:
        raise TooLong(f"the caption has {len(line)} characters: write at most {MAX_CAPTION}")
    return line


def edit_segment(connection: sqlite3.Connection, video: int, number: int, text: str) -> Segment | None:
    """Replaces the caption of a segment, counted from 0, in the table and in the indexes; None if there is none."""
    rows = connection.execute(
        "SELECT id, caption, content FROM segments WHERE video = ? AND lane = 'captions' ORDER BY id", (video,)
    ).fetchall()
    if not 0 <= number < len(rows):
        return None
    row = rows[number]
    segment = segment_from_dict(json.loads(row["content"])).edited_to(caption_by_hand(text))
    caption = clean(segment.best.text)
    for index in INDEXES:  # they need the old text to forget it
        connection.execute(f"INSERT INTO {index} ({index}, rowid, caption) VALUES ('delete', ?, ?)", tuple(row)[:2])
        connection.execute(f"INSERT INTO {index} (rowid, caption) VALUES (?, ?)", (row["id"], caption))
    connection.execute(
        "UPDATE segments SET caption = ?, confidence = ?, content = ? WHERE id = ?",
        (caption, segment.best.confidence, json.dumps(segment_to_dict(segment)), row["id"]),
    )
    connection.execute("DELETE FROM vectors WHERE segment = ?", (row["id"],))
    signatures.forget(connection, [row["id"]])
    connection.execute("INSERT OR IGNORE INTO pending VALUES (?)", (row["id"],))
    best = "SELECT caption, confidence FROM segments WHERE video = ? AND lane = 'captions'"
    first = f"{best} ORDER BY confidence DESC, id LIMIT 1"
    connection.execute(f"UPDATE videos SET (caption, confidence) = ({first}) WHERE id = ?", (video, video))
    return segment


def with_edits(description: Description, former: Sequence[Segment]) -> Description:
    """A new description of the same video keeps what a person wrote: at the segment that shares most of its time."""
    segments = list(description.segments)
    for edited in former:
        shared = [min(edited.end, segment.end) - max(edited.start, segment.start) for segment in segments]
        if edited.best.edited and shared and max(shared) > 0:
            place = shared.index(max(shared))
            segments[place] = segments[place].edited_to(edited.best.text)
    return replace(description, segments=tuple(segments))
