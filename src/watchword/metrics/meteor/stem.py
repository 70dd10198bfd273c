"""Stems as METEOR 1.5 has them: Snowball English before version 3.0."""

from snowballstemmer.english_stemmer import EnglishStemmer  # directly: `snowballstemmer.stemmer` may hand over to another

_STEMMER = EnglishStemmer()


def stem(word: str) -> str:
    stemmed: str = _STEMMER.stemWord(word)
    return stemmed


def java_hash(word: str) -> int:
    """Java's `String.hashCode`: METEOR takes words for equal when this is, so "tv" is "v8"."""
    value = 0
    units = word.encode("utf-16-le", "surrogatepass")
    for low, high in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + low + 256 * high) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
