"""From METEOR's two files to the arrays of `tables`: once, in pieces, with numpy.

Words and phrases become 64-bit numbers by polynomials modulo 2^64 with odd bases. An odd base has an inverse, so the
hash of any stretch of text is a difference of two running sums: no loop over words is needed.
"""

import gzip
import json
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from watchword.errors import WatchwordError
from watchword.metrics.meteor.stem import java_hash, stem

Array = npt.NDArray[Any]

PIECE_BYTES = 1 << 22
LETTER_BASE = 0x9E3779B97F4A7C15
WORD_BASE = 0xD1342543DE82EF95
_SPACE, _NEWLINE = 32, 10


def build(jar: Path, paraphrases: Path, folder: Path, progress: Callable[[str, float], None]) -> None:
    """Writes every array into an empty folder."""
    sources, targets, vocabulary = _read_pairs(paraphrases, progress)
    progress("METEOR: sorting the paraphrase table", 0.0)
    _save_phrases(sources, targets, folder)
    progress("METEOR: reading the word lists", 0.0)
    _save_words(jar, vocabulary, folder)


def word_keys(words: Sequence[str]) -> Array:
    """The number of each word, as the pieces of the table have them."""
    text = np.frombuffer(("\n".join(words) + "\n").encode("utf-8", "surrogatepass"), np.uint8)
    ends = np.flatnonzero(text == _NEWLINE)
    return _stretches(text, np.append(0, ends[:-1] + 1), ends, *_powers(LETTER_BASE, text.size + 1))


