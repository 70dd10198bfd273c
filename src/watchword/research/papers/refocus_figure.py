"""The figures of Watch It Twice: key frames on the film strip (Fig. 3), where each word looked (Fig. 4)."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from watchword.explain.overlay import (
    FAINT,
    INK,
    PAPER,
    RED,
    YELLOW,
    below_each_other,
    heat_of,
    scaled,
    spotlight,
)  # fmt: skip
from watchword.types import FloatArray

GAP, LINE, MARGIN, INDENT = 6, 24, 8, 70


@dataclass(frozen=True)
class Strip:
    """One film of Fig. 3."""

    pictures: NDArray[np.uint8]       # (F, H, W, 3)
    middle: int                       # the default key frame: yellow
    key: int                          # the chosen one: red
    lines: Sequence[tuple[str, str]]  # ("GT", "a man hits a ball"), ("STEP1", ...), ...


def film_strips(strips: Sequence[Strip], height: int = 96, most: int = 12) -> Image.Image:
    """Films below each other; of many frames some are shown, the two key frames always."""
    rows = [_strip(strip, height, most) for strip in strips]
    return below_each_other(rows)


def shown_frames(count: int, keys: Sequence[int], most: int) -> list[int]:
    """Evenly chosen frames; the nearest gives way to a key frame that is not among them."""
    frames = [int(frame) for frame in np.linspace(0, count - 1, min(count, most)).round()]
    for key in dict.fromkeys(keys):
        free = [place for place, frame in enumerate(frames) if frame not in keys]
        if key not in frames and free:
            frames[min(free, key=lambda place: abs(frames[place] - key))] = key
    return sorted(frames)


def _strip(strip: Strip, height: int, most: int) -> Image.Image:
    frames = shown_frames(len(strip.pictures), (strip.middle, strip.key), most)
    width = round(height * strip.pictures.shape[2] / strip.pictures.shape[1])
    across = max(MARGIN + len(frames) * (width + GAP), _width(strip.lines))
    picture = Image.new("RGB", (across, height + 2 * GAP + LINE * len(strip.lines)), PAPER)
    draw = ImageDraw.Draw(picture)
    for place, frame in enumerate(frames):
        left = MARGIN + place * (width + GAP)
        picture.paste(scaled(strip.pictures[frame], width, height), (left, GAP))
        for is_key, colour, inset in ((frame == strip.key, RED, 0), (frame == strip.middle, YELLOW, 4)):
            if is_key:  # a frame that is both shows both borders
                box = (left + inset, GAP + inset, left + width - 1 - inset, GAP + height - 1 - inset)
                draw.rectangle(box, outline=colour, width=4)
    _write(draw, strip.lines, MARGIN, height + 2 * GAP)
    return picture


@dataclass(frozen=True)
class Glances:
    """One film of Fig. 4: where the words of its caption looked."""

    picture: NDArray[np.uint8]        # (H, W, 3), the key frame
    words: Sequence[str]              # those that are shown
    weights: FloatArray               # (words, N) attention over places
    boxes: FloatArray                 # (N, 4) x0 y0 x1 y1, 0..1
    lines: Sequence[tuple[str, str]]


def masks(films: Sequence[Glances], height: int = 128) -> Image.Image:
    """Films below each other: the key frame, then the key frame under the mask of each word."""
    return below_each_other([_glances(film, height) for film in films])


def _glances(film: Glances, height: int) -> Image.Image:
    width = round(height * film.picture.shape[1] / film.picture.shape[0])
    columns = 1 + len(film.words)
    across = max(MARGIN + columns * (width + GAP), _width(film.lines))
    picture = Image.new("RGB", (across, height + 2 * GAP + LINE * (1 + len(film.lines))), PAPER)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    plain = scaled(film.picture, width, height)
    picture.paste(plain, (MARGIN, GAP))
    for place, (word, weights) in enumerate(zip(film.words, film.weights, strict=True), 1):
        left = MARGIN + place * (width + GAP)
        lit = spotlight(np.asarray(plain), heat_of(weights, film.boxes, (width, height)))
        picture.paste(Image.fromarray(lit), (left, GAP))
        draw.text((left + 2, height + GAP + 4), word, font=font, fill=INK)
    _write(draw, film.lines, MARGIN, height + 2 * GAP + LINE)
    return picture


def _write(draw: ImageDraw.ImageDraw, lines: Sequence[tuple[str, str]], left: int, top: int) -> None:
    font = ImageFont.load_default(15)
    for row, (name, text) in enumerate(lines):
        draw.text((left, top + row * LINE), name, font=font, fill=FAINT)
        draw.text((left + INDENT, top + row * LINE), text, font=font, fill=INK)


def _width(lines: Sequence[tuple[str, str]]) -> int:
    """Pixels that the lines need: a short film must not cut a long sentence."""
    font = ImageFont.load_default(15)
    return 2 * MARGIN + INDENT + int(max((font.getlength(text) for _, text in lines), default=0))
