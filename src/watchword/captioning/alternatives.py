"""Captions of one segment that differ in content: another wording of the same is no alternative."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from snowballstemmer.english_stemmer import EnglishStemmer

from watchword.text.vocabulary import NEVER_LAST

SAME = 0.5  # share of common stems: "a man is talking" and "a man talks to a woman" say the same
T = TypeVar("T")


@lru_cache(10_000)
def _stem(word: str) -> str:
    return str(EnglishStemmer().stemWord(word))


def say_the_same(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether half of the stems of two captions are common; articles, prepositions and the like do not count."""
    first, second = ({_stem(word) for word in words if word not in NEVER_LAST} for words in (one, other))
    return first == second or len(first & second) >= SAME * len(first | second)


def split_by_content(captions: Iterable[T], words: Callable[[T], Sequence[str]]) -> tuple[list[T], list[T]]:
    """Captions that say something else than all before them, and those that only word it differently."""
    different: list[T] = []
    reworded: list[T] = []
    for caption in captions:
        is_known = any(say_the_same(words(caption), words(other)) for other in different)
        (reworded if is_known else different).append(caption)
    return different, reworded
