"""Evidence as a person would tell it: of each word the moment and the part of the picture that it looked at."""

from dataclasses import dataclass

import numpy as np

from watchword.explain.attention import Head, ShotEvidence
from watchword.types import FloatArray

EVEN = 1.02  # the largest weight against the mean: no more, and nothing was preferred
HOT = 4.0    # times as much as if all moments were looked at alike: as strong as a timeline shows it


@dataclass(frozen=True)
class Glance:
    """One word through one head: the moment with most of its attention."""

    moment: int            # of the head's
    seconds: float
    share: float           # of the word's attention that this moment has
    places: FloatArray     # (N,) within the moment, a distribution
    boxes: FloatArray      # (N, 4)
    moments_alike: bool    # it preferred no moment: this one was chosen by other signs
    places_alike: bool     # it preferred no place

    @property
    def strongest(self) -> FloatArray:
        """(4,) the box with most weight."""
        return self.boxes[int(self.places.argmax())]

    @property
    def where(self) -> str:
        """In words; nothing where the whole picture was looked at alike."""
        return "" if self.places_alike else where(self.places, self.boxes)


def is_even(weights: FloatArray) -> bool:
    """Whether nothing among weights is preferred; what has none at all is not among them."""
    some = weights[weights > 0]
    return len(some) < 2 or bool(some.max() <= EVEN * some.mean())


def moments_alike(over_time: FloatArray) -> bool:
    """(F,) of one word. A moment without any weight was not chosen: that is a preference."""
    return len(over_time) > 1 and bool((over_time > 0).all()) and is_even(over_time)


def strength(over_time: FloatArray) -> FloatArray:
    """(T, F) attention as 0..1 for a timeline: attention that chooses nothing is a quarter everywhere."""
    total = over_time.sum(-1, keepdims=True)
    return (over_time * over_time.shape[-1] / np.maximum(total, 1e-12) / HOT).clip(0, 1)


def glance(shot: ShotEvidence, name: str, word: int) -> Glance:
    head = shot.heads[name]
    over_time = head.over_time[word]  # (F,)
    alike = moments_alike(over_time)
    moment = _signed(shot, head, word) if alike else int(over_time.argmax())
    share = float(over_time[moment] / max(float(over_time.sum()), 1e-12))
    places = head.weights[word, moment]
    places = places / max(float(places.sum()), 1e-12)
    nothing_preferred = len(places) == 1 or (is_even(places) and int((places > 0).sum()) != 1)
    return Glance(
        moment, float(head.times[moment]), share, places, head.boxes_at(moment), alike, nothing_preferred
    )  # fmt: skip


def _signed(shot: ShotEvidence, head: Head, word: int) -> int:
    """Where no moment is preferred: the model's key frame, else what the surest other head preferred, else the middle.

    VRE looks at places averaged over time (Eq. 3): when, its other attention and its key frame know.
    """
    keys = [mark.seconds for mark in shot.marks if mark.kind == "key_frame"]
    others = [one for one in shot.heads.values() if len(one.times) > 1 and not moments_alike(one.over_time[word])]
    if others:
        surest = max(others, key=lambda one: float(one.over_time[word].max() / one.over_time[word].mean()))
        seconds = float(surest.times[int(surest.over_time[word].argmax())])
    else:
        seconds = keys[0] if keys else float(head.times[len(head.times) // 2])
    return int(np.abs(head.times - seconds).argmin())


def main_head(shot: ShotEvidence) -> str | None:
    """The head that says most of where: the last that prefers places (models end with the finest), else the first."""
    told = [
        name for name in shot.heads
        if any(not glance(shot, name, word).places_alike for word in range(len(shot.words)))
    ]  # fmt: skip
    return told[-1] if told else next(iter(shot.heads), None)


def where(places: FloatArray, boxes: FloatArray) -> str:
    """The middle of what was looked at, in words: `upper left`, `centre`."""
    middles = (boxes[:, :2] + boxes[:, 2:]) / 2
    across, down = (places @ middles) / max(float(places.sum()), 1e-12)
    row = "upper" if down < 0.4 else "lower" if down > 0.6 else ""
    column = "left" if across < 0.4 else "right" if across > 0.6 else ""
    return f"{row} {column or 'middle'}" if row else column or "centre"


def told(shot: ShotEvidence, name: str, word: int) -> str:
    """One line for people who cannot see the picture, and for those who can."""
    seen = glance(shot, name, word)
    if seen.moments_alike or len(shot.heads[name].times) == 1:
        text = "all moments alike"
    else:
        text = f"most at {seen.seconds + 1e-9:.1f} s ({seen.share:.0%})"  # as the page rounds
    return f"{text}, {seen.where}" if seen.where else text


def moments_of(shot: ShotEvidence, most: int) -> list[float]:
    """Seconds to have pictures of: what words looked at and models chose, then other moments, evenly as many as fit."""
    wanted = [glance(shot, name, word).seconds for name in shot.heads for word in range(len(shot.words))]
    wanted += [mark.seconds for mark in shot.marks]
    chosen = sorted({round(seconds, 3) for seconds in wanted})
    if len(chosen) > most:  # of too many the evenly spread ones
        return [chosen[int(place)] for place in np.linspace(0, len(chosen) - 1, most).round()]
    times = {round(float(time), 3) for head in shot.heads.values() for time in head.times}
    times |= {round(float(time), 3) for time in np.linspace(shot.start, shot.end, 12, endpoint=False)}
    rest = sorted(times - set(chosen))
    free = min(most - len(chosen), len(rest))
    spread = [rest[int(place)] for place in np.linspace(0, len(rest) - 1, free).round()] if free else []
    return sorted({*chosen, *spread})
