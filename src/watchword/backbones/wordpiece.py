"""BERT's tokenizer: words without case and accents, cut into the longest pieces that a vocabulary has.

Devlin et al. 2018, arXiv:1810.04805; greedy longest match first: Wu et al. 2016, arXiv:1609.08144.
One thing is left out on purpose: "[SEP]" in a sentence is text here, never the mark that ends it.
"""

import unicodedata
from collections.abc import Iterator, Mapping

LONGEST_WORD = 100  # letters; a longer one is unknown
IDEOGRAPHS = (  # CJK: each is a word
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class WordPiece:
    """Sentences to numbers of pieces, between [CLS] and [SEP]."""

    def __init__(self, vocabulary: Mapping[str, int]) -> None:
        self.vocabulary = vocabulary
        self.unknown, self.first, self.last = (vocabulary[mark] for mark in ("[UNK]", "[CLS]", "[SEP]"))

    def __call__(self, sentence: str, most: int) -> list[int]:
        """At most so many numbers, the two marks included."""
        pieces = [piece for word in words(sentence) for piece in self.pieces(word)]
        return [self.first, *pieces[: most - 2], self.last]

    def pieces(self, word: str) -> list[int]:
        """A word that cannot be put together is unknown as a whole."""
        if len(word) > LONGEST_WORD:
            return [self.unknown]
        found: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if start == 0 else f"##{word[start:end]}"
                if piece in self.vocabulary:
                    found.append(self.vocabulary[piece])
                    start = end
                    break
            else:
                return [self.unknown]
        return found


def words(sentence: str) -> list[str]:
    """Small letters without accents; every mark and every ideograph stands alone."""
    spaced = "".join(_spaced(sentence))
    plain = (char for char in unicodedata.normalize("NFD", spaced) if unicodedata.category(char) != "Mn")
    small = "".join(char.lower() for char in plain)  # letter by letter: no final sigma
    return "".join(f" {char} " if _is_mark(char) else char for char in small).split()


def _spaced(sentence: str) -> Iterator[str]:
    for char in sentence:
        if char in "\t\n\r":
            yield " "
        elif unicodedata.category(char)[0] == "C" or char == "\ufffd":
            continue  # what cannot be seen
        elif any(low <= ord(char) <= high for low, high in IDEOGRAPHS):
            yield f" {char} "
        else:
            yield char


def _is_mark(char: str) -> bool:
    """Punctuation, and of ASCII also what Unicode calls symbols: $ + < = > ^ ` | ~"""
    return unicodedata.category(char)[0] == "P" or (char.isascii() and not char.isalnum() and not char.isspace())
