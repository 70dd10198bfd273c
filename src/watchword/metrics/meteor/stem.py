"""Stems and base forms of words, as METEOR 1.5 has them."""

from collections.abc import Container, Mapping, Sequence

from snowballstemmer.english_stemmer import EnglishStemmer  # itself: `snowballstemmer.stemmer` may hand over to another

_STEMMER = EnglishStemmer()

_SUFFIXES = (  # of nouns, verbs, adjectives: WordNet's rules of detachment, in METEOR's order
    ("s", ""), ("ses", "s"), ("xes", "x"), ("zes", "z"), ("ches", "ch"), ("shes", "sh"), ("men", "man"), ("ies", "y"),
    ("es", "e"), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""),
    ("er", ""), ("est", ""), ("er", "e"), ("est", "e"),
)  # fmt: skip


def stem(word: str) -> str:
    """Snowball English before version 3.0."""
    stemmed: str = _STEMMER.stemWord(word)
    return stemmed


def base_forms(word: str, irregular: Mapping[str, Sequence[str]], dictionary: Container[str]) -> Sequence[str]:
    """What the word may be a form of: the irregular bases, else the first that the rules find in the dictionary."""
    if word in irregular:
        return irregular[word]
    if len(word) > 2 and not word.endswith("ss"):
        for suffix, ending in _SUFFIXES:
            if word.endswith(suffix):
                base = word[: len(word) - len(suffix)] + ending
                if base in dictionary:
                    return [base]
    return []
