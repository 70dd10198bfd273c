"""What a library is asked: queries as FTS5 expressions, where any text is valid; lists of videos; sentence embeddings.

dog running        both words, in any form (stems); the last one may be a prefix
run* dog           any word may be one
"dog is running"   these words in this order
dog -cat           captions with dog and without cat
said:hello seen:dog   said in a video that shows a dog; a prefix narrows all words up to the next one
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from watchword.types import Lane

MAX_TERMS = 64  # of a query; FTS5 allows 256 in an expression
TERM = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')
PREFIX = re.compile(r"(seen|said|written|heard):", re.IGNORECASE)
LANES: dict[str, Lane] = {"seen": "captions", "said": "speech", "written": "text", "heard": "sounds"}
# A search for "the dog" should find "a dog": left out, except in quotes and where the query has nothing else.
STOP_WORDS = frozenset("a an the is are was were am be been being".split())


@dataclass(frozen=True)
class Term:
    """A word or a phrase."""

    text: str
    is_phrase: bool = False
    is_prefix: bool = False


@dataclass(frozen=True)
class Query:
    """Terms that must occur together, and terms that must not, in one lane or in any."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...]
    lane: Lane | None = None

    @classmethod
    def read_all(cls, text: str) -> tuple["Query", ...]:
        """A query for each lane that the text names, and one for the words before the first prefix."""
        texts: dict[Lane | None, str] = {}
        lane: Lane | None = None
        for match in TERM.finditer(text):
            minus, _, word = match.groups()
            prefix = PREFIX.match(word or "")
            if prefix:
                lane = LANES[prefix[1].lower()]
            rest = f"{minus}{word[prefix.end() :]}" if prefix else match[0]
            texts[lane] = f"{texts.get(lane, '')}{rest} "
        if lane in texts and not text[-1:].isspace():
            texts[lane] = texts[lane].rstrip()  # its last word may be incomplete
        queries = (replace(cls.read(some), lane=lane) for lane, some in texts.items())
        return tuple(query for query in queries if query.wanted or query.unwanted)

    @classmethod
    def read(cls, text: str) -> "Query":
        terms: dict[bool, list[Term]] = {True: [], False: []}
        for minus, phrase, word in TERM.findall(clean(text))[:MAX_TERMS]:
            if has_words(phrase or word):
                terms[not minus].append(Term(phrase or word.rstrip("*"), bool(phrase), word.endswith("*")))
        wanted = terms[True]
        if wanted and not wanted[-1].is_phrase and not text[-1:].isspace():
            wanted[-1] = Term(wanted[-1].text, is_prefix=True)
        telling = [term for term in wanted if term.is_phrase or term.text.lower() not in STOP_WORDS]
        return cls(tuple(telling or wanted), tuple(terms[False]))

    def expression(self, beginning_with: Callable[[str], Sequence[str]]) -> str:
        """For FTS5's MATCH; nothing where nothing is wanted. `beginning_with`: words of the library."""
        if not self.wanted:
            return ""
        wanted = " AND ".join(_expression(term, beginning_with) for term in self.wanted)
        return f"({wanted}) NOT ({self.exclusion(beginning_with)})" if self.unwanted else wanted

    def exclusion(self, beginning_with: Callable[[str], Sequence[str]]) -> str:
        return " OR ".join(_expression(term, beginning_with) for term in self.unwanted)

    @property
    def text(self) -> str:
        """What is wanted as plain text, for semantic search."""
        return " ".join(term.text for term in self.wanted)


def _expression(term: Term, beginning_with: Callable[[str], Sequence[str]]) -> str:
    """A prefix that is a whole word counts twice: "man" finds "man" before "mango"."""
    whole = f'"{term.text}"'
    if not term.is_prefix:
        return whole
    spelled = [f'"{word}"' for word in beginning_with(folded(term.text))]
    return f"({' OR '.join([whole, whole + ' *', *spelled])})"


# --- queries as SQL --------------------------------------------------------------------------------------------------


Select = tuple[str, list[str]]  # SQL and its values
ROWS = "stems JOIN segments ON segments.id = stems.rowid"


def selects_of(
    queries: Sequence[Query], columns: str, beginning_with: Callable[[str], Sequence[str]], among: str = ""
) -> list[Select]:
    """A SELECT for each query that wants something, the newest first: rows of videos where the other queries match too.

    Columns are of `stems`; `among` is one more condition, whose values come last.
    """

    def videos(expression: str, lane: Lane | None) -> Select:
        where, values = _matching(expression, lane)
        return f"(SELECT segments.video FROM {ROWS} WHERE {where})", values

    wanted = [query for query in queries if query.wanted]
    missing = [videos(query.exclusion(beginning_with), query.lane) for query in queries if not query.wanted]
    selects = []
    for query in wanted:
        others = [videos(one.expression(beginning_with), one.lane) for one in wanted if one is not query]
        where, values = _matching(query.expression(beginning_with), query.lane)
        for kind, some in (("IN", others), ("NOT IN", missing)):
            where += "".join(f" AND segments.video {kind} {select}" for select, _ in some)
            values += [value for _, more in some for value in more]
        tables = ROWS if "segments." in where else "stems"
        where += f" AND {among}" if among else ""
        selects.append((f"SELECT {columns} FROM {tables} WHERE {where} ORDER BY stems.rowid DESC", values))
    return selects


def _matching(expression: str, lane: Lane | None) -> Select:
    return ("stems MATCH ? AND segments.lane = ?", [expression, lane]) if lane else ("stems MATCH ?", [expression])


# --- lists of videos -------------------------------------------------------------------------------------------------


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
    """Which videos a list shows, and in which order. By default all, the newest first."""

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


# --- text ------------------------------------------------------------------------------------------------------------


def clean(text: str) -> str:
    """Text without NUL and lone surrogates, which SQLite does not take."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", " ")


def folded(word: str) -> str:
    """A word as the index spells it: small letters without accents."""
    plain = unicodedata.normalize("NFKD", word.lower())
    return "".join(char for char in plain if not unicodedata.combining(char))


def has_words(text: str) -> bool:
    """Whether FTS5 finds a word in it: a letter or a digit of any script."""
    return any(unicodedata.category(char)[0] in "LN" for char in text)


# --- semantic search: embeddings of length 1, compared by their cosine -----------------------------------------------


# Below this cosine two captions are unrelated; docs/guide/library.md says how it was chosen.
NEAR = 0.25


class Encoder(Protocol):
    """Makes vectors of captions. Vectors of different encoders are never compared."""

    name: str

    def encode(self, captions: Sequence[str]) -> NDArray[np.float32]: ...  # (captions, D), of length 1


@cache
def minilm() -> Encoder:
    """Loaded once; an error says how to install it."""
    from watchword.backbones.minilm import load_encoder

    return load_encoder()


def has_minilm() -> bool:
    from watchword.backbones.minilm import is_present

    return is_present()


def as_bytes(vector: NDArray[np.float32]) -> bytes:
    """Half precision, little-endian: a library may move to any machine."""
    return vector.astype("<f2").tobytes()


def read_vectors(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """(n, D) of vectors of one length."""
    return np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)
