"""All references of all videos, indexed once: what a hypothesis needs to find every possible match in one go.

A *unit* is what can be matched: a word, or a phrase of the paraphrase table. The index says where in a video's
references each unit stands. A hypothesis' units have *related* units (equal hash, equal stem, a common synset, a
paraphrase in either direction); those that stand in the references are the candidates. Bounds on the score then leave
one to three references a hypothesis that need the search of `align`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from watchword.errors import WatchwordError
from watchword.metrics.meteor import align, score
from watchword.metrics.meteor.align import Candidates, spread
from watchword.metrics.meteor.build import ngram_keys
from watchword.metrics.meteor.normalise import normalise
from watchword.metrics.meteor.tables import LONGEST, Tables, default_tables
from watchword.metrics.meteor.words import Lexicon, synsets

Array = npt.NDArray[Any]

_WORD_UNIT = 1 << 31  # units from here on are words, below are phrases of the table


class Related:
    """For each unit of a hypothesis the units of the references that match it. Found when first asked for, then kept."""

    def __init__(self, tables: Tables, lexicon: Lexicon, words: Array, phrases: Array) -> None:
        """`words` and `phrases`: the units that the references have."""
        self._tables, self._lexicon = tables, lexicon
        self._present = np.zeros(tables.phrases.keys.size, np.bool_)
        self._present[phrases] = True
        self._phrase_rows = np.full(tables.phrases.keys.size, -1, np.int32)
        self._word_rows: Array = np.empty(0, np.int32)
        self._starts: list[Array] = []
        self._by_hash: dict[int, list[int]] = {}
        self._by_stem: dict[int, list[int]] = {}
        self._by_synset: dict[int, list[int]] = {}
        names = lexicon.words
        for word, hash_, stem in zip(words.tolist(), lexicon.hashes[words].tolist(), lexicon.stems[words].tolist(), strict=True):
            self._by_hash.setdefault(hash_, []).append(word)
            self._by_stem.setdefault(stem, []).append(word)
            for synset in synsets(names[word], tables.words):
                self._by_synset.setdefault(synset, []).append(word)
        self.starts = np.zeros(1, np.int64)
        self.unit: Array = np.empty(0, np.int64)
        self.kind: Array = np.empty(0, np.int8)
        self.rank: Array = np.empty(0, np.int32)

    def rows(self, units: Array) -> Array:
        """Rows of `starts` for units; learns the new ones."""
        is_word = units >= _WORD_UNIT
        if self._word_rows.size < len(self._lexicon):
            more = np.full(len(self._lexicon) - self._word_rows.size, -1, np.int32)
            self._word_rows = np.append(self._word_rows, more)
        rows = np.empty(units.size, np.int32)
        for _ in range(2):
            rows[is_word] = self._word_rows[units[is_word] - _WORD_UNIT]
            rows[~is_word] = self._phrase_rows[units[~is_word]]
            new = np.unique(units[rows < 0])
            if not new.size:
                break
            self._learn_words(new[new >= _WORD_UNIT] - _WORD_UNIT)
            self._learn_phrases(new[new < _WORD_UNIT])
        return rows

    def _learn_words(self, words: Array) -> None:
        names = self._lexicon.words
        units: list[int] = []
        kinds: list[int] = []
        sizes = []
        for word in words.tolist():
            hash_, before = int(self._lexicon.hashes[word]), len(units)
            same = self._by_hash.get(hash_, [])
            units += same
            kinds += [align.EXACT] * len(same)
            stems = [other for other in self._by_stem.get(int(self._lexicon.stems[word]), ()) if self._lexicon.hashes[other] != hash_]
            units += stems
            kinds += [align.STEM] * len(stems)
            synonyms = {other for synset in synsets(names[word], self._tables.words) for other in self._by_synset.get(synset, ())}
            synonyms = {other for other in synonyms if self._lexicon.hashes[other] != hash_}
            units += synonyms
            kinds += [align.SYNONYM] * len(synonyms)
            sizes.append(len(units) - before)
        self._word_rows[words] = np.arange(words.size) + self.starts.size - 1
        self._append(np.array(units, np.int64) + _WORD_UNIT, np.array(kinds, np.int8), np.zeros(len(units), np.int32), sizes)

    def _learn_phrases(self, phrases: Array) -> None:
        table = self._tables.phrases
        parts = []
        for kind, starts, others in (
            (align.PARAPHRASE, table.source_starts, table.sources),
            (align.PARAPHRASE_REVERSED, table.target_starts, table.targets),
        ):
            begin = starts[phrases].astype(np.int64)
            at, owner = spread(begin, starts[phrases + 1] - begin)
            unit = others[at]
            kept = self._present[unit]
            at, owner, unit = at[kept], owner[kept], unit[kept]
            rank = table.source_ranks[at] if kind == align.PARAPHRASE else at - begin[owner]
            parts.append((owner, unit, np.full(unit.size, kind, np.int8), rank))
        owner, unit, kind_, rank = (np.concatenate(column) for column in zip(*parts, strict=True))
        by_owner = np.argsort(owner, kind="stable")
        self._phrase_rows[phrases] = np.arange(phrases.size) + self.starts.size - 1
        self._append(unit[by_owner].astype(np.int64), kind_[by_owner], rank[by_owner], np.bincount(owner, minlength=phrases.size))

    def _append(self, unit: Array, kind: Array, rank: Array, sizes: Any) -> None:
        self.starts = np.append(self.starts, self.starts[-1] + np.cumsum(np.asarray(sizes, np.int64)))
        self.unit = np.append(self.unit, unit)
        self.kind = np.append(self.kind, kind)
        self.rank = np.append(self.rank, rank.astype(np.int32))


class MeteorIndex:
    """METEOR 1.5 against the references of a set of videos."""

    def __init__(self, references: Mapping[str, Sequence[Sequence[str]]], tables: Tables | None = None) -> None:
        self._tables = tables or default_tables()
        self._lexicon = Lexicon(self._tables.words)
        self._videos = {video: number for number, video in enumerate(references)}
        words: list[int] = []
        lengths: list[int] = []
        num_references: list[int] = []
        for video, sentences in references.items():
            distinct = dict.fromkeys(
                tuple(sentence) for tokens in sentences for sentence in self._sentences(tokens)
            )  # a repeated reference can never be the first with the highest score
            if not distinct:
                raise WatchwordError(f"video {video!r} has no references to score against")
            num_references.append(len(distinct))
            for sentence in distinct:
                lengths.append(len(sentence))
                words += self._lexicon.number(list(sentence))
        self._lexicon.learn()
        self.word = np.array(words, np.int64)
        self.reference_starts = np.append(0, np.cumsum(np.array(lengths, np.int64)))
        self.video_starts = np.append(0, np.cumsum(np.array(num_references, np.int64)))
        self._index()

    def _sentences(self, tokens: Sequence[str]) -> list[list[str]]:
        """A reference as METEOR reads it: `|||` is its separator, so a reference that has one is several."""
        return [normalise(part, self._tables.words.prefixes) for part in " ".join(tokens).split("|||")]

    def _index(self) -> None:
        reference = np.repeat(np.arange(self.reference_starts.size - 1), np.diff(self.reference_starts))
        video = np.repeat(np.arange(self.video_starts.size - 1), np.diff(self.video_starts))[reference]
        at, length, unit = self._units(self.word, reference)
        key = (video[at] << 32) | unit
        order = np.argsort(key, kind="stable")
        key = key[order]
        begins = np.flatnonzero(np.diff(key, prepend=-1))
        self.unit_keys = key[begins]  # (video, unit), sorted
        self.unit_starts = np.append(begins, key.size)
        self.place = at[order]  # flat word places
        self.place_length = length[order]
        self.place_reference = reference[self.place]
        self.function_sums = np.append(0, np.cumsum(self._lexicon.function[self.word]))
        self.sequence = self._sequence_keys(self.word, self.reference_starts)
        self._related = Related(
            self._tables, self._lexicon, np.unique(self.word), np.unique(unit[unit < _WORD_UNIT])
        )
        self._memory: dict[tuple[int, str], tuple[tuple[float, ...], float]] = {}

    def _sequence_keys(self, words: Array, starts: Array) -> Array:
        """A number for each sentence's row of word hashes."""
        out = np.empty(starts.size - 1, np.int64)
        hashes = self._lexicon.hashes[words]
        for n, (a, b) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
            out[n] = hash(hashes[a:b].tobytes())
        return out

    def _units(self, words: Array, sentence: Array) -> tuple[Array, Array, Array]:
        """Every unit in rows of words: first place, length in words, unit. `sentence` says where a row ends."""
        ats, lengths, units = [np.arange(words.size)], [np.ones(words.size, np.int64)], [words + _WORD_UNIT]
        keys, known = self._lexicon.keys[words], self._lexicon.in_tables[words]
        whole = known.copy()
        for length in range(1, min(LONGEST, words.size) + 1):
            stop = words.size - length + 1
            whole = whole[:stop] & known[length - 1 :] & (sentence[:stop] == sentence[length - 1 :])
            at = np.flatnonzero(whole)
            found = self._tables.phrases.find(ngram_keys(keys, length)[at])
            at, found = at[found >= 0], found[found >= 0]
            ats.append(at)
            lengths.append(np.full(at.size, length))
            units.append(found.astype(np.int64))
        return np.concatenate(ats), np.concatenate(lengths), np.concatenate(units)

    # -- candidates ---------------------------------------------------------------------------------------------

    def _candidates(self, videos: Array, words: Array, starts: Array, pair_starts: Array) -> Candidates:
        """Every possible match of each hypothesis with each reference of its video; pairs are numbered in that order."""
        sentence = np.repeat(np.arange(starts.size - 1), np.diff(starts))
        at, length, unit = self._units(words, sentence)
        rows = self._related.rows(unit)
        begin = self._related.starts[rows]
        related, source = spread(begin, self._related.starts[rows + 1] - begin)
        key = (videos[sentence[at]][source] << 32) | self._related.unit[related]
        found = np.searchsorted(self.unit_keys, key)
        found[found == self.unit_keys.size] = 0
        hit = np.flatnonzero(self.unit_keys[found] == key)
        found, related, source = found[hit], related[hit], source[hit]
        places, owner = spread(self.unit_starts[found], self.unit_starts[found + 1] - self.unit_starts[found])
        related, source = related[owner], source[owner]
        hypothesis = sentence[at][source]
        reference = self.place_reference[places]
        return Candidates(
            pair=pair_starts[hypothesis] + reference - self.video_starts[videos[hypothesis]],
            reference=self.place[places] - self.reference_starts[reference],
            reference_length=self.place_length[places],
            hypothesis=at[source] - starts[hypothesis],
            hypothesis_length=length[source],
            kind=self._related.kind[related],
            rank=self._related.rank[related],
        )

    def debug(self, items: list[tuple[str, Sequence[str]]]) -> tuple[Array, Array]:
        """Statistics of all pairs, no pruning."""
        sentences = [normalise(" ".join(tokens).replace("|||", "").replace("  ", " "), self._tables.words.prefixes) for _, tokens in items]
        words = np.array([number for sentence in sentences for number in self._lexicon.number(sentence)], np.int64)
        self._lexicon.learn()
        starts = np.append(0, np.cumsum([len(sentence) for sentence in sentences]))
        videos = np.array([self._videos[video] for video, _ in items])
        counts = self.video_starts[videos + 1] - self.video_starts[videos]
        pair_starts = np.append(0, np.cumsum(counts))
        candidates = self._candidates(videos, words, starts, pair_starts)
        reference, hypothesis = spread(self.video_starts[videos], counts)
        identical = self._sequence_keys(words, starts)[hypothesis] == self.sequence[reference]
        candidates = candidates.take(np.flatnonzero(~identical[candidates.pair] | (candidates.kind == align.EXACT)))
        candidates = candidates.take(candidates.order())
        stats = self._align(candidates, reference, hypothesis, words, starts)
        return stats, pair_starts

    def _align(self, candidates: Candidates, reference: Array, hypothesis: Array, words: Array, starts: Array) -> Array:
        reference_lengths = np.diff(self.reference_starts)[reference]
        hypothesis_lengths = np.diff(starts)[hypothesis]
        found = align.align(candidates, reference_lengths, hypothesis_lengths)
        sums = np.append(0, np.cumsum(self._lexicon.function[words]))
        stats = np.zeros((reference.size, score.NUM_STATISTICS), np.int64)
        chosen = candidates.take(found.match)
        module = np.minimum(chosen.kind, align.PARAPHRASE).astype(np.int64)
        for side, (function_sums, flat, first, length, own_lengths) in enumerate((
            (sums, starts[hypothesis], chosen.hypothesis, chosen.hypothesis_length, hypothesis_lengths),
            (self.function_sums, self.reference_starts[reference], chosen.reference, chosen.reference_length, reference_lengths),
        )):
            begin = flat[chosen.pair] + first
            function = function_sums[begin + length] - function_sums[begin]
            stats[:, score.LENGTH + side] = own_lengths
            stats[:, score.FUNCTION + side] = function_sums[flat + own_lengths] - function_sums[flat]
            np.add.at(stats, (chosen.pair, score.MODULES + 4 * module + side), length - function)
            np.add.at(stats, (chosen.pair, score.MODULES + 4 * module + 2 + side), function)
            np.add.at(stats, (chosen.pair, score.MATCHED + side), length)
        stats[:, score.CHUNKS] = found.chunks
        return stats
