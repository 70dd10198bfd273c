"""What a description was read off from, as `explain` draws it."""

from pathlib import Path

from watchword.captioning.description import Description, Shot
from watchword.captioning.generation import stream_of
from watchword.explain.attention import Evidence, Head, ShotEvidence, Spoken
from watchword.video import shown


def evidence_of(description: Description) -> Evidence:
    """Of each shot's best sentence; one that was read back from a file has no attention, and its words stand alone."""
    name = shown(Path(description.film.name))
    return Evidence(name, description.seconds, description.captioner, tuple(map(_of_shot, description.shots)))


def _of_shot(shot: Shot) -> ShotEvidence:
    best = shot.best
    heads = {}
    for name, weights in best.attention.items():
        looked = shot.looked[stream_of(name)]
        if len(looked.times):  # a film without sound has nothing to point at
            heads[name] = Head(looked.times, looked.boxes, weights)
    words = tuple(Spoken(word.text, word.probability) for word in best.words)
    return ShotEvidence(shot.start, shot.end, best.text, best.confidence, words, heads, best.marks, best.bars)
