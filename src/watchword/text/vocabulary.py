"""Words and their numbers."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf, log
from pathlib import Path

from watchword.errors import WatchwordError

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")  # rows 0 to 3, as `tensors.py` numbers them


class Vocabulary:
    """The words that a captioner knows, and how much each tells. The first four rows are never words of a sentence."""

    def __init__(self, words: Sequence[str], content: Sequence[float] | None = None) -> None:
        """`content`: the information content of each word, -log(its share of the training videos), where known."""
        self.words: tuple[str, ...] = (*SPECIALS, *words)
        self.content = None if content is None else (*(0.0 for _ in SPECIALS), *content)
        self._number = {word: number for number, word in enumerate(self.words)}
        if len(self._number) != len(self.words):
            twice = [word for word, count in Counter(self.words).items() if count > 1]
            raise WatchwordError(f"the vocabulary holds {twice[0]!r} twice")

    @classmethod
    def build(cls, videos: Sequence[Iterable[Sequence[str]]], min_count: int = 1) -> "Vocabulary":
        """Of each video's sentences every word that all say `min_count` times or more, the most frequent first."""
        counts = Counter(word for sentences in videos for sentence in sentences for word in sentence)
        spread = Counter(word for sentences in videos for word in {word for sentence in sentences for word in sentence})
        kept = [word for word, count in counts.items() if count >= min_count and word not in SPECIALS]
        kept.sort(key=lambda word: (-counts[word], word))
        return cls(kept, [log(len(videos) / spread[word]) for word in kept])

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
        """One word a line, after a tab its information content where known: as `load` reads it."""
        rows: Iterable[str] = self.words
        if self.content is not None:
            rows = (f"{word}\t{content:.4g}" for word, content in zip(self.words, self.content, strict=True))
        return "\n".join([*rows][len(SPECIALS) :]) + "\n"

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        try:
            rows = [line.split("\t") for line in path.read_text("utf-8").split("\n")[:-1]]
            content = [float(row[1]) for row in rows] if all(len(row) == 2 for row in rows) else None
            if content is not None and not all(0 <= value < inf for value in content):
                raise ValueError("a word's information content is a number from 0 on")
            return cls([row[0] for row in rows], content)
        except FileNotFoundError as error:
            raise WatchwordError(f"{path} is missing: is {path.parent} a run folder of watchword train?") from error
        except UnicodeDecodeError as error:
            raise WatchwordError(f"{path} is not UTF-8 text: it was damaged after training") from error
        except ValueError as error:
            raise WatchwordError(f"{path} is no vocabulary ({error}): it was damaged after training") from error
