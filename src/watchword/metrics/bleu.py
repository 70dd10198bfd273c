"""BLEU-1 to 4 as coco-caption computes them: a row of counts per caption, and one formula for a row or for their sum.

A row is: words of the caption, words of the reference whose length is closest (the shorter of two), then for orders
one to four the n-grams that a reference has too (clipped to the most in one reference), then all n-grams of the
caption.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.metrics.ngrams import ORDERS, HypothesisNgrams, ReferenceNgrams

Floats = NDArray[np.floating[Any]]

TINY, SMALL = 1e-15, 1e-9  # keep a caption without n-grams of an order at zero instead of 0 / 0


def bleu_statistics(references: ReferenceNgrams, hypotheses: HypothesisNgrams) -> Floats:
    """(captions, 10)."""
    num_sentences = len(hypotheses.lengths)
    rows = np.zeros((num_sentences, 2 + 2 * ORDERS))
    rows[:, 0] = hypotheses.lengths
    rows[:, 1] = _closest_lengths(references, hypotheses)
    for order, (counts, pairs, postings) in enumerate(
        zip(hypotheses.orders, hypotheses.pairs, references.postings, strict=True)
    ):
        known = pairs >= 0
        clipped = np.minimum(counts.count[known], postings.most[pairs[known]])
        rows[:, 2 + order] = np.bincount(counts.sentence[known], clipped, minlength=num_sentences)
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
