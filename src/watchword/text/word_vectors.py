"""Word vectors that somebody else learned, for the words of a vocabulary: a file of GloVe or word2vec, read once.

| file | what stands in it |
|---|---|
| GloVe's text | a line a word: the word, then its numbers |
| word2vec's text | the same after a line of two numbers: how many words, how many numbers each |
| word2vec's binary (`.bin`, as GoogleNews-vectors-negative300.bin) | that line, then word, space, float32 numbers |

Any may be gzipped. Only vectors of words that are asked for are kept: a file of gigabytes needs no memory.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError
from watchword.text.vocabulary import SPECIALS, Vocabulary

LONGEST_WORD = 2000  # bytes; more without a space is no word vector


def read_word_vectors(path: Path, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The numbers of the words that the file knows, (M,), and their vectors, (M, E).

    A word stands for itself, else for its spelling with a capital: captions are lower case, word2vec knows `Paris`.
    """
    exact: dict[str, NDArray[np.float32]] = {}
    capital: dict[str, NDArray[np.float32]] = {}
    try:
        with _open(path) as file:
            for word, vector in _vectors(file, path):
                if word in vocabulary and word not in SPECIALS:
                    exact.setdefault(word, vector.copy())
                elif word.lower() in vocabulary and word.lower() not in SPECIALS:
                    capital.setdefault(word.lower(), vector.copy())
    except (OSError, EOFError, zlib.error) as error:
        raise WatchwordError(f"cannot read word vectors {path}: {getattr(error, 'strerror', None) or error}") from error
    found = capital | exact
    if not found:
        raise WatchwordError(f"{path} has none of the vocabulary's {len(vocabulary) - len(SPECIALS):,} words")
    return np.array(vocabulary.encode(found), np.int64), np.stack(list(found.values()))


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")  # type: ignore[return-value]


def _vectors(file: Any, path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    first = file.readline()
    header = first.split()
    counted = len(header) == 2 and all(part.isdigit() for part in header)
    if counted and path.name.removesuffix(".gz").endswith(".bin"):
        yield from _binary(file, path, int(header[0]), int(header[1]))
        return
    size = int(header[1]) if counted else len(first.rstrip().split(b" ")) - 1
    for number, line in enumerate(file if counted else _with_first(first, file), 2 if counted else 1):
        # from the right: a few of GloVe's words hold spaces
        parts = line.rstrip().rsplit(b" ", size)
        try:
            if len(parts) != size + 1 or size < 1:
                raise ValueError
            yield parts[0].decode("utf-8", "replace"), np.array(parts[1:], np.float32)
        except ValueError as error:
            raise WatchwordError(
                f"{path} line {number} is {line[:40]!r}, expected a word and {max(size, 1)} numbers: "
                "give a file of GloVe or word2vec (text, or binary with a name that ends in .bin)"
            ) from error


def _with_first(first: bytes, file: Any) -> Iterator[bytes]:
    yield first
    yield from file


def _binary(file: Any, path: Path, words: int, size: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for number in range(words):
        word = bytearray()
        while (letter := file.read(1)) != b" ":
            if not letter or len(word) > LONGEST_WORD:
                raise WatchwordError(f"{path} is damaged: word {number + 1:,} of {words:,} does not end")
            word += letter
        data = file.read(4 * size)
        if len(data) < 4 * size:
            raise WatchwordError(f"{path} is damaged: it ends within word {number + 1:,} of {words:,}")
        yield word.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(data, "<f4")