def _mix(values: Array) -> Array:
    """splitmix64's finisher: neighbours become strangers."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Array = values ^ (values >> np.uint64(31))
    return mixed


def _powers(base: int, count: int) -> tuple[Array, Array]:
    """base^0.. and base^-0.. modulo 2^64."""
    def run(factor: int) -> Array:
        factors = np.full(count, factor, np.uint64)
        factors[0] = 1
        return np.cumprod(factors, dtype=np.uint64)

    return run(base), run(pow(base, -1, 1 << 64))


def _stretches(values: Array, begins: Array, ends: Array, powers: Array, inverse: Array) -> Array:
    """Mixed polynomial of each stretch [begin, end) of values."""
    sums = np.empty(values.size + 1, np.uint64)
    sums[0] = 0
    np.cumsum((values.astype(np.uint64) + np.uint64(1)) * powers[: values.size], out=sums[1:])
    return _mix((sums[ends] - sums[begins]) * inverse[begins])


def ngram_keys(keys: Array, length: int) -> Array:
    """The phrase number of every run of `length` words in a row of word numbers: (words - length + 1,)."""
    total = np.zeros(keys.size - length + 1, np.uint64)
    for place in range(length):
        factor = np.uint64(pow(WORD_BASE, place, 1 << 64))
        total += (keys[place : keys.size - length + 1 + place] + np.uint64(1)) * factor
    return _mix(total)


def _read_pairs(path: Path, progress: Callable[[str, float], None]) -> tuple[Array, Array, set[str]]:
    """Phrase numbers of all sources and targets in file order, and the vocabulary."""
    letter_powers = _powers(LETTER_BASE, PIECE_BYTES)
    word_powers = _powers(WORD_BASE, PIECE_BYTES // 2)
    sources: list[Array] = []
    targets: list[Array] = []
    seen, vocabulary = np.empty(0, np.uint64), set[str]()
    size = max(1, path.stat().st_size)
    with path.open("rb") as file:
        for text in _whole_triples(gzip.GzipFile(fileobj=file)):
            if text.size >= letter_powers[0].size:
                letter_powers = _powers(LETTER_BASE, text.size + 1)
                word_powers = _powers(WORD_BASE, text.size + 1)
            ends = np.flatnonzero((text == _SPACE) | (text == _NEWLINE))
            begins = np.append(0, ends[:-1] + 1)
            last_of_line = text[ends] == _NEWLINE
            line = np.cumsum(last_of_line) - last_of_line
            kept = (line % 3 > 0) & (ends > begins)  # line triples: probability, source, target
            begins, ends, line = begins[kept], ends[kept], line[kept]
            words = _stretches(text, begins, ends, *letter_powers)
            first = np.flatnonzero(np.diff(line, prepend=-1))
            phrases = _stretches(words, first, np.append(first[1:], words.size), *word_powers)
            if phrases.size % 2:
                raise WatchwordError(f"{path} is not a METEOR paraphrase table: a phrase is empty")
            sources.append(phrases[0::2])
            targets.append(phrases[1::2])
            distinct, example = np.unique(words, return_index=True)
            new = ~np.isin(distinct, seen, assume_unique=True)
            seen = np.concatenate([seen, distinct[new]])
            vocabulary.update(
                text[begins[at] : ends[at]].tobytes().decode("utf-8", "replace") for at in example[new].tolist()
            )
            progress("METEOR: reading the paraphrase table, once", file.tell() / size)
    if len(vocabulary) != seen.size:
        raise WatchwordError(f"cannot index {path}: two words have one number")  # has not happened
    empty = [np.empty(0, np.uint64)]
    return np.concatenate(sources or empty), np.concatenate(targets or empty), vocabulary


def _whole_triples(file: gzip.GzipFile) -> Iterator[Array]:
    """Pieces of the text that end where a line triple ends."""
    rest = b""
    while piece := file.read(PIECE_BYTES // 2):
        text = np.frombuffer(rest + piece, np.uint8)
        newlines = np.flatnonzero(text == _NEWLINE)
        whole = newlines.size // 3 * 3
        cut = int(newlines[whole - 1]) + 1 if whole else 0
        rest = text[cut:].tobytes()
        if cut:
            yield text[:cut]
    if rest.strip():
        raise WatchwordError("the METEOR paraphrase table ends in the middle of an entry")


def _save_phrases(sources: Array, targets: Array, folder: Path) -> None:
    count = sources.size
    keys, ids = np.unique(np.concatenate([sources, targets]), return_inverse=True)
    source, target = ids[:count].astype(np.int32), ids[count:].astype(np.int32)
    np.save(folder / "phrase_keys.npy", keys)

    def starts(of: Array) -> Array:
        return np.append(0, np.cumsum(np.bincount(of, minlength=keys.size))).astype(np.int32)

    by_source, target_starts = np.argsort(source, kind="stable"), starts(source)
    np.save(folder / "target_starts.npy", target_starts)
    np.save(folder / "targets.npy", target[by_source])
    ranks = np.empty(count, np.int32)
    ranks[by_source] = np.arange(count, dtype=np.int32) - target_starts[source[by_source]]
    by_target = np.argsort(target, kind="stable")
    np.save(folder / "source_starts.npy", starts(target))
    np.save(folder / "sources.npy", source[by_target])
    np.save(folder / "source_ranks.npy", ranks[by_target])


def _save_words(jar: Path, vocabulary: set[str], folder: Path) -> None:
    with zipfile.ZipFile(jar) as archive:
        def lines(name: str) -> list[str]:
            return archive.read(name).decode("utf-8").split("\n")

        dictionary = lines("synonym/english.synsets")
        irregular = lines("synonym/english.exceptions")
        function = [word for word in lines("function/english.words") if word]
        abbreviations = [line.split() for line in lines("nonbreaking/english.prefixes") if line.strip()]
    synsets = {
        word: [int(number) for number in numbers.split()]
        for word, numbers in zip(dictionary[0::2], dictionary[1::2], strict=False)
        if "_" not in word  # several words: no token is equal to it
    }
    bases: dict[str, list[str]] = {}
    for base, forms in zip(irregular[0::2], irregular[1::2], strict=False):
        for form in forms.split():
            bases.setdefault(form, []).append(base)
    words = sorted(vocabulary | synsets.keys())
    sizes = [len(synsets.get(word, ())) for word in words]
    (folder / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
    np.save(folder / "word_keys.npy", word_keys(words))
    np.save(folder / "word_stems.npy", np.array([java_hash(stem(word)) for word in words], np.int32))
    np.save(folder / "synset_starts.npy", np.append(0, np.cumsum(sizes)).astype(np.int32))
    np.save(folder / "synsets.npy", np.array([number for word in words for number in synsets.get(word, ())], np.int32))
    prefixes = {parts[0]: "#NUMERIC_ONLY#" in parts for parts in abbreviations if not parts[0].startswith("#")}
    lists = {"bases": bases, "function": function, "prefixes": prefixes}
    (folder / "lists.json").write_text(json.dumps(lists), "utf-8")
