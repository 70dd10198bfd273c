"""N-grams of many captions at once: what BLEU and CIDEr-D count.

An n-gram is named by a number: the number of its prefix and its last word. So n-grams of every length are exact int64
keys, never hashes, and one sort counts those of a whole corpus.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ORDERS = 4  # n-grams of one to four words

Integers = NDArray[np.integer[Any]]
Words = Sequence[str]


@dataclass(frozen=True)
class Counts:
    """The different n-grams of one order in every caption, sorted by caption. U of them."""

    caption: Integers  # (U,)
    prefix: Integers  # (U,) which of the order below it begins with
    word: Integers  # (U,) its last word
    count: Integers  # (U,) how often the caption has it


def count_ngrams(words: Integers, lengths: Integers, num_words: int) -> Iterator[Counts]:
    """Counts of orders one to four. `words` are those of all captions, one after the other, each below `num_words`."""
    caption = np.repeat(np.arange(len(lengths)), lengths)  # (L,) of every position
    left = np.repeat(np.cumsum(lengths), lengths) - np.arange(len(words))  # (L,) words from here to the end
    start = np.arange(len(words))
    name = caption  # the empty prefix of a caption is the caption
    for order in range(1, ORDERS + 1):
        inside = left[start] >= order
        start, name = start[inside], name[inside]
        last = words[start + order - 1]
        _, first, name_here, count = np.unique(
            name * num_words + last, return_index=True, return_inverse=True, return_counts=True
        )
        yield Counts(caption[start[first]], name[first], last[first], count)
        name = name_here.reshape(-1)


@dataclass(frozen=True)
class NgramTable:
    """Numbers for all n-grams of a set of captions."""

    words: Mapping[str, int]  # every word -> its number
    keys: tuple[Integers, ...]  # for each order the sorted prefix * len(words) + word; the place is the number

    def sizes(self) -> list[int]:
        return [len(keys) for keys in self.keys]

    def contents(self) -> list[Counts]:
        """Its own n-grams, as if one caption had each of them once."""
        size = max(len(self.words), 1)
        return [Counts(np.zeros_like(keys), keys // size, keys % size, np.ones_like(keys)) for keys in self.keys]

    def numbers(self, orders: Sequence[Counts]) -> list[Integers]:
        """The number of every n-gram that was counted, -1 for one that is not in the table."""
        found: list[Integers] = []
        known: Integers = np.zeros(1, np.int64)
        size = len(self.words)
        for order, (counts, keys) in enumerate(zip(orders, self.keys, strict=True)):
            prefix = known[counts.prefix] if order else np.zeros(len(counts.word), np.int64)
            key = np.where((prefix >= 0) & (counts.word < size), prefix * size + counts.word, -1)
            known = find(keys, key)
            found.append(known)
        return found


def number_words(captions: Iterable[Words], words: dict[str, int]) -> tuple[Integers, Integers]:
    """Words as numbers and the length of every caption; a word that is new gets the next number in `words`."""
    flat: list[int] = []
    lengths: list[int] = []
    for caption in captions:
        flat.extend([words.setdefault(word, len(words)) for word in caption])
        lengths.append(len(caption))
    return np.array(flat, np.int64), np.array(lengths, np.int64)


class Overlay(dict[str, int]):
    """The words of a table plus those that only a hypothesis has: they get numbers beyond the table's."""

    def __init__(self, known: Mapping[str, int]) -> None:
        super().__init__()
        self.known = known

    def __missing__(self, word: str) -> int:
        number = self.known.get(word)
        self[word] = number = len(self.known) + len(self) if number is None else number
        return number


@dataclass(frozen=True)
class Postings:
    """Where the references of every video have the n-grams of one order. P pairs (video, n-gram), K occurrences.

    All but `pairs` have the smallest type that holds them: a caption of ten words has 34 occurrences.
    """

    pairs: Integers  # (P,) video * size of the table + n-gram, sorted
    starts: Integers  # (P + 1,) the occurrences of a pair are starts[p]:starts[p + 1]
    most: Integers  # (P,) the highest count in one reference
    row: Integers  # (K,) which reference
    count: Integers  # (K,)

    @classmethod
    def of(cls, pairs: Integers, counts: Counts) -> "Postings":
        """From the pair of every n-gram that was counted."""
        order = np.argsort(pairs, kind="stable")  # rows stay in order within a pair
        pairs, count = pairs[order], counts.count[order]
        starts = np.flatnonzero(np.diff(pairs, prepend=-1))
        most = np.maximum.reduceat(count, starts) if len(starts) else count
        ends = narrow(np.append(starts, len(pairs)))
        return cls(pairs[starts], ends, narrow(most), narrow(counts.caption[order]), narrow(count))

    def ngrams(self, size: int) -> Integers:
        """The n-gram of every occurrence (K,), of a table of this size."""
        return np.repeat(self.pairs % max(size, 1), np.diff(self.starts))


