"""How often words occur in captions, and in how many videos."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watchword.text.ptb import tokenise


@dataclass(frozen=True)
class WordCounts:
    """The words of one video's captions."""

    num_captions: int  # with at least one word
    captions: Mapping[str, int]  # word -> captions that contain it, once or more
    times: Mapping[str, int]  # word -> how often it occurs in all of them


def count_words(references: Mapping[str, Sequence[str]]) -> dict[str, WordCounts]:
    """Video -> its words, tokenised as for the vocabulary and the metrics."""
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
