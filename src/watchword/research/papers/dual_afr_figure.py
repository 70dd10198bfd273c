"""For each word the place that was looked at most, and above it from which layers (Fig. 3 of Pu et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from watchword.errors import WatchwordError
from watchword.explain.overlay import ACCENT, BAR, FAINT, INK, PAPER
from watchword.types import FloatArray

GAP, CHART, TEXT = 8, 64, 44  # pixels


@dataclass(frozen=True)
class WordLook:
    """One word, the frame with its strongest place, and its layers."""

    word: str
    seconds: float
    picture: NDArray[np.uint8]   # (H, W, 3)
    box: FloatArray              # (4,) x0 y0 x1 y1, 0..1
    layers: FloatArray           # (L,) the lowest first; all 0 for a word that looks at none


def strongest_places(attention: FloatArray) -> list[tuple[int, int]]:
    """attention (T, F, N) -> of each word the moment and the place with the largest weight."""
    moments, places = attention.shape[1:]
    return [divmod(int(best), places) for best in attention.reshape(-1, moments * places).argmax(-1)]


def draw_looks(looks: Sequence[WordLook], names: Sequence[str], columns: int = 6) -> Image.Image:
    """Words in their order: layers as bars, the frame with the place framed, the word and when."""
    if not looks:
        raise WatchwordError("a caption without words has nothing to draw")
    height, width = looks[0].picture.shape[:2]
    columns = min(columns, len(looks))
    rows = -(-len(looks) // columns)
    cell = CHART + height + TEXT
    sheet = Image.new("RGB", (GAP + columns * (width + GAP), 2 * GAP + rows * (cell + GAP) + 18), PAPER)
    pen, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(11)
    for number, look in enumerate(looks):
        left, top = GAP + number % columns * (width + GAP), GAP + number // columns * (cell + GAP)
        _bars(pen, look.layers, (left, top, left + width, top + CHART - 6))
        sheet.paste(Image.fromarray(look.picture), (left, top + CHART))
        x0, y0, x1, y1 = look.box
        corners = (left + x0 * width, top + CHART + y0 * height)
        if look.layers.any():
            pen.rectangle((*corners, left + x1 * width - 1, top + CHART + y1 * height - 1), outline=ACCENT, width=2)
        pen.text((left, top + CHART + height + 2), look.word, font=font, fill=INK)
        when = f"{look.seconds:.1f} s" if look.layers.any() else "from the whole film"
        pen.text((left, top + CHART + height + 24), when, font=small, fill=FAINT)
    pen.text((GAP, sheet.height - 20), "layers: " + ", ".join(names), font=small, fill=FAINT)
    return sheet


def _bars(pen: ImageDraw.ImageDraw, layers: FloatArray, area: tuple[int, int, int, int]) -> None:
    """A bar a layer, as high as the area for a weight of 1."""
    left, top, right, bottom = area
    wide = (right - left) / len(layers)
    pen.line((left, bottom, right - 1, bottom), fill=FAINT)
    for number, weight in enumerate(layers):
        side = left + number * wide
        if weight > 0:
            pen.rectangle((side + 2, bottom - float(weight) * (bottom - top), side + wide - 3, bottom), fill=BAR)
