"""All references of all videos, indexed once, so that a hypothesis finds every possible match in one go.

The index says where in a video's references each unit (word or phrase) stands. The units related to those of a
hypothesis, looked up there, are its candidate matches with all references at once. Then a bound on the score says
which references can be the best: one to three of twenty need the search of `align`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from watchword.errors import WatchwordError, unknown
from watchword.metrics.meteor import score
from watchword.metrics.meteor.align import EXACT, PARAPHRASE, Candidates, align
from watchword.metrics.meteor.bound import upper_bounds
from watchword.metrics.meteor.hashing import ngram_keys
from watchword.metrics.meteor.normalise import normalise
from watchword.metrics.meteor.related import WORD_UNIT, Related
from watchword.metrics.meteor.spread import spread
from watchword.metrics.meteor.tables import LONGEST, Tables, default_tables
from watchword.metrics.meteor.words import Lexicon

Array = npt.NDArray[Any]

BATCH = 1024  # hypotheses at a time
MOST_CANDIDATES = 20_000_000  # possible matches held at a time: about 2 GB
REMEMBERED = 200_000  # results kept for sentences that come again


@dataclass(frozen=True)
class Sentences:
    """Rows of word numbers, flat."""

    word: Array  # (words,)
    starts: Array  # (sentences + 1,)
    function_sums: Array  # (words + 1,): function words before each place

    @property
    def lengths(self) -> Array:
        return np.diff(self.starts)


class MeteorIndex:
    """METEOR 1.5 against the references of a set of videos.

    Sentences are PTB tokens; METEOR normalises them in its own way once more. Statistics are of the best reference:
    the first with the highest score.
    """

    def __init__(self, references: Mapping[str, Sequence[Sequence[str]]], tables: Tables | None = None) -> None:
        tables = tables or default_tables()
        lexicon = Lexicon(tables.words)
        lines: list[list[str]] = []
        num_references: list[int] = []
        for video, sentences in references.items():
            before = len(lines)
            # A repeated reference can never be the first with the highest score. `|||` parts METEOR's references.
            for line in dict.fromkeys(part for tokens in sentences for part in " ".join(tokens).split("|||")):
                lines.append(normalise(line, tables.words.prefixes))
            if len(lines) == before:
                raise WatchwordError(f"video {video!r} has no references to score against")
            num_references.append(len(lines) - before)
        words = _sentences(lines, lexicon)
        video_starts = np.append(0, np.cumsum(np.array(num_references, np.int64)))
        reference = np.repeat(np.arange(words.lengths.size), words.lengths)
        video = np.repeat(np.arange(video_starts.size - 1), np.diff(video_starts))
        at, length, unit = _units(words.word, reference, lexicon, tables)
        key = (video[reference[at]] << 32) | unit
        order = np.argsort(key, kind="stable")
        key, at = key[order], at[order]
        first = np.flatnonzero(np.diff(key, prepend=-1))
        self._adopt(
            tables,
            lexicon,
            list(references),
            words,
            {
                "video_starts": video_starts,
                "unit_keys": key[first],  # (video, unit), sorted
                "unit_starts": np.append(first, key.size),  # a unit's places are at unit_starts[row] ..
                "place_reference": reference[at],
                "place_word": at - words.starts[reference[at]],
                "place_length": length[order],
                "phrases": np.unique(unit[unit < WORD_UNIT]),
            },
        )

    def _adopt(
        self, tables: Tables, lexicon: Lexicon, videos: list[str], words: Sentences, arrays: dict[str, Array]
    ) -> None:
        self._tables, self._lexicon, self._references = tables, lexicon, words
        self._videos = {video: number for number, video in enumerate(videos)}
        self._arrays = arrays
        self._num_words = len(lexicon.names)  # of the references; hypotheses add theirs
        self._related = Related(tables.phrases, lexicon, arrays["phrases"])
        self._memory: dict[tuple[str, str], tuple[Array, float]] = {}

    # ------------------------------------------------------------------------------------------------- scores

    def statistics(self, video: str, tokens: Sequence[str]) -> tuple[float, ...]:
        """The 23 statistics of a sentence. For many sentences `statistics_of` is far quicker."""
        return tuple(self.statistics_of([(video, tokens)])[0].tolist())

    def segment(self, video: str, tokens: Sequence[str]) -> float:
        return float(self.segments([(video, tokens)])[0])

    def statistics_of(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Array:
        """The statistics of many (video, tokens): (sentences, 23)."""
        rows = [row for row, _ in self._results(pairs)]
        return np.array(rows, np.float64).reshape(-1, score.NUM_STATISTICS)

    def segments(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> Array:
        """The scores of many (video, tokens): (sentences,)."""
        return np.array([value for _, value in self._results(pairs)], np.float64)

    def corpus(self, statistics: Iterable[Sequence[float]] | Array) -> float:
        """METEOR of a set of sentences from their statistics; not the mean of their scores."""
        return score.corpus_score(np.array(list(statistics), np.float64))

    def _results(self, pairs: Iterable[tuple[str, Sequence[str]]]) -> list[tuple[Array, float]]:
        asked = [(video, " ".join(tokens)) for video, tokens in pairs]
        if len(self._memory) > REMEMBERED:
            self._memory.clear()
        new = [key for key in dict.fromkeys(asked) if key not in self._memory]
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            statistics = self._best(batch)
            self._memory.update(zip(batch, zip(statistics, score.scores(statistics).tolist(), strict=True), strict=True))
        return [self._memory[key] for key in asked]

    def _best(self, asked: list[tuple[str, str]]) -> Array:
        """Statistics of the best reference of each (video, line): (sentences, 23)."""
        for video, _ in asked:
            if video not in self._videos:
                raise unknown("video", video, self._videos)
        prefixes = self._tables.words.prefixes
        # As coco-caption hands a hypothesis to METEOR.
        lines = [normalise(line.replace("|||", "").replace("  ", " "), prefixes) for _, line in asked]
        hypotheses = _sentences(lines, self._lexicon)
        video = np.array([self._videos[video] for video, _ in asked])
        first = self._arrays["video_starts"][video]
        counts = self._arrays["video_starts"][video + 1] - first
        # A pair is a hypothesis and a reference of its video.
        reference, hypothesis = spread(first, counts)
        pair_starts = np.append(0, np.cumsum(counts))
        candidates = self._candidates(video, hypotheses, pair_starts[:-1] - first)
        if candidates is None:
            if len(asked) == 1:
                raise WatchwordError(
                    f"METEOR: the sentence for video {asked[0][0]!r} ({len(lines[0])} words) has more than "
                    f"{MOST_CANDIDATES:,} possible matches with its references; shorten it"
                )
            half = len(asked) // 2
            return np.concatenate([self._best(asked[:half]), self._best(asked[half:])])

        lengths = np.stack([hypotheses.lengths[hypothesis], self._references.lengths[reference]])
        diagonal = (candidates.kind == EXACT) & (candidates.hypothesis == candidates.reference)
        same = np.bincount(candidates.pair[diagonal], minlength=reference.size)
        identical = (lengths[0] == lengths[1]) & (same == lengths[0])  # equal sentences match word by word only
        candidates = candidates.take(np.flatnonzero((candidates.kind == EXACT) | ~identical[candidates.pair]))
        starts = np.stack([hypotheses.starts[hypothesis], self._references.starts[reference]])
        sums = (hypotheses.function_sums, self._references.function_sums)
        bounds = upper_bounds(candidates, starts, lengths, sums)

        statistics = np.zeros((reference.size, score.NUM_STATISTICS), np.int64)
        statistics[:, score.LENGTH : score.LENGTH + 2] = lengths.T
        for side in (0, 1):
            function = sums[side][starts[side] + lengths[side]] - sums[side][starts[side]]
            statistics[:, score.FUNCTION + side] = function
        value = np.zeros(reference.size)  # pairs that are never searched keep 0, which is never the best but if all are 0
        best = np.zeros(len(asked))
        searched = bounds <= 0.0
        for most in (2, None):  # the two likeliest references first, then those that may still beat them
            open_ = np.flatnonzero(~searched & (bounds >= best[hypothesis] - 1e-9))
            if most is not None and open_.size:
                order = open_[np.lexsort((-bounds[open_], hypothesis[open_]))]
                group = np.flatnonzero(np.diff(hypothesis[order], prepend=-1))
                rank = np.arange(order.size) - np.repeat(group, np.diff(group, append=order.size))
                open_ = np.sort(order[rank < most])
            if open_.size:
                statistics[open_] = self._search(candidates, open_, statistics[open_], starts[:, open_], sums)
                value[open_] = score.scores(statistics[open_])
                searched[open_] = True
                best = np.maximum.reduceat(value, pair_starts[:-1])
        winner = np.flatnonzero(value == best[hypothesis])
        return statistics[winner[np.flatnonzero(np.diff(hypothesis[winner], prepend=-1))]]

    def _candidates(self, video: Array, hypotheses: Sentences, pair_offsets: Array) -> Candidates | None:
        """Every possible match of each hypothesis with each reference of its video; None when they are too many."""
        arrays, related = self._arrays, self._related
        sentence = np.repeat(np.arange(hypotheses.lengths.size), hypotheses.lengths)
        at, length, unit = _units(hypotheses.word, sentence, self._lexicon, self._tables)
        rows = related.rows(unit)
        first = related.starts[rows]
        relation, source = spread(first, related.starts[rows + 1] - first)
        key = (video[sentence[at]] << 32)[source] | related.unit[relation]
        found = np.searchsorted(arrays["unit_keys"], key)
        found[found == arrays["unit_keys"].size] = 0
        hit = np.flatnonzero(arrays["unit_keys"][found] == key)
        found, relation, source = found[hit], relation[hit], source[hit]
        first = arrays["unit_starts"][found]
        counts = arrays["unit_starts"][found + 1] - first
        if counts.sum() > MOST_CANDIDATES:
            return None
        place, owner = spread(first, counts)
        relation, source = relation[owner], source[owner]
        return Candidates(
            pair=pair_offsets[sentence[at]][source] + arrays["place_reference"][place],
            reference=arrays["place_word"][place],
            reference_length=arrays["place_length"][place],
            hypothesis=(at - hypotheses.starts[sentence[at]])[source],
            hypothesis_length=length[source],
            kind=related.kind[relation],
            rank=related.rank[relation],
        )

    def _search(
        self, candidates: Candidates, pairs: Array, statistics: Array, starts: Array, sums: tuple[Array, Array]
    ) -> Array:
        """Aligns some of the pairs and fills their statistics in."""
        number = np.full(int(candidates.pair.max(initial=-1)) + 1, -1)
        number = np.full(max(number.size, int(pairs[-1]) + 1), -1)
        number[pairs] = np.arange(pairs.size)
        mine = np.flatnonzero(number[candidates.pair] >= 0)
        own = candidates.take(mine)
        own = Candidates(number[own.pair], *(getattr(own, name) for name in list(own.__dataclass_fields__)[1:]))
        own = own.take(own.order())
        found = align(own, statistics[:, score.LENGTH + 1], statistics[:, score.LENGTH])
        chosen = own.take(found.match)
        module = np.minimum(chosen.kind, PARAPHRASE).astype(np.int64)
        for side, words, length in (
            (0, chosen.hypothesis, chosen.hypothesis_length),
            (1, chosen.reference, chosen.reference_length),
        ):
            begin = starts[side][chosen.pair] + words
            function = sums[side][begin + length] - sums[side][begin]
            np.add.at(statistics, (chosen.pair, score.MODULES + 4 * module + side), length - function)
            np.add.at(statistics, (chosen.pair, score.MODULES + 4 * module + 2 + side), function)
            np.add.at(statistics, (chosen.pair, score.MATCHED + side), length)
        statistics[:, score.CHUNKS] = found.chunks
        return statistics


def _sentences(lines: list[list[str]], lexicon: Lexicon) -> Sentences:
    word = np.array(lexicon.number(word for line in lines for word in line), np.int64)
    lexicon.learn()
    starts = np.append(0, np.cumsum(np.array([len(line) for line in lines], np.int64)))
    return Sentences(word, starts, np.append(0, np.cumsum(lexicon.function[word])))


def _units(words: Array, sentence: Array, lexicon: Lexicon, tables: Tables) -> tuple[Array, Array, Array]:
    """Every unit in flat rows of words: first place, length in words, unit. `sentence`: the row of each place."""
    ats, lengths, units = [np.arange(words.size)], [np.ones(words.size, np.int64)], [words + WORD_UNIT]
    keys, known = lexicon.keys[words], lexicon.in_tables[words]
    whole = known
    for length in range(1, min(LONGEST, words.size) + 1):
        stop = words.size - length + 1
        whole = whole[:stop] & known[length - 1 :] & (sentence[:stop] == sentence[length - 1 :])
        at = np.flatnonzero(whole)
        phrase = tables.phrases.find(ngram_keys(keys, length)[at])
        at, phrase = at[phrase >= 0], phrase[phrase >= 0]
        ats.append(at)
        lengths.append(np.full(at.size, length))
        units.append(phrase.astype(np.int64))
    return np.concatenate(ats), np.concatenate(lengths), np.concatenate(units)
