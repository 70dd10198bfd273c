"""CIDEr-D as coco-caption computes it: clipped tf-idf cosine of one- to four-grams, a Gaussian on length, times ten."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.metrics.ngrams import (
    HypothesisNgrams,
    Integers,
    NgramTable,
    ReferenceNgrams,
    Words,
    index_references,
)

Floats = NDArray[np.floating[Any]]

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
    weights: tuple[Floats, ...]  # for each order, of every occurrence in the postings
    norms: Floats  # (orders, rows)

    def scores(self, hypotheses: HypothesisNgrams) -> Floats:
        """CIDEr-D of every caption against the references of its video, (captions,)."""
        first = self.ngrams.first_row[hypotheses.video]  # (captions,)
        num_rows = self.ngrams.first_row[hypotheses.video + 1] - first
        starts = np.cumsum(num_rows) - num_rows
        cell_row = np.arange(num_rows.sum()) - np.repeat(starts - first, num_rows)  # a cell: caption x its reference
        cell_sentence = np.repeat(np.arange(len(num_rows)), num_rows)
        # coco-caption measures length in bigrams
        reference_bigrams = np.maximum(self.ngrams.lengths[cell_row] - 1, 0)
        bigrams = np.maximum(hypotheses.lengths - 1, 0)[cell_sentence]
        gauss = np.exp(-((bigrams - reference_bigrams) ** 2) / (2 * SIGMA**2))
        total = np.zeros(len(cell_row))
        numbers = self.frequencies.table.numbers(hypotheses.orders)
        idf = self.frequencies.weights(numbers)
        for order, (counts, pairs, postings) in enumerate(
            zip(hypotheses.orders, hypotheses.pairs, self.ngrams.postings, strict=True)
        ):
            weight = counts.count * idf[order]  # (U,)
            norm = np.sqrt(np.bincount(counts.sentence, weight**2, minlength=len(num_rows)))
            known = np.flatnonzero(pairs >= 0)
            begin = postings.starts[pairs[known]]
            size = postings.starts[pairs[known] + 1] - begin
            shared = np.repeat(known, size)  # the n-gram of the caption
            place = np.arange(size.sum()) + np.repeat(begin - (np.cumsum(size) - size), size)  # in a reference
            sentence = counts.sentence[shared]
            cell = postings.row[place] + (starts - first)[sentence]
            reference_weight = self.weights[order][place]
            product = np.minimum(weight[shared], reference_weight) * reference_weight
            value = np.bincount(cell, product, minlength=len(cell_row)).astype(np.float64)  # of nothing it counts ints
            scale = norm[cell_sentence] * self.norms[order][cell_row]
            total += np.divide(value, scale, out=value, where=scale != 0)
        similarity = np.bincount(cell_sentence, total * gauss, minlength=len(num_rows))
        scores: Floats = SCALE * similarity / (len(hypotheses.orders) * num_rows)
        return scores


def weigh(ngrams: ReferenceNgrams, frequencies: DocumentFrequencies) -> CiderReferences:
    """tf-idf of every reference."""
    numbers = frequencies.table.numbers(ngrams.table.contents())
    idf = frequencies.weights(numbers)
    weights = [postings.count * idf[order][postings.ngram] for order, postings in enumerate(ngrams.postings)]
    norms = [
        np.sqrt(np.bincount(postings.row, weight**2, minlength=len(ngrams.lengths)))
        for postings, weight in zip(ngrams.postings, weights, strict=True)
    ]
    return CiderReferences(ngrams, frequencies, tuple(weights), np.stack(norms))
