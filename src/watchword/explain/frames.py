"""Frames of a video at given times, read in one pass."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from watchword.explain.overlay import Picture
from watchword.types import FloatArray
from watchword.video import At, ShortSide, read_frames

ROUNDED = 1e-3  # seconds: a time that was rounded down would show the frame before


@dataclass(frozen=True)
class FrameSet:
    """Some frames of one video, upright."""

    seconds: FloatArray  # (K,) ascending
    pictures: tuple[Picture, ...]

    @classmethod
    def read(cls, video: Path, seconds: Iterable[float], pixels: int) -> "FrameSet":
        """`pixels` of the shorter side."""
        wanted = sorted({round(float(one), 3) for one in seconds}) or [0.0]
        frames = read_frames(video, At(tuple(one + ROUNDED for one in wanted)), ShortSide(pixels), report=_known)
        return cls(np.array(wanted), tuple(frames.pictures))

    def at(self, seconds: float) -> Picture:
        """The nearest."""
        return self.pictures[self.number_at(seconds)]

    def number_at(self, seconds: float) -> int:
        later = min(bisect_left(self.seconds.tolist(), seconds), len(self.seconds) - 1)
        earlier = max(later - 1, 0)
        return earlier if seconds - self.seconds[earlier] <= self.seconds[later] - seconds else later

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        height, width = self.pictures[0].shape[:2]
        return width, height


def _known(line: str) -> None:
    """Damage was reported when the video was captioned."""
