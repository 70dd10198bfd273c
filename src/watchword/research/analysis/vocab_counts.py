"""How rich the words of captions are, and whether the rare ones are said where they should be."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log2

from watchword.errors import WatchwordError
from watchword.text.counts import WordCounts, videos_with

AGREED = 0.5  # a word that at least this share of a video's captions say should be said of it


@dataclass(frozen=True)
class Diction:
    """Shares are 0..1."""

    sentences: int         # different ones
    words: int             # different ones
    mean_length: float     # words a sentence
    rare_words: int        # different rare ones
    rare_share: float      # rare ones of all that is said
    rare_recall: float     # of the rare words that people agree on for a video, those that are said of it
    spread: float          # entropy of the frequencies of words, bits: as of 2 ** spread words that are as frequent


def diction(
    said: Mapping[str, Sequence[str]],
    references: Mapping[str, WordCounts],
    training: Mapping[str, WordCounts],
    rare: float,
) -> Diction:
    """Of one tokenised sentence a video. A word is rare that is said of at most this share of the training videos."""
    if not said:
        raise WatchwordError("there are no captions to measure")
    videos = videos_with(training)
    rarities = {word for word, count in videos.items() if count <= rare * len(training)}
    counts = Counter(word for words in said.values() for word in words)
    total = max(counts.total(), 1)
    wanted = [
        (video, word)
        for video in said
        for word, captions in references[video].captions.items()
        if word in rarities and captions >= AGREED * references[video].num_captions
    ]
    return Diction(
        sentences=len({tuple(words) for words in said.values()}),
        words=len(counts),
        mean_length=counts.total() / len(said),
        rare_words=len(rarities & counts.keys()),
        rare_share=sum(counts[word] for word in rarities) / total,
        rare_recall=sum(word in said[video] for video, word in wanted) / len(wanted) if wanted else 0.0,
        spread=-sum(count / total * log2(count / total) for count in counts.values()),
    )
