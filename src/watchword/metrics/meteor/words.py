"""Words as they come, numbered, each looked up once."""

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Self

import numpy as np

from watchword.metrics.meteor.flat import Array, spread
from watchword.metrics.meteor.hashing import java_hash
from watchword.metrics.meteor.stem import stem
from watchword.metrics.meteor.tables import Words

FACTS = ("hashes", "stems", "keys", "in_tables", "function", "sense_starts", "senses")


class Lexicon:
    """Numbers words from 0 on; `learn` looks up what METEOR knows of those that are new."""

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
        hashes, stems, keys = tables.hashes[rows], tables.stems[rows], tables.keys[rows]
        first, sizes = tables.sense_starts[rows], np.diff(tables.sense_starts)[rows]
        strange = {place: tables.senses_of(new[place]) for place in np.flatnonzero(rows < 0).tolist()}
        for place, senses in strange.items():
            hashes[place], stems[place], keys[place] = java_hash(new[place]), java_hash(stem(new[place])), 0
            sizes[place] = len(senses)
        places, owner = spread(np.where(rows < 0, 0, first), sizes)
        found = tables.senses[places]
        for place, senses in strange.items():
            if senses:
                found[owner == place] = senses
        self.names += new
        self.hashes = np.append(self.hashes, hashes)
        self.stems = np.append(self.stems, stems)
        self.keys = np.append(self.keys, keys)
        self.in_tables = np.append(self.in_tables, rows >= 0)
        self.function = np.append(self.function, [word in tables.function for word in new])
        self.sense_starts = np.append(self.sense_starts, self.sense_starts[-1] + np.cumsum(sizes))
        self.senses = np.append(self.senses, found)


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
