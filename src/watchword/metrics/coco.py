"""BLEU-1 to 4, ROUGE-L and CIDEr-D as coco-caption computes them.

BLEU: a row of counts per caption, and one formula for a row or for their sum. A row is: words of the caption, words of
the reference whose length is closest (the shorter of two), then for orders one to four the n-grams that a reference has
too (clipped to the most in one reference), then all n-grams of the caption.

ROUGE-L: the best precision and the best recall, maybe of different references. The longest common subsequence with
every reference of a video comes from one walk over the caption: all references lie side by side in one big integer, a
bit per word and a guard bit behind each reference, and one addition per word of the caption advances all of them (the
bit-parallel algorithm of Hyyrö, 2004).

CIDEr-D: clipped tf-idf cosine of one- to four-grams, a Gaussian on length, times ten.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.metrics.ngrams import (
    ORDERS,
    HypothesisNgrams,
    Integers,
    NgramTable,
    ReferenceNgrams,
    Words,
    index_references,
)

Floats = NDArray[np.floating[Any]]

TINY, SMALL = 1e-15, 1e-9  # keep a caption without n-grams of an order at zero instead of 0 / 0


def bleu_statistics(references: ReferenceNgrams, hypotheses: HypothesisNgrams) -> Floats:
    """(captions, 10)."""
    num_captions = len(hypotheses.lengths)
    rows = np.zeros((num_captions, 2 + 2 * ORDERS))
    rows[:, 0] = hypotheses.lengths
    rows[:, 1] = _closest_lengths(references, hypotheses)
    for order, (counts, pairs, postings) in enumerate(
        zip(hypotheses.orders, hypotheses.pairs, references.postings, strict=True)
    ):
        known = pairs >= 0
        clipped = np.minimum(counts.count[known], postings.most[pairs[known]])
        rows[:, 2 + order] = np.bincount(counts.caption[known], clipped, minlength=num_captions)
        rows[:, 2 + ORDERS + order] = np.maximum(hypotheses.lengths - order, 0)
    return rows


def bleu(statistics: Floats) -> Floats:
    """BLEU-1 to 4, (..., 4), of rows (..., 10): of a caption, or of a corpus when the rows are summed."""
    said, closest = statistics[..., 0], statistics[..., 1]
    matched, all_said = statistics[..., 2 : 2 + ORDERS], statistics[..., 2 + ORDERS :]
    precisions = np.cumprod((matched + TINY) / (all_said + SMALL), axis=-1)
    ratio = (said + TINY) / (closest + SMALL)
    brevity = np.where(ratio < 1, np.exp(np.minimum(1 - 1 / ratio, 0)), 1.0)
    scores: Floats = precisions ** (1 / np.arange(1, ORDERS + 1)) * brevity[..., None]
    return scores


def _closest_lengths(references: ReferenceNgrams, hypotheses: HypothesisNgrams) -> Floats:
    first = references.first_row[hypotheses.video]
    num_rows = references.first_row[hypotheses.video + 1] - first
    starts = np.cumsum(num_rows) - num_rows
    row = np.arange(num_rows.sum()) - np.repeat(starts - first, num_rows)
    length = references.lengths[row]
    distance = np.abs(length - np.repeat(hypotheses.lengths, num_rows))
    longest = int(references.lengths.max(initial=0)) + 1
    closest: Floats = np.minimum.reduceat(distance * longest + length, starts) % longest  # nearest, then shortest
    return closest


BETA = 1.2


AT_ONCE = 64  # references in one integer: a mask has a bit for every word of these, so more would grow with the square


class RougeReferences:
    """The references of one video. A caption without a word is one empty word, as `"".split(" ")` has it."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        different = list(dict.fromkeys(tuple(reference) or ("",) for reference in references))
        self.parts = [_SideBySide(different[start : start + AT_ONCE]) for start in range(0, len(different), AT_ONCE)]

    def score(self, caption: Sequence[str]) -> float:
        said = caption or ("",)
        found = [part.common(said) for part in self.parts]
        longest, recall = max(longest for longest, _ in found), max(recall for _, recall in found)
        if not longest:
            return 0.0
        precision = longest / len(said)
        return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


