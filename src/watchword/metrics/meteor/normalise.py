"""METEOR's own normalisation and stems: what it does to a line before it matches words.

Moses-like tokenisation with fixed character ranges, then lower case. Found black-box, character by character, so the
character classes are METEOR's, not Unicode's. Stems and base forms are those of METEOR 1.5.
"""

import re
from collections.abc import Callable, Container, Mapping, Sequence

from snowballstemmer.english_stemmer import EnglishStemmer  # itself: `snowballstemmer.stemmer` may hand over to another

_ALPHA = "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u017e\u0400-\u0527\u1d00-\u1d7f\ua640-\ua66e\ua67e-\ua697"
_ALNUM = _ALPHA + "0-9"
_SPACES = " \t\n\r\f"  # what separates words; a vertical tab is kept inside a word
_CONTROLS = "".join(map(chr, range(33)))  # what Java's trim takes off both ends
_DOT = "\udc2e"  # stands in for a dot of a run: a lone surrogate, which no input has once `_LONE` is replaced

_PLAIN = re.compile(r"[A-Za-z0-9 ]*")
_WIDE_SPACE = re.compile("[\u00a0\u2000-\u200a\u202f\u205f\u3000]")
_LONE = re.compile("[\ud800-\udfff]")

_Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]
_RULES: list[_Rule] = [
    (re.compile(rf"([^{_ALNUM}{_SPACES}\x0b.'`,\-‘’])"), r" \1 "),
    (re.compile(r"\.{2,}"), lambda dots: " " + _DOT * len(dots[0]) + " "),  # runs of dots are one word
    (re.compile(r"([^0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([0-9]),([^0-9])"), r"\1 , \2"),
    (re.compile(r"([^0-9]),([0-9])"), r"\1 , \2"),
    (re.compile(r"[`‘’]"), "'"),
    (re.compile(r"''|[“”]"), ' " '),
    (re.compile(r"–"), "-"),
    (re.compile(r"--"), "-"),
    (re.compile(rf"([{_ALNUM}.])-([{_ALNUM}])"), r"\1 \2"),
    (re.compile(rf"([^{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([^{_ALNUM}])'([{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([^{_ALPHA}])"), r"\1 ' \2"),
    (re.compile(rf"([{_ALPHA}])'([{_ALPHA}])"), r"\1 '\2"),
    (re.compile(r"([0-9])'(s)"), r"\1 '\2"),
]


def normalise(line: str, prefixes: Mapping[str, bool]) -> list[str]:
    """The lower-case words of METEOR; `prefixes` says of each abbreviation whether only a number may follow."""
    if _PLAIN.fullmatch(line):  # nearly every caption
        return line.lower().split()
    line = " " + _LONE.sub("\ufffd", line) + " "
    for pattern, replacement in _RULES:
        line = pattern.sub(replacement, line)
    words = re.split(f"[{_SPACES}]+", line.strip(_SPACES))
    parted: list[str] = []
    for word, following in zip(words, [*words[1:], ""], strict=True):
        parted += _final_dot(word, following, prefixes)
    line = _WIDE_SPACE.sub(" ", " ".join(parted).replace(_DOT, ".")).strip(_CONTROLS).lower()
    return [word for word in re.split(f"[{_SPACES}]+", line) if word]


def _final_dot(word: str, following: str, prefixes: Mapping[str, bool]) -> list[str]:
    if len(word) < 2 or not word.endswith("."):
        return [word]
    stem = word[:-1]
    if "." in stem and re.search(f"[{_ALPHA}]", stem):
        return [word.replace(".", "")]  # u.s. -> us
    if re.match("[a-z]", following):
        return [word]
    if stem in prefixes and (not prefixes[stem] or re.match("[0-9]", following)):
        return [word]
    return [stem, "."]


# --- stems and base forms --------------------------------------------------------------------------------------------


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
