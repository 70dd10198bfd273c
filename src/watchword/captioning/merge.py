"""Captions that are alike: neighbouring segments are merged, many are grouped into chapters, alternatives differ.

A long video has segments with similar captions side by side. One segment has captions that only word the same content
differently: these are no alternatives.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from watchword.captioning.description import Caption, Segment
from watchword.text.vocabulary import NEVER_LAST

SIMILAR = 0.65  # share of common content words: "a man is talking", "a man talks about something"
MAX_MERGED = 60.0  # seconds
MAX_GAP = 0.05  # seconds between segments that count as adjacent
MAX_CHAPTERS = 40  # for a video of any length
MIN_CHAPTER = 30.0  # seconds, unless the video is shorter


def are_similar(one: Caption, other: Caption) -> bool:
    """Whether two captions have the same text or mostly the same content words."""
    first, second = ({word.text for word in caption.words} - NEVER_LAST for caption in (one, other))
    together = len(first | second)
    return one.text == other.text or (together > 0 and len(first & second) / together >= SIMILAR)


def merge(one: Segment, other: Segment) -> Segment:
    """Both segments with the captions of the more confident one."""
    best = max(one, other, key=lambda segment: segment.best.confidence)
    return replace(best, start=one.start, end=other.end)


def merge_similar(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Merges neighbours; each is given when the next segment has a different caption."""
    held: Segment | None = None
    for segment in segments:
        if held is None:
            held = segment
        elif (
            segment.start - held.end <= MAX_GAP
            and segment.end - held.start <= MAX_MERGED
            and are_similar(held.best, segment.best)
        ):
            held = merge(held, segment)
        else:
            yield held
            held = segment
    if held is not None:
        yield held


def chapters(segments: Sequence[Segment]) -> list[Segment]:
    """A few long segments, each with its most confident caption; each ends where the next begins."""
    if not segments:
        return []
    shortest = max(MIN_CHAPTER, (segments[-1].end - segments[0].start) / MAX_CHAPTERS)
    grouped: list[Segment] = []
    for segment in segments:
        last = grouped[-1] if grouped else None
        if last and (last.end - last.start < shortest or are_similar(last.best, segment.best)):
            grouped[-1] = merge(last, segment)
        else:
            grouped.append(segment)
    if len(grouped) > 1 and grouped[-1].end - grouped[-1].start < shortest / 2:
        grouped[-2:] = [merge(*grouped[-2:])]
    ends = [segment.start for segment in grouped[1:]] + [grouped[-1].end]
    return [replace(segment, end=end) for segment, end in zip(grouped, ends, strict=True)]


SAME = 0.5  # share of common stems: "a man is talking" and "a man talks to a woman" say the same
T = TypeVar("T")


@lru_cache(10_000)
def _stem(word: str) -> str:
    from snowballstemmer.english_stemmer import EnglishStemmer  # takes 25 ms, which one caption does not need

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