class _SideBySide:
    """Some references in one integer."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        self.masks: dict[str, int] = {}  # word -> the places where a reference has it
        self.fields: list[tuple[int, int, int]] = []  # of every reference: shift, ones, number of words
        shift = 0
        for reference in references:
            for place, word in enumerate(reference, shift):
                self.masks[word] = self.masks.get(word, 0) | 1 << place
            self.fields.append((shift, (1 << len(reference)) - 1, len(reference)))
            shift += len(reference) + 1
        self.open = sum(ones << shift for shift, ones, _ in self.fields)

    def common(self, said: Sequence[str]) -> tuple[int, float]:
        """The longest common subsequence with any reference, and the highest recall."""
        masks, full = self.masks, self.open
        state = full  # a zero bit is a step of the common subsequence
        for word in said:
            mask = masks.get(word)
            if mask is not None:
                here = state & mask
                state = ((state + here) | (state - here)) & full
        steps = full ^ state
        longest, recall = 0, 0.0
        if steps:
            for shift, ones, length in self.fields:
                common = (steps >> shift & ones).bit_count()
                if common:
                    longest = max(longest, common)
                    recall = max(recall, common / length)
        return longest, recall


SIGMA = 6.0
SCALE = 10.0


@dataclass(frozen=True)
class DocumentFrequencies:
    """Videos whose references have an n-gram: counted in the references themselves, or in a training set."""

    table: NgramTable
    counts: tuple[Integers, ...]  # for each order (size of the table,)
    num_videos: int
    source: str  # for the signature: where they come from

    def weights(self, numbers: Sequence[Integers]) -> list[Floats]:
        """Inverse document frequencies of n-grams by their number here; an unknown one (-1) counts as one."""
        everything = np.log(float(self.num_videos))
        weights: list[Floats] = []
        for number, counts in zip(numbers, self.counts, strict=True):
            known = np.append(counts, 0)[number]  # -1 reads the last, the zero
            weights.append(everything - np.log(np.maximum(known, 1)))
        return weights


def frequencies_of(references: ReferenceNgrams, source: str) -> DocumentFrequencies:
    return DocumentFrequencies(
        references.table, tuple(references.document_frequencies()), references.num_videos, source
    )


def document_frequencies(captions: Mapping[str, Sequence[Words]], source: str = "train") -> DocumentFrequencies:
    """Frequencies to freeze, from the tokenised captions of every training video."""
    return frequencies_of(index_references(list(captions.values())), f"{source}, {len(captions)} videos")


@dataclass(frozen=True)
class CiderReferences:
    """References weighted once; a hypothesis then meets only the n-grams that it shares with them."""

    ngrams: ReferenceNgrams
    frequencies: DocumentFrequencies
    norms: Floats  # (orders, rows)

    def scores(self, hypotheses: HypothesisNgrams) -> Floats:
        """CIDEr-D of every caption against the references of its video, (captions,)."""
        first = self.ngrams.first_row[hypotheses.video]  # (captions,)
        num_rows = self.ngrams.first_row[hypotheses.video + 1] - first
        starts = np.cumsum(num_rows) - num_rows
        cell_row = np.arange(num_rows.sum()) - np.repeat(starts - first, num_rows)  # a cell: caption x its reference
        cell_caption = np.repeat(np.arange(len(num_rows)), num_rows)
        # coco-caption measures length in bigrams
        reference_bigrams = np.maximum(self.ngrams.lengths[cell_row] - 1, 0)
        bigrams = np.maximum(hypotheses.lengths - 1, 0)[cell_caption]
        gauss = np.exp(-((bigrams - reference_bigrams) ** 2) / (2 * SIGMA**2))
        total = np.zeros(len(cell_row))
        numbers = self.frequencies.table.numbers(hypotheses.orders)
        idf = self.frequencies.weights(numbers)
        for order, (counts, pairs, postings) in enumerate(
            zip(hypotheses.orders, hypotheses.pairs, self.ngrams.postings, strict=True)
        ):
            weight = counts.count * idf[order]  # (U,)
            norm = np.sqrt(np.bincount(counts.caption, weight**2, minlength=len(num_rows)))
            known = np.flatnonzero(pairs >= 0)
            begin = postings.starts[pairs[known]]
            size = postings.starts[pairs[known] + 1] - begin
            shared = np.repeat(known, size)  # the n-gram of the caption
            place = np.arange(size.sum()) + np.repeat(begin - (np.cumsum(size) - size), size)  # in a reference
            caption = counts.caption[shared]
            cell = postings.row[place] + (starts - first)[caption]
            reference_weight = postings.count[place] * idf[order][shared]
            product = np.minimum(weight[shared], reference_weight) * reference_weight
            value = np.bincount(cell, product, minlength=len(cell_row)).astype(np.float64)  # of nothing it counts ints
            scale = norm[cell_caption] * self.norms[order][cell_row]
            total += np.divide(value, scale, out=value, where=scale != 0)
        similarity = np.bincount(cell_caption, total * gauss, minlength=len(num_rows))
        scores: Floats = SCALE * similarity / (len(hypotheses.orders) * num_rows)
        return scores


def weigh(ngrams: ReferenceNgrams, frequencies: DocumentFrequencies) -> CiderReferences:
    """tf-idf of every reference."""
    numbers = frequencies.table.numbers(ngrams.table.contents())
    idf = frequencies.weights(numbers)
    norms = [
        np.sqrt(np.bincount(one.row, (one.count * own[one.ngrams(size)]) ** 2, minlength=len(ngrams.lengths)))
        for one, own, size in zip(ngrams.postings, idf, ngrams.table.sizes(), strict=True)
    ]
    return CiderReferences(ngrams, frequencies, np.stack(norms))
