"""Which videos of the library a list shows, and in which order."""

from dataclasses import dataclass
from typing import Literal

from watchword.library.query import clean

Sort = Literal["added", "name", "seconds", "confidence"]
ORDERS: dict[Sort, str] = {
    "added": "added",
    "name": "name COLLATE NOCASE",
    "seconds": "seconds",
    "confidence": "confidence",
}
# Quotes within a caption are escaped, so only the key itself matches; damaged JSON is no error.
NUM_EDITED = """(
    SELECT count(*) FROM segments WHERE segments.video = videos.id AND instr(content, '"edited": true')
)"""


@dataclass(frozen=True)
class Listing:
    """By default all videos, the newest first."""

    sort: Sort = "added"
    descending: bool = True
    name: str = ""  # a part of it
    below: float | None = None  # less confidence than this
    edited: bool = False  # with a caption that a person wrote
    captioner: str = ""

    @property
    def order(self) -> str:
        direction = "DESC" if self.descending else "ASC"
        return f"ORDER BY {ORDERS[self.sort]} {direction}, id {direction}"

    @property
    def condition(self) -> tuple[str, tuple[str | float, ...]]:
        """SQL, and the values of its places."""
        parts: list[tuple[str, str | float]] = []
        if self.name:
            parts.append(("instr(lower(name), lower(?))", clean(self.name)))
        if self.below is not None:
            parts.append(("confidence < ?", self.below))
        if self.edited:
            parts.append((f"{NUM_EDITED} >= ?", 1))
        if self.captioner:
            parts.append(("captioner = ?", clean(self.captioner)))
        return " AND ".join(["1", *(sql for sql, _ in parts)]), tuple(value for _, value in parts)
