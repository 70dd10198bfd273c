"""From METEOR's two files to the arrays of `tables`: once, in pieces, with numpy."""

import gzip
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from watchword.errors import WatchwordError
from watchword.metrics.meteor.flat import Array
from watchword.metrics.meteor.hashing import LETTER_BASE, WORD_BASE, java_hash, polynomials, powers, word_keys
from watchword.metrics.meteor.stem import base_forms, stem

PIECE_BYTES = 1 << 22
_SPACE, _NEWLINE = 32, 10


def build(jar: Path, paraphrases: Path, folder: Path, progress: Callable[[str, float], None]) -> None:
    """Writes every array into an empty folder."""
    sources, targets, vocabulary = _read_pairs(paraphrases, progress)
    progress("METEOR: sorting the paraphrase table", 0.0)
    _save_phrases(sources, targets, folder)
    progress("METEOR: reading the word lists", 0.0)
    _save_words(jar, vocabulary, folder)


def _read_pairs(path: Path, progress: Callable[[str, float], None]) -> tuple[Array, Array, set[str]]:
    """Phrase numbers of all sources and targets in file order, and the vocabulary."""
    letter_powers = powers(LETTER_BASE, PIECE_BYTES)
    word_powers = powers(WORD_BASE, PIECE_BYTES // 2)
    sources: list[Array] = []
    targets: list[Array] = []
    seen, vocabulary = np.empty(0, np.uint64), set[str]()
    size = max(1, path.stat().st_size)
    with path.open("rb") as file:
        for text in _whole_triples(gzip.GzipFile(fileobj=file)):
            if text.size >= letter_powers[0].size:
                letter_powers = powers(LETTER_BASE, text.size + 1)
                word_powers = powers(WORD_BASE, text.size + 1)
            ends = np.flatnonzero((text == _SPACE) | (text == _NEWLINE))
            begins = np.append(0, ends[:-1] + 1)
            last_of_line = text[ends] == _NEWLINE
            line = np.cumsum(last_of_line) - last_of_line
            kept = (line % 3 > 0) & (ends > begins)  # line triples: probability, source, target
            begins, ends, line = begins[kept], ends[kept], line[kept]
            words = polynomials(text, begins, ends, *letter_powers)
            first = np.flatnonzero(np.diff(line, prepend=-1))
            phrases = polynomials(words, first, np.append(first[1:], words.size), *word_powers)
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
    keys = np.unique(np.concatenate([sources, targets]))
    source = np.searchsorted(keys, sources).astype(np.int32)
    target = np.searchsorted(keys, targets).astype(np.int32)
    np.save(folder / "phrase_keys.npy", keys)
    bits = max(1, keys.size.bit_length() - 1)
    edges = np.arange(1 << bits, dtype=np.uint64) << np.uint64(64 - bits)
    np.save(folder / "phrase_buckets.npy", np.append(np.searchsorted(keys, edges), keys.size).astype(np.int32))

    def starts(of: Array) -> Array:
        return np.append(0, np.cumsum(np.bincount(of, minlength=keys.size))).astype(np.int32)

    by_source, target_starts = np.argsort(source, kind="stable"), starts(source)
    np.save(folder / "target_starts.npy", target_starts)
    np.save(folder / "targets.npy", target[by_source])
    ranks = np.empty(source.size, np.int32)
    ranks[by_source] = np.arange(source.size, dtype=np.int32) - target_starts[source[by_source]]
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
    words = sorted(vocabulary | synsets.keys() | bases.keys())
    (folder / "words.txt").write_text("\n".join(words), "utf-8", newline="\n")
    np.save(folder / "word_keys.npy", word_keys(words))
    np.save(folder / "word_hashes.npy", np.array([java_hash(word) for word in words], np.int32))
    np.save(folder / "word_stems.npy", np.array([java_hash(stem(word)) for word in words], np.int32))
    senses = {}
    for word in words:
        both = {word, *base_forms(word, bases, synsets)}
        senses[word] = sorted({number for form in both for number in synsets.get(form, ())})
    for name, numbers in (("synset", synsets), ("sense", senses)):
        sizes = [len(numbers.get(word, ())) for word in words]
        np.save(folder / f"{name}_starts.npy", np.append(0, np.cumsum(sizes)).astype(np.int32))
        np.save(folder / f"{name}s.npy", np.array([one for word in words for one in numbers.get(word, ())], np.int32))
    prefixes = {parts[0]: "#NUMERIC_ONLY#" in parts for parts in abbreviations if not parts[0].startswith("#")}
    lists = {"irregular": bases, "function": function, "prefixes": prefixes}
    (folder / "lists.json").write_text(json.dumps(lists), "utf-8")
