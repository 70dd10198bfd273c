"""METEOR's alignment of a hypothesis with a reference, for many pairs at once (METRICS 3.4).

The search is a beam from left to right over the reference's words. All pairs take a step together: their partial
alignments lie side by side in flat arrays, a pair's own in the order that the beam gives them. Every quirk of the
original decides some real caption's score, so every quirk is here:

- a match weighs whole numbers only: n for an exact match, floor(n / 2) a side for any other;
- the distance |reference place - hypothesis place| is added to the parent after the child was copied, so a child
  carries the distances of its elder siblings, and the path that skips carries all of them;
- skipping a word closes an open chunk at once; chunks open at the end close after the last sort and cut, then one
  more sort.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from watchword.metrics.meteor.spread import spread

Array = npt.NDArray[Any]

BEAM = 40
EXACT, STEM, SYNONYM, PARAPHRASE, PARAPHRASE_REVERSED = range(5)  # reversed: the hypothesis' phrase is the source


@dataclass(frozen=True)
class Candidates:
    """Possible matches of pairs of sentences; one row a match."""

    pair: Array
    reference: Array  # first word in the reference
    reference_length: Array
    hypothesis: Array  # first word in the hypothesis
    hypothesis_length: Array
    kind: Array  # EXACT .. PARAPHRASE_REVERSED
    rank: Array  # place in the table's list, for paraphrases

    def __len__(self) -> int:
        return int(self.pair.size)

    def take(self, rows: Array) -> "Candidates":
        return Candidates(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))

    def order(self) -> Array:
        """Rows by pair, by reference place, and there in the order in which METEOR finds them."""
        hypothesis, rank = self.hypothesis.astype(np.int64), self.rank.astype(np.int64)
        found = np.where(
            self.kind == PARAPHRASE,
            (self.reference_length.astype(np.int64) << 50) | (rank << 24) | hypothesis,
            np.where(
                self.kind == PARAPHRASE_REVERSED,
                (hypothesis << 30) | (self.hypothesis_length.astype(np.int64) << 24) | rank,
                hypothesis,
            ),
        )
        place = (self.pair.astype(np.int64) << 24) | self.reference
        return np.lexsort((found | (self.kind.astype(np.int64) << 56), place))


@dataclass(frozen=True)
class Alignments:
    """The best alignment of each pair."""

    chunks: Array  # (pairs,)
    pair: Array  # (matches,)
    match: Array  # (matches,) rows of the candidates


def definite(candidates: Candidates, reference_starts: Array, hypothesis_starts: Array) -> Array:
    """Which matches need no search: alone at their reference place, and nothing else covers any of their words."""
    count = int(reference_starts[-1])
    alone = np.bincount(reference_starts[candidates.pair] + candidates.reference, minlength=count)
    certain = alone[reference_starts[candidates.pair] + candidates.reference] == 1
    for starts, first, length in (
        (reference_starts, candidates.reference, candidates.reference_length),
        (hypothesis_starts, candidates.hypothesis, candidates.hypothesis_length),
    ):
        words, owner = spread(starts[candidates.pair] + first, length)
        covered = np.bincount(words, minlength=int(starts[-1]))
        certain[owner[covered[words] > 1]] = False
    return certain


def align(candidates: Candidates, reference_lengths: Array, hypothesis_lengths: Array) -> Alignments:
    """Aligns every pair; candidates must come in their `order`. Lengths are in words, one a pair."""
    num_pairs = reference_lengths.size
    reference_starts = np.append(0, np.cumsum(reference_lengths))
    hypothesis_starts = np.append(0, np.cumsum(hypothesis_lengths))
    certain = definite(candidates, reference_starts, hypothesis_starts)
    # Candidates of (pair, reference place) are rows first[place] .. first[place + 1].
    place = reference_starts[candidates.pair] + candidates.reference
    first = np.searchsorted(place, np.arange(reference_starts[-1] + 1))

    # Facts of a match; one row more, the last, stands for no match (-1).
    def column(values: Array, none: int = 0) -> Array:
        return np.append(values, none).astype(np.int64)

    both = candidates.reference_length + candidates.hypothesis_length
    halves = candidates.reference_length // 2 + candidates.hypothesis_length // 2
    weight = column(np.where(candidates.kind == EXACT, both, halves))
    distance = column(np.abs(candidates.reference - candidates.hypothesis))
    begin = column(candidates.hypothesis, -1)
    end = column(candidates.hypothesis + candidates.hypothesis_length, -1)
    reach = column(candidates.reference + candidates.reference_length)
    covers = _covers(candidates, int(hypothesis_lengths.max(initial=0)))
    certain = np.append(certain, False)

    # Partial alignments: one row each, grouped by pair.
    pair = np.arange(num_pairs)
    used = np.zeros((num_pairs, covers.shape[1]), np.uint64)  # hypothesis words, as bits
    free = np.zeros(num_pairs, np.int64)  # first reference place that no match reaches
    open_end = np.full(num_pairs, -1)  # where the open chunk ends in the hypothesis
    total, chunks, far = np.zeros((3, num_pairs), np.int64)

    history: list[tuple[Array, Array]] = []  # a step: row of the parent, match taken or -1
    ended: list[tuple[Array, Array]] = []  # a step: pairs that end before it, their best row
    final_chunks = np.zeros(num_pairs, np.int64)
    for step in range(int(reference_lengths.max(initial=0)) + 1):
        order = _best_first(pair, total, chunks, far)
        if order.size > BEAM:
            group = np.flatnonzero(np.diff(pair[order], prepend=-1))
            order = order[np.arange(order.size) - np.repeat(group, np.diff(group, append=order.size)) < BEAM]
        ending = reference_lengths[pair[order]] == step
        rows, order = order[ending], order[~ending]
        chunks[rows] += open_end[rows] >= 0
        rows = rows[_best_first(pair[rows], total[rows], chunks[rows], far[rows])]
        rows = rows[np.diff(pair[rows], prepend=-1) != 0]
        final_chunks[pair[rows]] = chunks[rows]
        ended.append((pair[rows], rows))

        # A row leads to its candidates in order and then to the skip; a row inside a longer match only to itself.
        place = reference_starts[pair[order]] + step
        inside = free[order] > step
        num_candidates = np.where(inside, 0, first[place + 1] - first[place])
        child, parent = spread(np.zeros(order.size, np.int64), num_candidates + 1)
        taken = child < num_candidates[parent]
        match = np.where(taken, first[place][parent] + child, -1)
        row = order[parent]
        usable = taken & ~(used[row] & covers[match]).any(1)
        moved = np.where(usable, distance[match], 0)
        elder = np.cumsum(moved) - moved
        elder -= elder[np.flatnonzero(child == 0)][parent]
        only = certain[np.where(num_candidates == 1, first[place], -1)][parent]  # a definite match: no skip beside it
        kept = np.flatnonzero(np.where(only, taken, usable | ~taken))
        row, match, taken, inside = row[kept], match[kept], taken[kept], inside[parent[kept]]

        far = far[row] + np.where(only[kept], moved[kept], elder[kept])
        last = open_end[row]
        chunks = chunks[row] + ((last >= 0) & ~inside & (begin[match] != last))
        open_end = np.where(inside, last, end[match])
        total = total[row] + weight[match]
        free = np.where(taken, reach[match], free[row])
        used = used[row] | covers[match]
        pair = pair[row]
        history.append((row, match))
    return _trace(history, ended, final_chunks)


def _best_first(pair: Array, total: Array, chunks: Array, far: Array) -> Array:
    """Stable: within a pair more weight, then fewer chunks, then less distance. Pairs are already in order."""
    if not pair.size:
        return np.empty(0, np.int64)
    key, room = pair, 63
    for values in (total.max() - total, chunks, far):
        bits = int(values.max()).bit_length()
        key, room = (key << bits) | values, room - bits
    if int(pair[-1]).bit_length() > room:  # sentences of thousands of words
        return np.lexsort((far, chunks, -total, pair))
    return np.argsort(key, kind="stable")


def _covers(candidates: Candidates, longest: int) -> Array:
    """Hypothesis words of each match as bits: (matches + 1, longest / 64) uint64."""
    covers = np.zeros((len(candidates) + 1, max(1, -(-longest // 64))), np.uint64)
    words, owner = spread(candidates.hypothesis.astype(np.int64), candidates.hypothesis_length.astype(np.int64))
    if covers.shape[1] == 1:
        low = np.uint64(1) << candidates.hypothesis.astype(np.uint64)
        covers[:-1, 0] = low * ((np.uint64(1) << candidates.hypothesis_length.astype(np.uint64)) - np.uint64(1))
    else:
        np.bitwise_or.at(covers, (owner, words // 64), np.uint64(1) << (words % 64).astype(np.uint64))
    return covers


def _trace(history: list[tuple[Array, Array]], ended: list[tuple[Array, Array]], chunks: Array) -> Alignments:
    """Walks back from the best row of each pair to the matches that it took."""
    pair, row = np.empty(0, np.int64), np.empty(0, np.int64)
    pairs, matches = [pair], [row]
    for (parent, match), (new_pair, new_row) in zip(reversed(history), reversed(ended), strict=True):
        if row.size:
            taken = match[row]
            pairs.append(pair[taken >= 0])
            matches.append(taken[taken >= 0])
            row = parent[row]
        pair, row = np.concatenate([pair, new_pair]), np.concatenate([row, new_row])
    return Alignments(chunks, np.concatenate(pairs), np.concatenate(matches))
