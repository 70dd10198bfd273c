"""What is told of a long film: shots that say the same become one, many shots become chapters."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from watchword.captioning.description import Sentence, Shot
from watchword.text.sentences import NEVER_LAST

ALIKE = 0.65               # of the words that carry meaning, shared: "a man is talking", "a man talks about something"
LONGEST_JOINED = 60.0      # seconds
GAP = 0.05                 # seconds: stretches that touch
NUM_CHAPTERS = 40          # at most, of a film however long ...
SHORTEST_CHAPTER = 30.0    # ... and none shorter, unless the film is


def alike(one: Sentence, other: Sentence) -> bool:
    """Whether two sentences say nearly the same."""
    first, second = ({word.text for word in sentence.words} - NEVER_LAST for sentence in (one, other))
    together = len(first | second)
    return one.text == other.text or (together > 0 and len(first & second) / together >= ALIKE)


def join(one: Shot, other: Shot) -> Shot:
    """Both stretches under the surer sentence."""
    surer = max(one, other, key=lambda shot: shot.best.confidence)
    return replace(surer, start=one.start, end=other.end)


def join_alike(shots: Iterable[Shot]) -> Iterator[Shot]:
    """Neighbours that say nearly the same become one; each is given when the next begins to say something else."""
    held: Shot | None = None
    for shot in shots:
        if held is None:
            held = shot
        elif (
            shot.start - held.end <= GAP and shot.end - held.start <= LONGEST_JOINED and alike(held.best, shot.best)
        ):
            held = join(held, shot)
        else:
            yield held
            held = shot
    if held is not None:
        yield held


def chapters(shots: Sequence[Shot]) -> list[Shot]:
    """Few enough to choose from, each called by its surest sentence; a chapter ends where the next begins."""
    if not shots:
        return []
    shortest = max(SHORTEST_CHAPTER, (shots[-1].end - shots[0].start) / NUM_CHAPTERS)
    grouped: list[Shot] = []
    for shot in shots:
        if grouped and (grouped[-1].end - grouped[-1].start < shortest or alike(grouped[-1].best, shot.best)):
            grouped[-1] = join(grouped[-1], shot)
        else:
            grouped.append(shot)
    if len(grouped) > 1 and grouped[-1].end - grouped[-1].start < shortest / 2:
        grouped[-2:] = [join(*grouped[-2:])]
    ends = [shot.start for shot in grouped[1:]] + [grouped[-1].end]
    return [replace(shot, end=end) for shot, end in zip(grouped, ends, strict=True)]
