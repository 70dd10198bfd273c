"""From statistics to METEOR: parameters of the task "rank" for English, the formula, and what it can reach at most."""

import numpy as np

from watchword.metrics.meteor.flat import Array

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
