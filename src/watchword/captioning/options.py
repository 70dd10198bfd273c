"""What a person wants to hear about films."""

from dataclasses import dataclass

WHOLE_SECONDS = 40.0  # a longer film becomes a timeline unless told otherwise


@dataclass(frozen=True)
class Asked:
    """What a person wants to hear."""

    top: int = 1                      # sentences for each stretch
    beam: int = 5
    timeline: bool | None = None      # None: of a long film

    def as_timeline(self, seconds: float) -> bool:
        return seconds > WHOLE_SECONDS if self.timeline is None else self.timeline
