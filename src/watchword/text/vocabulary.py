"""Words and their numbers."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from watchword.errors import WatchwordError

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")  # rows 0 to 3, as `tensors.py` numbers them


class Vocabulary:
    """The words that a captioner knows. The first four rows are never words of a sentence."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words: tuple[str, ...] = (*SPECIALS, *words)
        self._number = {word: number for number, word in enumerate(self.words)}
        if len(self._number) != len(self.words):
            twice = [word for word, count in Counter(self.words).items() if count > 1]
            raise WatchwordError(f"the vocabulary holds {twice[0]!r} twice")

    @classmethod
    def build(cls, sentences: Iterable[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """Every word said at least `min_count` times, the most frequent first."""
        counts = Counter(word for sentence in sentences for word in sentence)
        kept = [word for word, count in counts.items() if count >= min_count and word not in SPECIALS]
        return cls(sorted(kept, key=lambda word: (-counts[word], word)))

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._number

    def encode(self, words: Iterable[str]) -> list[int]:
        unknown = self._number["<unk>"]
        return [self._number.get(word, unknown) for word in words]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The words up to the end of the sentence."""
        words = []
        for number in numbers:
            word = self.words[number]
            if word == "<eos>":
                break
            if word not in ("<pad>", "<bos>"):
                words.append(word)
        return words

    @property
    def checksum(self) -> str:
        """Ties weights to the words they were trained with."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """One word a line, as `load` reads it."""
        return "\n".join(self.words[len(SPECIALS) :]) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        try:
            return cls(path.read_text("utf-8").split("\n")[:-1])
        except FileNotFoundError as error:
            raise WatchwordError(f"{path} is missing: is {path.parent} a run folder of watchword train?") from error
        except UnicodeDecodeError as error:
            raise WatchwordError(f"{path} is not UTF-8 text: it was damaged after training") from error