def narrow(values: Integers) -> Integers:
    """The same values, none negative, in the smallest signed type that holds them."""
    most = int(values.max(initial=0))
    kinds = (np.int8, np.int16, np.int32, np.int64)
    found: Integers = values.astype(next(kind for kind in kinds if most <= np.iinfo(kind).max))
    return found


@dataclass(frozen=True)
class ReferenceNgrams:
    """All n-grams of all references; rows are references, those of a video stand together."""

    table: NgramTable
    lengths: Integers  # (rows,) words in a reference
    first_row: Integers  # (videos + 1,) references of video v are first_row[v]:first_row[v + 1]
    postings: tuple[Postings, ...]

    @property
    def num_videos(self) -> int:
        return len(self.first_row) - 1

    def document_frequencies(self) -> list[Integers]:
        """For each order, how many videos have an n-gram: (size of the table,)."""
        sizes = self.table.sizes()
        return [
            np.bincount(postings.pairs % max(size, 1), minlength=size)
            for postings, size in zip(self.postings, sizes, strict=True)
        ]


def index_references(references: Sequence[Sequence[Words]], known: Mapping[str, int] | None = None) -> ReferenceNgrams:
    """From the references of every video, split into words. Words of `known` keep the number that they have there."""
    words: dict[str, int] = dict(known or {})
    flat, lengths = number_words((caption for captions in references for caption in captions), words)
    first_row = np.concatenate([[0], np.cumsum([len(captions) for captions in references])]).astype(np.int64)
    return index_numbers(flat, lengths, first_row, words)


def index_numbers(flat: Integers, lengths: Integers, first_row: Integers, words: Mapping[str, int]) -> ReferenceNgrams:
    """From the words of all references, as numbers. One order after the other, so that few counts are held at once."""
    video = np.repeat(np.arange(len(first_row) - 1), np.diff(first_row))  # (rows,)
    keys: list[Integers] = []
    postings: list[Postings] = []
    number: Integers = np.zeros(0, np.int64)
    for order, counts in enumerate(count_ngrams(flat, lengths, max(len(words), 1))):
        prefix = number[counts.prefix] if order else np.zeros(len(counts.word), np.int64)
        unique, inverse = np.unique(prefix * len(words) + counts.word, return_inverse=True)
        number = inverse.reshape(-1)
        keys.append(unique)
        postings.append(Postings.of(video[counts.caption] * len(unique) + number, counts))
    return ReferenceNgrams(NgramTable(words, tuple(keys)), lengths, first_row, tuple(postings))


@dataclass(frozen=True)
class HypothesisNgrams:
    """N-grams of captions that are to be scored, and where the references of their videos have them."""

    video: Integers  # (captions,)
    lengths: Integers  # (captions,)
    orders: tuple[Counts, ...]
    pairs: tuple[Integers, ...]  # for each order (U,): which pair of the postings, -1 for none


def look_up(references: ReferenceNgrams, video: Integers, captions: Sequence[Words]) -> HypothesisNgrams:
    """Captions, split into words, beside the references of their videos."""
    words = Overlay(references.table.words)
    flat = np.array([words[word] for caption in captions for word in caption], np.int64)
    lengths = np.array([len(caption) for caption in captions], np.int64)
    orders = list(count_ngrams(flat, lengths, len(words.known) + len(words) + 1))
    pairs = []
    numbers = references.table.numbers(orders)
    for counts, number, postings, size in zip(
        orders, numbers, references.postings, references.table.sizes(), strict=True
    ):
        key = np.where(number >= 0, video[counts.caption] * size + number, -1)
        pairs.append(find(postings.pairs, key))
    return HypothesisNgrams(video, lengths, tuple(orders), tuple(pairs))


def find(keys: Integers, wanted: Integers) -> Integers:
    """The place of each wanted number in sorted keys, -1 where it is not."""
    if not len(keys):
        return np.full(len(wanted), -1)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)
