"""How often words are said, and of how many videos: what the bias of a corpus is made of."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from watchword.text.ptb import tokenise


@dataclass(frozen=True)
class WordCounts:
    """The words of one video's captions."""

    num_captions: int  # that say anything: punctuation alone is no caption
    captions: Mapping[str, int]  # word -> captions that contain it, once or more
    times: Mapping[str, int]  # word -> how often it is said in all of them


def count_words(references: Mapping[str, Sequence[str]]) -> dict[str, WordCounts]:
    """Video -> its words, read as the vocabulary and the metrics read them."""
    everything = tokenise([caption for captions in references.values() for caption in captions], context="line")
    sentences = iter(everything)
    found = {}
    for video, captions in references.items():
        spoken = [words for words in (next(sentences) for _ in captions) if words]
        containing = Counter(word for words in spoken for word in set(words))
        times = Counter(word for words in spoken for word in words)
        found[video] = WordCounts(len(spoken), containing, times)
    return found


def videos_with(counts: Mapping[str, WordCounts]) -> Counter[str]:
    """Word -> videos of which it is said."""
    return Counter(word for video in counts.values() for word in video.captions)
