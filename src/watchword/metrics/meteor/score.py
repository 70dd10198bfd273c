"""From statistics to METEOR: parameters of the task "rank" for English, the formula, and a bound on the score."""

import numpy as np

from watchword.metrics.meteor.align import EXACT, SYNONYM, Candidates
from watchword.metrics.meteor.arrays import Array, spread

ALPHA, BETA, GAMMA, DELTA = 0.85, 0.20, 0.60, 0.75
MODULE_WEIGHTS = np.array([1.0, 0.6, 0.8, 0.6])  # exact, stem, synonym, paraphrase

# The 23 statistics, in the jar's order: hypothesis and reference length, their function words, then for each module
# content words of hypothesis and reference, function words of both; chunks; matched words of both.
NUM_STATISTICS = 23
LENGTH, FUNCTION, MODULES, CHUNKS, MATCHED = 0, 2, 4, 20, 21


def scores(statistics: Array) -> Array:
    """METEOR of each row of statistics: (..., 23) -> (...)."""
    statistics = np.asarray(statistics, dtype=np.float64)
    modules = statistics[..., MODULES:CHUNKS].reshape(*statistics.shape[:-1], 4, 2, 2)  # module, content?, side
    sides = []
    for side in (0, 1):  # precision over the hypothesis, recall over the reference
        length, function = statistics[..., LENGTH + side], statistics[..., FUNCTION + side]
        weighted_length = DELTA * (length - function) + (1.0 - DELTA) * function
        weighted_matches = np.zeros(statistics.shape[:-1])
        for module, weight in enumerate(MODULE_WEIGHTS):
            content, empty = modules[..., module, 0, side], modules[..., module, 1, side]
            weighted_matches = weighted_matches + weight * (content * DELTA + empty * (1.0 - DELTA))
        with np.errstate(divide="ignore", invalid="ignore"):
            sides.append(weighted_matches / weighted_length)
    matched = statistics[..., MATCHED] + statistics[..., MATCHED + 1]
    whole = matched == statistics[..., LENGTH] + statistics[..., LENGTH + 1]
    chunks = statistics[..., CHUNKS]
    with np.errstate(divide="ignore", invalid="ignore"):
        fragmentation = np.where(whole & (chunks <= 1), 0.0, chunks / (matched / 2.0))
    return formula(sides[0], sides[1], fragmentation)


def formula(precision: Array, recall: Array, fragmentation: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 1.0 / ((1.0 - ALPHA) / precision + ALPHA / recall)
        score = mean * (1.0 - GAMMA * fragmentation**BETA)
    return np.where(np.isnan(score), 0.0, score)


def corpus_score(statistics: Array) -> float:
    """METEOR of a whole set: not the mean of its segments. A segment that matches in one chunk adds no chunk."""
    statistics = np.array(statistics, dtype=np.float64).reshape(-1, NUM_STATISTICS)
    lengths, matched = statistics[:, LENGTH : LENGTH + 2], statistics[:, MATCHED : MATCHED + 2]
    perfect = (lengths == matched).all(1) & (statistics[:, CHUNKS] == 1)
    statistics[perfect, CHUNKS] = 0
    return float(scores(statistics.sum(0)))


# --- the upper bound of a pair ---------------------------------------------------------------------------------------


MOST_RUNS = 16  # pairs with more get the looser bound of one chunk that covers everything


def upper_bounds(candidates: Candidates, starts: Array, lengths: Array, function_sums: tuple[Array, Array]) -> Array:
    """Bounds of all pairs: (pairs,). Rows of `starts` and `lengths` (2, pairs): hypothesis, reference.

    Words that some candidate covers lie in runs. An alignment of c chunks covers at most c runs a side, so at best the
    c heaviest; with the heaviest module a word has and no conflict between matches, the formula's value for c is a
    bound on every alignment of c chunks. The bound of a pair is the greatest over c.
    """
    shares, words, counts = [], [], []
    for side, (first, length) in enumerate(
        (
            (candidates.hypothesis, candidates.hypothesis_length),
            (candidates.reference, candidates.reference_length),
        )
    ):
        share, covered, count = _heaviest_runs(
            candidates, first, length, starts[side], lengths[side], function_sums[side]
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
    candidates: Candidates, first: Array, length: Array, starts: Array, lengths: Array, function_sums: Array
) -> tuple[Array, Array, Array]:
    """For 1, 2, .. runs: the share of the weighted length that the heaviest cover, the words that the longest cover."""
    num_pairs = lengths.size
    bases = np.cumsum(lengths) - lengths  # of a pair's words among those of all pairs
    source, pair = spread(starts, lengths)
    weight = np.where(function_sums[source + 1] > function_sums[source], 1.0 - DELTA, DELTA)
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
