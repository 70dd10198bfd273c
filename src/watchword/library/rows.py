"""What a library returns."""

from dataclasses import dataclass
from pathlib import Path


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


@dataclass(frozen=True)
class Hit:
    """A segment that a search has found."""

    video: int
    name: str
    start: float  # seconds
    end: float
    caption: str
    confidence: float
    pieces: tuple[tuple[str, bool], ...]  # the caption in pieces, and whether each matches the query
    rank: float  # higher is better: BM25, or the cosine of sentence embeddings
