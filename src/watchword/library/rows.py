"""What a library answers with."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FilmRow:
    """A film on the shelf."""

    id: int
    name: str                 # for people: any terminal or page can show it, whatever bytes the file's name has
    seconds: float
    sentence: str             # the surest
    confidence: float
    num_shots: int
    added: float              # seconds since 1970
    captioner: str
    source: Path | None       # where the film lay when it was added


@dataclass(frozen=True)
class Hit:
    """A moment of a film that a search has found."""

    film: int
    name: str
    start: float              # seconds: where to jump to
    end: float
    sentence: str
    confidence: float
    pieces: tuple[tuple[str, bool], ...]  # the sentence in pieces, and whether each was searched for
    rank: float               # more is better: bm25 of the words, or the cosine of the meanings
