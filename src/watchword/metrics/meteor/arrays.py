"""Rows of different lengths as flat arrays, and 64-bit numbers for words and phrases.

Words and phrases of the table become numbers by polynomials modulo 2^64 with odd bases. An odd base has an inverse, so
the number of any part of a text is a difference of two running sums: no loop over words is needed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def spread(starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Flat places of the polynomials [start, start + length), and of which range each is."""
    owner = np.repeat(np.arange(lengths.size), lengths)
    first = np.cumsum(lengths) - lengths
    return np.arange(owner.size) + (starts - first)[owner], owner


LETTER_BASE = 0x9E3779B97F4A7C15
WORD_BASE = 0xD1342543DE82EF95


def java_hash(word: str) -> int:
    """Java's `String.hashCode`: METEOR takes words for equal when this is, so "tv" is "v8"."""
    value = 0
    for unit in np.frombuffer(word.encode("utf-16-le", "surrogatepass"), "<u2").tolist():
        value = (31 * value + unit) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def word_keys(words: Sequence[str]) -> Array:
    """The number of each word, as the pieces of the table have them."""
    text = np.frombuffer(("\n".join(words) + "\n").encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.flatnonzero(text == ord("\n"))
    return polynomials(text, np.append(0, ends[:-1] + 1), ends, *powers(LETTER_BASE, text.size + 1))


def _mix(values: Array) -> Array:
    """splitmix64's finisher: similar inputs get unrelated outputs."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = values ^ (values >> np.uint64(31))
    return mixed


def powers(base: int, count: int) -> tuple[Array, Array]:
    """base^0.. and base^-0.. modulo 2^64."""

    def run(factor: int) -> Array:
        factors = np.full(count, factor, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return run(base), run(pow(base, -1, 1 << 64))


def polynomials(values: Array, begins: Array, ends: Array, powers: Array, inverse: Array) -> Array:
    """Mixed polynomial of each range [begin, end) of values."""
    return parts(running_sums(values, powers), begins, ends, inverse)


def running_sums(values: Array, powers: Array) -> Array:
    """Of the terms of the polynomial of all values: (values + 1,)."""
    sums = np.empty(values.size + 1, np.uint64)
    sums[0] = 0
    terms = values.astype(np.uint64)
    terms += np.uint64(1)
    terms *= powers[: values.size]
    np.cumsum(terms, out=sums[1:])
    return sums


def parts(sums: Array, begins: Array, ends: Array, inverse: Array) -> Array:
    """The mixed polynomial of each range [begin, end)."""
    return _mix((sums[ends] - sums[begins]) * inverse[begins])


def changes(values: Array) -> Array:
    """Where a value differs from the one before it."""
    new = np.ones(values.size, np.bool_)
    np.not_equal(values[1:], values[:-1], out=new[1:])
    return new


def ngram_keys(keys: Array, length: int) -> Array:
    """The phrase number of every run of `length` words in a row of word numbers: (words - length + 1,)."""
    total = np.zeros(keys.size - length + 1, np.uint64)
    for place in range(length):
        factor = np.uint64(pow(WORD_BASE, place, 1 << 64))
        total += (keys[place : keys.size - length + 1 + place] + np.uint64(1)) * factor
    return _mix(total)
