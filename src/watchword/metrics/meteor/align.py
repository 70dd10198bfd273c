"""METEOR's alignment of a hypothesis with a reference, for many pairs at once.

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

import numpy as np

from watchword.metrics.meteor.arrays import Array, spread

BEAM = 40
EXACT, STEM, SYNONYM, PARAPHRASE, PARAPHRASE_REVERSED = range(5)  # reversed: the hypothesis' phrase is the source


PAIR, FREE, OPEN, TOTAL, CHUNKS, FAR = range(6)  # of a path: first free reference word, end of the open chunk in the
# hypothesis or -1, weight of its matches, closed chunks, sum of distances
WEIGHT, DISTANCE, BEGIN, END, REACH = range(5)  # of a match: its first word in the hypothesis, the first after it, and
# the first after it in the reference
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Candidates:
    """Possible matches of pairs of captions; one row a match."""

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
    certain: Array = alone[reference_starts[candidates.pair] + candidates.reference] == 1
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
    # Candidates of a place (pair and reference word) are rows first[place] .. first[place + 1].
    place = reference_starts[candidates.pair] + candidates.reference
    count = np.bincount(place, minlength=int(reference_starts[-1]))
    first = np.append(0, np.cumsum(count))
    sole = np.zeros(count.size, np.bool_)  # places with a definite match
    sole[place[certain]] = True
    match_facts, bits = _facts(candidates), _bits(candidates)
    distance = match_facts[:, DISTANCE].copy()
    # Nothing happens before the first candidate of a pair, and after the last word of any only open chunks close.
    begins, lasts = reference_lengths.copy(), np.zeros(num_pairs, np.int64)
    np.minimum.at(begins, candidates.pair, candidates.reference)
    np.maximum.at(lasts, candidates.pair, candidates.reference + candidates.reference_length)
    num_steps = np.maximum(lasts - begins, 0)
    first_places = reference_starts[:-1] + begins

    # Partial alignments: one row each, grouped by pair, within a pair in the beam's order.
    width = int(hypothesis_lengths.max(initial=0)) // 64 + 1 + bits.spill
    paths = np.zeros((num_pairs, 6), np.int64)
    paths[:, PAIR] = np.arange(num_pairs)
    paths[:, OPEN] = -1
    used = np.zeros((num_pairs, width), np.uint64)  # hypothesis words, as bits

    history: list[tuple[Array, Array]] = []  # a step: row of the parent, match taken or -1
    ended: list[tuple[Array, Array]] = []  # a step: pairs that end before it, their best row
    chunks = np.zeros(num_pairs, np.int64)
    last_steps = set(num_steps.tolist())
    for step in range(max(last_steps, default=0) + 1):
        order = np.arange(paths.shape[0])
        if step in last_steps:
            ending = num_steps[paths[:, PAIR]] == step
            rows, order = order[ending], order[~ending]
            paths[rows, CHUNKS] += paths[rows, OPEN] >= 0
            rows = rows[_best_first(paths[rows])]
            rows = rows[_changes(paths[rows, PAIR])]
            pairs = paths[rows, PAIR]
            chunks[pairs] = paths[rows, CHUNKS]
            ended.append((pairs, rows))
        else:
            ended.append((_NONE, _NONE))

        # A path leads to its candidates in order, then to the skip; a path inside a longer match only to itself.
        pair, free = paths[order, PAIR], paths[order, FREE]
        place = first_places[pair] + step
        inside = free > begins[pair] + step
        num_children = np.where(inside, 0, count[place]) + 1
        parent = np.repeat(np.arange(order.size), num_children)
        eldest = np.cumsum(num_children) - num_children  # place of each path's first child
        child = np.arange(parent.size) - eldest[parent]
        taken = child + 1 < num_children[parent]
        match = np.where(taken, first[place][parent] + child, -1)
        row = order[parent]
        usable = taken & ~bits.overlap(used, row, match)
        moved = distance[match] * usable
        elder = np.cumsum(moved) - moved
        elder -= elder[eldest][parent]
        alone = (sole[place] & ~inside)[parent]  # a definite match: no skip beside it, and the distance is its own
        kept = np.flatnonzero(usable | (~taken & ~alone))

        row, match = row[kept], match[kept]
        inside, alone, taken = inside[parent[kept]], alone[kept], taken[kept]
        facts, paths = match_facts[match], paths[row]
        paths[:, FAR] += np.where(alone, moved[kept], elder[kept])
        paths[:, CHUNKS] += (paths[:, OPEN] >= 0) & ~inside & (facts[:, BEGIN] != paths[:, OPEN])
        paths[:, OPEN] = np.where(inside, paths[:, OPEN], facts[:, END])
        paths[:, TOTAL] += facts[:, WEIGHT]
        paths[:, FREE] = np.where(taken, facts[:, REACH], paths[:, FREE])

        order = _best_first(paths)
        if order.size > BEAM:
            new = np.flatnonzero(_changes(paths[order, PAIR]))
            order = order[np.arange(order.size) - np.repeat(new, np.diff(new, append=order.size)) < BEAM]
        row, match, paths = row[order], match[order], paths[order]
        used = bits.join(used, row, match)
        history.append((row, match))
    return _trace(history, ended, chunks)


def _changes(pair: Array) -> Array:
    """Where a row of another pair begins."""
    new = np.ones(pair.size, np.bool_)
    np.not_equal(pair[1:], pair[:-1], out=new[1:])
    return new


def _best_first(paths: Array) -> Array:
    """Stable: within a pair more weight, then fewer chunks, then less distance. Pairs are already in order."""
    pair = paths[:, PAIR]
    if _changes(pair).all():
        return np.arange(pair.size)
    key, room = pair, 63
    for values in (paths[:, TOTAL].max() - paths[:, TOTAL], paths[:, CHUNKS], paths[:, FAR]):
        bits = int(values.max()).bit_length()
        key, room = (key << bits) | values, room - bits
    if int(pair[-1]).bit_length() > room:  # captions of thousands of words
        return np.lexsort((paths[:, FAR], paths[:, CHUNKS], -paths[:, TOTAL], pair))
    return np.argsort(key, kind="stable")


def _facts(candidates: Candidates) -> Array:
    """What a match does to a path: (matches + 1, 5), the last row for no match (-1)."""
    both = candidates.reference_length + candidates.hypothesis_length
    halves = candidates.reference_length // 2 + candidates.hypothesis_length // 2
    facts = np.zeros((len(candidates) + 1, 5), np.int64)
    facts[:-1, WEIGHT] = np.where(candidates.kind == EXACT, both, halves)
    facts[:-1, DISTANCE] = np.abs(candidates.reference - candidates.hypothesis)
    facts[:-1, BEGIN] = candidates.hypothesis
    facts[:-1, END] = candidates.hypothesis + candidates.hypothesis_length
    facts[:-1, REACH] = candidates.reference + candidates.reference_length
    facts[-1, [BEGIN, END]] = -1
    return facts


@dataclass(frozen=True)
class _Bits:
    """Hypothesis words that matches cover: bits of one 64-bit word, and the few that reach into the next."""

    word: Array  # (matches + 1,)
    low: Array
    high: Array
    spill: bool  # whether any match reaches into the next

    def overlap(self, used: Array, row: Array, match: Array) -> Array:
        """Whether a match covers a word that its path has used."""
        place = row * used.shape[1] + self.word[match]
        flat = used.reshape(-1)
        common = flat[place] & self.low[match]
        if self.spill:
            common |= flat[place + 1] & self.high[match]
        overlapping: Array = common != 0
        return overlapping

    def join(self, used: Array, row: Array, match: Array) -> Array:
        """Used words of the new paths."""
        used = used[row]
        place = np.arange(row.size) * used.shape[1] + self.word[match]
        flat = used.reshape(-1)
        flat[place] |= self.low[match]
        if self.spill:
            flat[place + 1] |= self.high[match]
        return used


def _bits(candidates: Candidates) -> _Bits:
    shift = np.append(candidates.hypothesis % 64, 0).astype(np.uint64)
    ones = (np.uint64(1) << np.append(candidates.hypothesis_length, 0).astype(np.uint64)) - np.uint64(1)
    high = np.where(shift > 0, ones >> ((np.uint64(64) - shift) % np.uint64(64)), np.uint64(0))
    return _Bits(np.append(candidates.hypothesis // 64, 0), ones << shift, high, bool(high.any()))


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
