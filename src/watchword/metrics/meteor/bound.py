"""The most that METEOR can give a pair of sentences, from its candidate matches alone.

Words that some candidate covers lie in runs. An alignment of c chunks covers at most c runs a side, so at best the c
heaviest; with the heaviest module a word has and no conflict between matches, the formula's value for c is a bound on
every alignment of c chunks. The bound of a pair is the greatest over c.
"""

import numpy as np

from watchword.metrics.meteor.align import EXACT, SYNONYM, Candidates
from watchword.metrics.meteor.flat import Array, spread
from watchword.metrics.meteor.score import DELTA, MODULE_WEIGHTS, formula

MOST_RUNS = 16  # pairs with more get the looser bound of one chunk that covers everything


def upper_bounds(candidates: Candidates, starts: Array, lengths: Array, function_sums: tuple[Array, Array]) -> Array:
    """Bounds of all pairs: (pairs,). Rows of `starts` and `lengths` (2, pairs): hypothesis, reference."""
    shares, words, counts = [], [], []
    for side, (first, length) in enumerate(
        (
            (candidates.hypothesis, candidates.hypothesis_length),
            (candidates.reference, candidates.reference_length),
        )
    ):
        share, covered, count = _heaviest_runs(
            candidates, first, length, starts[side], lengths[side], np.diff(function_sums[side])
        )
        shares.append(share)
        words.append(covered)
        counts.append(count)
    width = max(share.shape[1] for share in shares)
    precision, recall = (_widen(share, width) for share in shares)  # (pairs, chunks)
    matched = _widen(words[0], width) + _widen(words[1], width)
    chunks = np.arange(1, width + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        fragmentation = chunks / (matched / 2.0)
    whole = matched[:, 0] == lengths.sum(0)
    fragmentation[whole, 0] = 0.0
    many = np.maximum(counts[0], counts[1]) > MOST_RUNS
    fragmentation[many] = 0.0
    bounds: Array = formula(precision, recall, fragmentation).max(1, initial=0.0)
    return bounds


def _heaviest_runs(
    candidates: Candidates, first: Array, length: Array, starts: Array, lengths: Array, function: Array
) -> tuple[Array, Array, Array]:
    """For 1, 2, .. runs: the share of the weighted length that the heaviest cover, the words that the longest cover."""
    num_pairs = lengths.size
    bases = np.cumsum(lengths) - lengths  # of a pair's words among those of all pairs
    source, pair = spread(starts, lengths)
    weight = np.where(function[source], 1.0 - DELTA, DELTA)
    total = np.bincount(pair, weight, minlength=num_pairs)
    begin = bases[candidates.pair] + first
    share = np.zeros(pair.size)
    paraphrase_or_stem = np.flatnonzero((candidates.kind != EXACT) & (candidates.kind != SYNONYM))
    words, _ = spread(begin[paraphrase_or_stem], length[paraphrase_or_stem])
    share[words] = MODULE_WEIGHTS[1]
    for kind in (SYNONYM, EXACT):  # in rising weight: the last to write is the heaviest
        share[begin[candidates.kind == kind]] = MODULE_WEIGHTS[kind]
    covered = np.flatnonzero(share)
    new = (np.diff(covered, prepend=-2) > 1) | (np.diff(pair[covered], prepend=-1) > 0)
    run = np.cumsum(new) - 1
    run_pair = pair[covered[new]]
    counts = np.bincount(run_pair, minlength=num_pairs)
    run_weight = np.bincount(run, (weight * share)[covered])
    run_words = np.bincount(run)
    place = np.arange(run_pair.size) - (np.cumsum(counts) - counts)[run_pair]
    width = max(1, min(MOST_RUNS, int(counts.max(initial=1))))
    few = place < width

    def heaviest(values: Array, everything: Array) -> Array:
        grid = np.zeros((num_pairs, width))
        grid[run_pair[few], place[few]] = values[few]
        grid.sort(axis=1)
        sums: Array = np.cumsum(grid[:, ::-1], axis=1)
        sums[counts > width] = everything[counts > width, None]
        return sums

    with np.errstate(divide="ignore", invalid="ignore"):
        shares = heaviest(run_weight, np.bincount(run_pair, run_weight, minlength=num_pairs)) / total[:, None]
    return shares, heaviest(run_words, np.bincount(run_pair, run_words, minlength=num_pairs)), counts


def _widen(values: Array, width: int) -> Array:
    """More runs than there are cover no more than all of them."""
    return np.concatenate([values, np.repeat(values[:, -1:], width - values.shape[1], axis=1)], axis=1)
