"""Files of word vectors: the words that a vocabulary asks for, from GloVe or word2vec."""

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

from watchword.errors import WatchwordError
from watchword.text.vocabulary import Vocabulary, read_word_vectors

WORDS = Vocabulary(["cat", "dog", "paris", "bird"])
VECTORS = {"dog": [1.0, 2.0, 3.0], "Paris": [4.0, 5.0, 6.0], "of a kind": [7.0, 8.0, 9.0], "cat": [0.0, 0.5, -1.0]}
LINES = "".join(f"{word} {' '.join(map(str, numbers))}\n" for word, numbers in VECTORS.items())


def binary() -> bytes:
    rows = (
        word.encode() + b" " + struct.pack("<3f", *numbers) + b"\n"
        for word, numbers in VECTORS.items()
        if " " not in word
    )
    return b"3 3\n" + b"".join(rows)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("glove.txt", LINES.encode()),
        ("word2vec.txt", b"4 3\n" + LINES.encode()),
        ("glove.txt.gz", gzip.compress(LINES.encode(), mtime=0)),
        ("news.bin", binary()),
        ("news.bin.gz", gzip.compress(binary(), mtime=0)),
    ],
)
def test_known_words_get_their_vectors_whatever_the_format(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    rows, vectors = read_word_vectors(path, WORDS)
    found = {WORDS.words[row]: vector.tolist() for row, vector in zip(rows, vectors, strict=True)}
    assert found == {"dog": VECTORS["dog"], "paris": VECTORS["Paris"], "cat": VECTORS["cat"]}
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"dog 1 2 3\ncat 1 2\n", "line 2"),
        ("a.txt", b"dog 1 2 3\ncat 1 x 3\n", "line 2"),
        ("a.txt", b"", "expected a word"),
        ("a.txt", b"horse 1 2 3\n", "none of the vocabulary's 4 words"),
        ("a.bin", b"2 3\ndog " + struct.pack("<3f", 1, 2, 3) + b"cat 12", "ends within word 2"),
        ("a.txt.gz", gzip.compress(LINES.encode(), mtime=0)[:-20], "cannot read"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WatchwordError, match=message):
        read_word_vectors(tmp_path / name, WORDS)
    with pytest.raises(WatchwordError, match="cannot read word vectors"):
        read_word_vectors(tmp_path / "missing.txt", WORDS)
