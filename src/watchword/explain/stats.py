"""A film in its order, and below it for each word the one frame that was looked at most, its places as heat.

Cherian et al., Spatio-Temporal Ranked-Attention Networks for Video Captioning, WACV 2020, Fig. 6 to 9.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from watchword.errors import WatchwordError
from watchword.records import FloatArray, Frames

STRIP, COLUMNS, GAP, TEXT = 10, 5, 6, 40  # frames that show the film, pictures a row, pixels
HOT = 4.0
PAPER, INK, PALE = (250, 249, 246), (40, 40, 44), (120, 120, 126)


def frame_of_each_word(attention: FloatArray) -> list[int]:
    """attention (T, F, N) -> the moment that each word looked at most."""
    return [int(moment) for moment in attention.sum(-1).argmax(-1)]


def heat_of(places: FloatArray, boxes: FloatArray, size: tuple[int, int]) -> FloatArray:
    """How much each pixel was looked at: places (N,), boxes (N, 4), size (width, height) -> (height, width).

    1 is `HOT` times as much as if the whole picture were looked at evenly: attention that chooses nothing glows little.
    """
    width, height = size
    heat = np.zeros((height, width))
    edges = np.rint(boxes * (width, height, width, height)).astype(int)
    for weight, (left, top, right, bottom) in zip(places, edges, strict=True):
        if right > left and bottom > top:
            heat[top:bottom, left:right] += weight / ((right - left) * (bottom - top))  # a small box is hotter
    even = max(float(places.sum()), 1e-12) / (width * height)
    heat = (heat / (HOT * even)).clip(0, 1)
    grey = Image.fromarray((255 * heat).astype(np.uint8)).filter(ImageFilter.GaussianBlur(max(size) / 40))
    return np.asarray(grey) / 255


def draw_words(
    frames: Frames, words: Sequence[str], attention: FloatArray, boxes: FloatArray, notes: Sequence[str] = ()
) -> Image.Image:
    """Frames of the stream's F moments, attention (T, F, N), boxes (F, N, 4); `notes` stand below the words."""
    if not words or attention.shape != (len(words), len(frames.times), boxes.shape[1]):
        raise WatchwordError(
            f"{len(words)} words, {len(frames.times)} frames and {boxes.shape[1]} places do not fit attention of shape "
            f"{attention.shape}"
        )
    pictures = [Image.fromarray(picture) for picture in frames.pictures]
    width, height = pictures[0].size
    strip = np.unique(np.linspace(0, len(pictures) - 1, STRIP).round().astype(int))
    cells = [(pictures[moment], "", f"{frames.times[moment]:.1f} s") for moment in strip]  # picture, word, note
    cells += [(Image.new("RGB", (width, height), PAPER), "", "")] * (-len(cells) % COLUMNS)  # words begin a row
    for number, (word, moment) in enumerate(zip(words, frame_of_each_word(attention), strict=True)):
        heat = heat_of(attention[number, moment], boxes[moment], (width, height))
        note = f"{frames.times[moment]:.1f} s" + (f", {notes[number]}" if notes else "")
        cells.append((_glow(pictures[moment], heat), word, note))
    rows = -(-len(cells) // COLUMNS)
    sheet = Image.new("RGB", (GAP + COLUMNS * (width + GAP), GAP + rows * (height + TEXT + GAP)), PAPER)
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(12)
    for number, (picture, word, note) in enumerate(cells):
        left, top = GAP + number % COLUMNS * (width + GAP), GAP + number // COLUMNS * (height + TEXT + GAP)
        sheet.paste(picture, (left, top))
        draw.text((left, top + height + 2), word, font=font, fill=INK)
        draw.text((left, top + height + (23 if word else 4)), note, font=small, fill=PALE)
    return sheet


def _glow(picture: Image.Image, heat: FloatArray) -> Image.Image:
    """Red over yellow where it is hot, the picture dimmed where it is cold."""
    colour = np.stack([np.full_like(heat, 255), 220 * (1 - heat), np.zeros_like(heat)], -1)
    share = 0.65 * heat[..., None]
    mixed = (1 - share) * (0.45 + 0.55 * heat[..., None]) * np.asarray(picture) + share * colour
    return Image.fromarray(mixed.clip(0, 255).astype(np.uint8))
