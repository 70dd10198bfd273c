"""What METEOR knows of single words: numbered as they come, each looked at once."""

from typing import Any

import numpy as np
import numpy.typing as npt

from watchword.metrics.meteor.stem import java_hash, stem
from watchword.metrics.meteor.tables import Words

Array = npt.NDArray[Any]

_SUFFIXES = (  # of nouns, verbs, adjectives: WordNet's rules of detachment, in METEOR's order
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip


def synsets(word: str, words: Words) -> frozenset[int]:
    """Synsets of the word and of its base forms: the irregular ones, else the first that the rules find."""
    found = words.own_synsets(word)
    irregular = words.bases.get(word)
    if irregular is not None:
        return found.union(*(words.own_synsets(base) for base in irregular))
    if len(word) > 2 and not word.endswith("ss"):
        for suffix, ending in _SUFFIXES:
            if word.endswith(suffix):
                base = words.own_synsets(word[: len(word) - len(suffix)] + ending)
                if base:
                    return found | base
    return found


class Lexicon:
    """Numbers words as they come; `lexicon[word]` is the number. Facts of a word are looked up when it is new."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._numbers = _Numbers()
        self._known = 0
        self.hashes: Array = np.empty(0, np.int64)
        self.stems: Array = np.empty(0, np.int64)
        self.keys: Array = np.empty(0, np.uint64)
        self.in_tables: Array = np.empty(0, np.bool_)
        self.function: Array = np.empty(0, np.bool_)

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def words(self) -> list[str]:
        return list(self._numbers)

    def number(self, words: list[str]) -> list[int]:
        return list(map(self._numbers.__getitem__, words))

    def learn(self) -> list[str]:
        """Looks up the words that came since last time; returns them."""
        new = list(self._numbers)[self._known :]
        if new:
            tables = self._words
            rows = np.array([tables.rows.get(word, -1) for word in new])
            known = rows >= 0
            stems = np.zeros(len(new), np.int64)
            stems[known] = tables.stems[rows[known]]
            for place in np.flatnonzero(~known).tolist():
                stems[place] = java_hash(stem(new[place]))
            keys = np.zeros(len(new), np.uint64)
            keys[known] = tables.keys[rows[known]]
            self.hashes = np.append(self.hashes, [java_hash(word) for word in new])
            self.stems = np.append(self.stems, stems)
            self.keys = np.append(self.keys, keys)
            self.in_tables = np.append(self.in_tables, known)
            self.function = np.append(self.function, [word in tables.function for word in new])
            self._known += len(new)
        return new


class _Numbers(dict[str, int]):
    def __missing__(self, word: str) -> int:
        number = self[word] = len(self)
        return number
