"""Cues that begin, go on and end while a video is read step by step."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from watchword.types import Box, Cue

MAX_READINGS = 16  # of one line that are kept


@dataclass(frozen=True)
class Sighting:
    """What a network recognises at one time."""

    text: str
    score: float  # 0..1
    box: Box | None = None


@dataclass
class _Open:
    """A cue that may go on."""

    start: float
    latest: Sighting
    readings: dict[str, tuple[float, Sighting]] = field(default_factory=dict)  # text -> its sum of scores, its best
    gone_at: float | None = None  # when it was first missing

    def see(self, sighting: Sighting) -> None:
        self.latest, self.gone_at = sighting, None
        total, best = self.readings.get(sighting.text, (0.0, sighting))
        self.readings[sighting.text] = total + sighting.score, max(best, sighting, key=lambda one: one.score)
        if len(self.readings) > MAX_READINGS:
            del self.readings[min(self.readings, key=lambda text: self.readings[text][0])]

    def cue(self, end: float) -> Cue:
        _, best = max(self.readings.values(), key=lambda reading: reading[0])
        return Cue(self.start, end, best.text, best.score, best.box)


class CueTracker:
    """Joins sightings of the same thing. One that is missing for less than `gap` seconds goes on.

    `similarity` compares the latest text of a cue with a new one; from `threshold` on they are the same. The text of a
    cue is the reading with the largest sum of scores.
    """

    def __init__(
        self,
        gap: float,
        similarity: Callable[[str, str], float] = lambda one, other: float(one == other),
        threshold: float = 1.0,
    ) -> None:
        self.gap, self.similarity, self.threshold = gap, similarity, threshold
        self.open: list[_Open] = []

    def resume(self, cues: Iterable[Cue], reached: float) -> None:
        """Continues with the open cues of an earlier run that came to `reached`."""
        for cue in cues:
            sighting = Sighting(cue.text, cue.confidence, cue.box)
            known = _Open(cue.start, sighting)
            known.see(sighting)
            known.gone_at = cue.end if cue.end < reached else None
            self.open.append(known)

    def see(self, time: float, sightings: Sequence[Sighting]) -> tuple[Cue, ...]:
        """The cues that ended, now that these things are there at `time`."""
        ended = self._end(time)
        missing = list(self.open)
        for sighting in sightings:
            known = max(missing, key=lambda one: self.similarity(one.latest.text, sighting.text), default=None)
            if known is not None and self.similarity(known.latest.text, sighting.text) >= self.threshold:
                missing.remove(known)
            else:
                known = _Open(time, sighting)
                self.open.append(known)
            known.see(sighting)
        for one in missing:
            one.gone_at = time if one.gone_at is None else one.gone_at
        return ended

    def open_cues(self, reached: float) -> tuple[Cue, ...]:
        return tuple(one.cue(reached if one.gone_at is None else one.gone_at) for one in self.open)

    def finish(self, end: float) -> tuple[Cue, ...]:
        """All that are still open end with the video."""
        ended = self.open_cues(end)
        self.open.clear()
        return ended

    def _end(self, time: float) -> tuple[Cue, ...]:
        ended = [one for one in self.open if one.gone_at is not None and time - one.gone_at >= self.gap]
        self.open = [one for one in self.open if one not in ended]
        return tuple(one.cue(one.gone_at) for one in ended if one.gone_at is not None)
