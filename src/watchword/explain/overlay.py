"""Frames of a video, and attention drawn on them: the only module in Python that draws attention on a picture."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from watchword.explain.attention import HOT, HeadAttention, Peak
from watchword.types import FloatArray
from watchword.video import At, ShortSide, read_frames

Picture = NDArray[np.uint8]  # (H, W, 3)

PAPER, INK, FAINT = (250, 249, 246), (40, 40, 44), (120, 120, 126)
ACCENT, BAR, YELLOW, RED = (230, 110, 20), (42, 110, 164), (240, 190, 20), (205, 40, 40)
RASTER = 96  # pixels of the longer side of the heat map before it is scaled up
VEIL = 0.85  # opacity of the white over the least weight: the picture stays visible


def paint(picture: Picture, head: HeadAttention, found: Peak) -> Picture:
    """Regions by transparency, grid cells as heat; nothing where no location stands out."""
    if found.locations_uniform:
        return picture
    if head.boxes.ndim == 3:
        return veil(picture, found.locations, found.boxes)
    height, width = picture.shape[:2]
    return glow(picture, heat_of(found.locations, found.boxes, (width, height)))


def heat_of(locations: FloatArray, boxes: FloatArray, size: tuple[int, int]) -> FloatArray:
    """A smooth heat map: weights (N,), boxes (N, 4), size (width, height) -> (height, width).

    1 is the uniform weight. Of two boxes with one weight the smaller is hotter, and overlapping boxes add up.
    """
    width, height = (max(1, round(RASTER * side / max(size))) for side in size)  # a blur needs no more
    heat = np.zeros((height, width), np.float32)
    edges = np.rint(boxes * (width, height, width, height)).astype(int)
    for weight, (left, top, right, bottom) in zip(locations, edges, strict=True):
        left, top = min(max(left, 0), width - 1), min(max(top, 0), height - 1)  # at least a pixel
        area = heat[top : max(bottom, top + 1), left : max(right, left + 1)]
        area += weight / area.size
    heat *= width * height / max(float(locations.sum()), 1e-12)
    for _ in range(2):
        heat = _smooth(_smooth(heat).T).T
    full = Image.fromarray(heat).resize(size, Image.Resampling.BICUBIC)
    return np.asarray(full).clip(0)


def _smooth(rows: FloatArray) -> FloatArray:
    """The mean of five rows around each."""
    padded = np.pad(rows, ((2, 2), (0, 0)), "edge")
    return np.ascontiguousarray(sum(padded[start : start + len(rows)] for start in range(5)) / 5, np.float32)


def glow(picture: Picture, heat: FloatArray) -> Picture:
    """Red over yellow where it is hot, dimmed where it is cold."""
    hot = (heat / HOT).clip(0, 1)[..., None]
    colour = np.concatenate([np.full_like(hot, 255), 220 * (1 - hot), np.zeros_like(hot)], -1)
    share = 0.55 * hot
    return _pixels((1 - share) * (0.45 + 0.55 * hot) * picture + share * colour)


def spotlight(picture: Picture, heat: FloatArray) -> Picture:
    """The brightness of the picture follows the heat (Fig. 4 of Watch It Twice)."""
    return _pixels((0.15 + 0.85 * heat / max(float(heat.max()), 1e-12))[..., None] * picture)


def veil(picture: Picture, locations: FloatArray, boxes: FloatArray) -> Picture:
    """White over the picture, the less weight the more; the box with the largest weight stays as it is."""
    height, width = picture.shape[:2]
    clear = np.zeros((height, width), np.float32)
    strongest = max(float(locations.max(initial=0)), 1e-9)
    for weight, (x0, y0, x1, y1) in zip(locations, boxes, strict=True):
        rows = slice(int(np.floor(y0 * height)), int(np.ceil(y1 * height)))
        columns = slice(int(np.floor(x0 * width)), int(np.ceil(x1 * width)))
        clear[rows, columns] = np.maximum(clear[rows, columns], weight / strongest)
    white = (VEIL * (1 - clear))[..., None]
    return _pixels(picture * (1 - white) + 255 * white)


def scaled(picture: Picture, width: int, height: int) -> Image.Image:
    return Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC)


def below_each_other(rows: Sequence[Image.Image], gap: int = 6) -> Image.Image:
    whole = Image.new("RGB", (max(row.width for row in rows), sum(row.height + gap for row in rows)), PAPER)
    top = 0
    for row in rows:
        whole.paste(row, (0, top))
        top += row.height + gap
    return whole


def _pixels(values: FloatArray) -> Picture:
    return np.asarray(np.rint(values), np.float32).clip(0, 255).astype(np.uint8)


# --- frames at given times, read in one pass -------------------------------------------------------------------------


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
