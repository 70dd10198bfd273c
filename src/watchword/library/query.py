"""Search queries: text as an FTS5 expression, where any text is valid; captions as sentence embeddings.

dog running        both words, in any form (stems); the last one may be a prefix
run* dog           any word may be one
"dog is running"   these words in this order
dog -cat           captions with dog and without cat
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MAX_TERMS = 64  # of a query; FTS5 allows 256 in an expression
TERM = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')
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
    """Terms that must occur, and terms that must not."""

    wanted: tuple[Term, ...]
    unwanted: tuple[Term, ...]

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


def cosines(query: NDArray[np.float32], vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Of a vector (D,) with stored ones."""
    kept = np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)  # (n, D)
    found: NDArray[np.float32] = kept @ query
    return found
