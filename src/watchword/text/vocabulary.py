"""The vocabulary: tokens and their numbers, how often words occur, and pretrained word vectors.

Below it captions as text: words that cannot be the last, spelling, capital and full stop.
"""

import gzip
import hashlib
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, log
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from watchword.errors import WatchwordError

SPECIALS = ("<pad>", "<bos>", "<eos>", "<unk>")  # rows 0 to 3, as `tensors.py` numbers them


class Vocabulary:
    """The words that a model can generate, and their information content. The first four rows are special tokens."""

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
        """The words that occur `min_count` times or more in the captions of all videos, the most frequent first."""
        counts = Counter(word for captions in videos for caption in captions for word in caption)
        spread = Counter(word for captions in videos for word in {word for caption in captions for word in caption})
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
        """The words up to the end of the caption."""
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
        except OSError as error:
            raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise WatchwordError(f"{path} is not UTF-8 text: it was damaged after training") from error
        except ValueError as error:
            raise WatchwordError(f"{path} is no vocabulary ({error}): it was damaged after training") from error


# --- how often words occur -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class WordCounts:
    """The words of one video's captions."""

    num_captions: int  # with at least one word
    captions: Mapping[str, int]  # word -> captions that contain it, once or more
    times: Mapping[str, int]  # word -> how often it occurs in all of them


def count_words(references: Mapping[str, Sequence[str]]) -> dict[str, WordCounts]:
    """Video -> its words, tokenised as for the vocabulary and the metrics."""
    from watchword.text.ptb import tokenise  # describing reads a vocabulary, and no tokenizer

    everything = tokenise([caption for captions in references.values() for caption in captions], context="line")
    tokens = iter(everything)
    found = {}
    for video, captions in references.items():
        tokenised = [words for words in (next(tokens) for _ in captions) if words]
        containing = Counter(word for words in tokenised for word in set(words))
        times = Counter(word for words in tokenised for word in words)
        found[video] = WordCounts(len(tokenised), containing, times)
    return found


def videos_with(counts: Mapping[str, WordCounts]) -> Counter[str]:
    """Word -> videos with it in a caption."""
    return Counter(word for video in counts.values() for word in video.captions)


# --- word vectors ----------------------------------------------------------------------------------------------------


LONGEST_WORD = 2000  # bytes; more without a space is no word vector


def read_word_vectors(path: Path, vocabulary: Vocabulary) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The numbers of the words that the file has, (M,), and their vectors, (M, E).

    | file | content |
    |---|---|
    | GloVe's text | a line a word: the word, then its numbers |
    | word2vec's text | the same after a line of two numbers: how many words, how many numbers each |
    | word2vec's binary (`.bin`, as GoogleNews-vectors-negative300.bin) | that line, then word, space, float32 numbers |

    Any may be gzipped. Only vectors of the vocabulary are kept: a file of gigabytes needs no memory. A word stands for
    itself, else for its spelling with a capital: captions are lower case, word2vec has `Paris`.
    """
    exact: dict[str, NDArray[np.float32]] = {}
    capital: dict[str, NDArray[np.float32]] = {}
    try:
        with _open(path) as file:
            for word, vector in _vectors(file, path):
                if word in vocabulary and word not in SPECIALS:
                    exact.setdefault(word, vector.copy())
                elif word.lower() in vocabulary and word.lower() not in SPECIALS:
                    capital.setdefault(word.lower(), vector.copy())
    except (OSError, EOFError, zlib.error) as error:
        raise WatchwordError(f"cannot read word vectors {path}: {getattr(error, 'strerror', None) or error}") from error
    found = capital | exact
    if not found:
        raise WatchwordError(f"{path} has none of the vocabulary's {len(vocabulary) - len(SPECIALS):,} words")
    return np.array(vocabulary.encode(found), np.int64), np.stack(list(found.values()))


def _open(path: Path) -> IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    return gzip.open(path) if zipped else path.open("rb")  # type: ignore[return-value]


def _vectors(file: Any, path: Path) -> Iterator[tuple[str, NDArray[np.float32]]]:
    first = file.readline()
    header = first.split()
    counted = len(header) == 2 and all(part.isdigit() for part in header)
    if counted and path.name.removesuffix(".gz").endswith(".bin"):
        yield from _binary(file, path, int(header[0]), int(header[1]))
        return
    size = int(header[1]) if counted else len(first.rstrip().split(b" ")) - 1
    for number, line in enumerate(file if counted else _with_first(first, file), 2 if counted else 1):
        # from the right: a few of GloVe's words hold spaces
        parts = line.rstrip().rsplit(b" ", size)
        try:
            if len(parts) != size + 1 or size < 1:
                raise ValueError
            yield parts[0].decode("utf-8", "replace"), np.array(parts[1:], np.float32)
        except ValueError as error:
            raise WatchwordError(
                f"{path} line {number} is {line[:40]!r}, expected a word and {max(size, 1)} numbers: "
                "give a file of GloVe or word2vec (text, or binary with a name that ends in .bin)"
            ) from error


def _with_first(first: bytes, file: Any) -> Iterator[bytes]:
    yield first
    yield from file


def _binary(file: Any, path: Path, words: int, size: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    for number in range(words):
        word = bytearray()
        while (letter := file.read(1)) != b" ":
            if not letter or len(word) > LONGEST_WORD:
                raise WatchwordError(f"{path} is damaged: word {number + 1:,} of {words:,} does not end")
            word += letter
        data = file.read(4 * size)
        if len(data) < 4 * size:
            raise WatchwordError(f"{path} is damaged: it ends within word {number + 1:,} of {words:,}")
        yield word.lstrip(b"\n").decode("utf-8", "replace"), np.frombuffer(data, "<f4")


# After these words something must follow. In the 177,438 training captions of MSR-VTT and MSVD each of them is the last
# word in fewer than 3 of 100 places where it stands. Words that do end captions ("up", "around", "that") are not here.
NEVER_LAST = frozenset(
    """
    a an the this these those every each some few various two three four five several many bunch
    his its my our their your
    of to in on at by for from with without into onto through between among towards toward during against beside under
    near about as than after across
    and or but nor while when where who which whose because if then
    is are was were be been being am has have having does will would should may must
    very young old older little small large different new animated
    showing wearing holding giving making getting using putting taking trying adding pouring laying telling describing
    explaining featuring carrying gives gets puts tries adds holds describes discusses
    he she they i we how what front 's
""".split()
)
JOINED = frozenset(["'s", "'re", "'ve", "'ll", "'d", "'m", "n't", "'"])  # PTB writes them as words of their own


def never_last(vocabulary: Vocabulary) -> list[int]:
    """The numbers of the words that cannot end a caption."""
    return [number for number, word in enumerate(vocabulary.words) if word in NEVER_LAST]


def without_loose_end(words: Sequence[str]) -> tuple[str, ...]:
    """A caption that was cut off, up to the last word that may end it; all of it if there is none."""
    for length in range(len(words), 0, -1):
        if words[length - 1] not in NEVER_LAST:
            return tuple(words[:length])
    return tuple(words)


def spelled(words: Iterable[str]) -> str:
    """Tokens as people write them: "a man 's dog does n't bark" has two spaces too many."""
    text = ""
    for word in words:
        text += word if not text or word in JOINED else f" {word}"
    return text


def as_sentence(text: str) -> str:
    """For subtitles and screen readers: with a capital and a full stop."""
    text = text.strip()
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""
