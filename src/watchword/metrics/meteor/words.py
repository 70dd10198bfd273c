"""Words, numbered, each looked up once; and which units of the references match a unit of a hypothesis.

A *unit* is what METEOR matches: a word, or a phrase of the paraphrase table. Units are numbered: phrases by their
place in the table, words from WORD_UNIT on.
"""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Self

import numpy as np

from watchword.metrics.meteor.align import EXACT, PARAPHRASE, PARAPHRASE_REVERSED, STEM, SYNONYM
from watchword.metrics.meteor.arrays import Array, java_hash, spread
from watchword.metrics.meteor.normalise import stem
from watchword.metrics.meteor.tables import Phrases, Words

FACTS = ("hashes", "stems", "keys", "in_tables", "function", "sense_starts", "senses")


class Lexicon:
    """Numbers words from 0 on; `learn` looks up the facts of new ones in METEOR's tables."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._numbers = _Numbers()
        self.names: list[str] = []
        self.hashes: Array = np.empty(0, np.int32)
        self.stems: Array = np.empty(0, np.int32)
        self.keys: Array = np.empty(0, np.uint64)
        self.in_tables: Array = np.empty(0, np.bool_)
        self.function: Array = np.empty(0, np.bool_)
        self.sense_starts: Array = np.zeros(1, np.int64)
        self.senses: Array = np.empty(0, np.int32)  # a word's are at sense_starts[number] .. sense_starts[number + 1]

    @classmethod
    def restore(cls, words: Words, names: Iterable[str], facts: Mapping[str, Array]) -> Self:
        """As it was when its names and FACTS were kept."""
        lexicon = cls(words)
        lexicon.names = list(names)
        lexicon.number(lexicon.names)
        for name in FACTS:
            setattr(lexicon, name, facts[name])
        return lexicon

    def number(self, words: Iterable[str]) -> list[int]:
        return list(map(self._numbers.__getitem__, words))

    def learn(self) -> None:
        new = list(islice(self._numbers, len(self.names), None))
        if not new:
            return
        tables = self._words
        rows = np.array([tables.rows.get(word, -1) for word in new])
        senses = [tables.senses_of(word) for word in new]
        self.names += new
        self.hashes = np.append(self.hashes, np.array([java_hash(word) for word in new], np.int32))
        self.stems = np.append(self.stems, np.array([java_hash(stem(word)) for word in new], np.int32))
        self.keys = np.append(self.keys, np.where(rows < 0, np.uint64(0), tables.keys[rows]))
        self.in_tables = np.append(self.in_tables, rows >= 0)
        self.function = np.append(self.function, [word in tables.function for word in new])
        self.sense_starts = np.append(self.sense_starts, self.sense_starts[-1] + np.cumsum([*map(len, senses)]))
        self.senses = np.append(self.senses, np.array([one for each in senses for one in each], np.int32))


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number


# --- units that match ------------------------------------------------------------------------------------------------


WORD_UNIT = 1 << 31


class Related:
    """Related units of the references for each unit of a hypothesis: found when first asked for, then kept."""

    def __init__(self, phrases: Phrases, lexicon: Lexicon, present: Array) -> None:
        """`present`: the phrases that the references have; their words are all that the lexicon has by now."""
        self._phrases, self._lexicon = phrases, lexicon
        self._present = np.zeros(phrases.keys.size, np.bool_)
        self._present[present] = True
        owner, classes = self._classes(np.arange(len(lexicon.names)))
        order = np.argsort(classes, kind="stable")
        self._class_words, classes = owner[order], classes[order]
        first = np.flatnonzero(np.diff(classes, prepend=-1))
        self._classes_present, self._class_starts = classes[first], np.append(first, classes.size)

        self._phrase_rows = np.full(phrases.keys.size, -1, np.int32)
        self._word_rows: Array = np.empty(0, np.int32)
        self.starts: Array = np.zeros(1, np.int64)  # related units of a row are at starts[row] .. starts[row + 1]
        self.unit: Array = np.empty(0, np.int64)
        self.kind: Array = np.empty(0, np.int8)
        self.rank: Array = np.empty(0, np.int32)

    def rows(self, units: Array) -> Array:
        """The row of each unit."""
        unknown = np.full(len(self._lexicon.names) - self._word_rows.size, -1, np.int32)
        self._word_rows = np.append(self._word_rows, unknown)
        is_word = units >= WORD_UNIT
        words, phrases = units[is_word] - WORD_UNIT, units[~is_word]
        self._learn_words(np.unique(words[self._word_rows[words] < 0]))
        self._learn_phrases(np.unique(phrases[self._phrase_rows[phrases] < 0]))
        rows = np.empty(units.size, np.int32)
        rows[is_word] = self._word_rows[words]
        rows[~is_word] = self._phrase_rows[phrases]
        return rows

    def _classes(self, words: Array) -> tuple[Array, Array]:
        """What words have in common when they match: a hash, a stem, a synset. Owner (a place in `words`) and class."""
        lexicon = self._lexicon
        first = lexicon.sense_starts[words]
        senses, owner = spread(first, lexicon.sense_starts[words + 1] - first)
        parts = ((EXACT, lexicon.hashes[words]), (STEM, lexicon.stems[words]), (SYNONYM, lexicon.senses[senses]))
        classes = [(kind << 32) | (values.astype(np.int64) & 0xFFFFFFFF) for kind, values in parts]
        each = np.arange(words.size)
        return np.concatenate([each, each, owner]), np.concatenate(classes)

    def _learn_words(self, words: Array) -> None:
        if not words.size:
            return
        owner, classes = self._classes(words)
        at = np.searchsorted(self._classes_present, classes)
        at[at == self._classes_present.size] = 0
        hit = self._classes_present[at] == classes if self._classes_present.size else np.zeros(at.size, np.bool_)
        at, owner, kind = at[hit], owner[hit], classes[hit] >> 32
        places, which = spread(self._class_starts[at], self._class_starts[at + 1] - self._class_starts[at])
        owner, kind, other = owner[which], kind[which], self._class_words[places]
        hashes = self._lexicon.hashes
        differ = (kind == EXACT) | (hashes[words[owner]] != hashes[other])
        # Two words that share several synsets match once.
        packed = np.unique((owner[differ] << 40) | (kind[differ] << 36) | other[differ])
        owner, kind, other = packed >> 40, (packed >> 36) & 15, packed & ((1 << 36) - 1)
        self._word_rows[words] = np.arange(words.size) + self.starts.size - 1
        self._keep(owner, words.size, other + WORD_UNIT, kind, np.zeros(other.size, np.int32))

    def _learn_phrases(self, phrases: Array) -> None:
        if not phrases.size:
            return
        table = self._phrases
        columns = []
        for kind, starts, others in (
            (PARAPHRASE, table.source_starts, table.sources),
            (PARAPHRASE_REVERSED, table.target_starts, table.targets),
        ):
            first = starts[phrases]
            places, owner = spread(first, starts[phrases + 1] - first)
            unit = others[places]
            kept = self._present[unit]
            places, owner, unit = places[kept], owner[kept], unit[kept]
            rank = table.source_ranks[places] if kind == PARAPHRASE else places - first[owner]
            columns.append((owner, unit, np.full(unit.size, kind), rank))
        owner, unit, kinds, rank = (np.concatenate(column) for column in zip(*columns, strict=True))
        order = np.argsort(owner, kind="stable")
        self._phrase_rows[phrases] = np.arange(phrases.size) + self.starts.size - 1
        self._keep(owner[order], phrases.size, unit[order], kinds[order], rank[order])

    def _keep(self, owner: Array, count: int, unit: Array, kind: Array, rank: Array) -> None:
        self.starts = np.append(self.starts, self.starts[-1] + np.cumsum(np.bincount(owner, minlength=count)))
        self.unit = np.append(self.unit, unit.astype(np.int64))
        self.kind = np.append(self.kind, kind.astype(np.int8))
        self.rank = np.append(self.rank, rank.astype(np.int32))
