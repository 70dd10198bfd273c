"""Frames of a video, and for each word the frame with the largest weight and its heat map.

Cherian et al., Spatio-Temporal Ranked-Attention Networks for Video Captioning, WACV 2020, Fig. 6 to 9.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from watchword.errors import WatchwordError
from watchword.explain.overlay import FAINT, INK, PAPER, glow, heat_of
from watchword.types import FloatArray, Frames

STRIP, SCORES, GAP, TEXT = 10, 5, 6, 40  # frames of the video, pictures in a row, pixels


def frame_of_each_word(attention: FloatArray) -> list[int]:
    """attention (T, F, N) -> the time step with the largest weight for each word; of equal weights the middle one.

    ST weighs all time steps of a grid alike: no time step is chosen there.
    """
    steps = attention.sum(-1)  # (T, F)
    alike = np.ptp(steps, -1) < 1e-4 * steps.max(-1)
    return [steps.shape[1] // 2 if same else int(row.argmax()) for row, same in zip(steps, alike, strict=True)]


def draw_words(
    frames: Frames, words: Sequence[str], attention: FloatArray, boxes: FloatArray, notes: Sequence[str] = ()
) -> Image.Image:
    """Frames of the stream's F time steps, attention (T, F, N), boxes (F, N, 4); `notes` stand below the words."""
    if not words or attention.shape != (len(words), len(frames.times), boxes.shape[1]):
        raise WatchwordError(
            f"{len(words)} words, {len(frames.times)} frames and {boxes.shape[1]} locations do not fit attention of "
            f"shape {attention.shape}"
        )
    pictures = [Image.fromarray(picture) for picture in frames.pictures]
    width, height = pictures[0].size
    strip = np.unique(np.linspace(0, len(pictures) - 1, STRIP).round().astype(int))
    cells = [(pictures[step], "", f"{frames.times[step]:.1f} s") for step in strip]  # picture, word, note
    cells += [(Image.new("RGB", (width, height), PAPER), "", "")] * (-len(cells) % SCORES)  # words begin a row
    for number, (word, step) in enumerate(zip(words, frame_of_each_word(attention), strict=True)):
        lit = glow(np.asarray(pictures[step]), heat_of(attention[number, step], boxes[step], (width, height)))
        note = f"{frames.times[step]:.1f} s" + (f", {notes[number]}" if notes else "")
        cells.append((Image.fromarray(lit), word, note))
    rows = -(-len(cells) // SCORES)
    sheet = Image.new("RGB", (GAP + SCORES * (width + GAP), GAP + rows * (height + TEXT + GAP)), PAPER)
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(12)
    for number, (picture, word, note) in enumerate(cells):
        left, top = GAP + number % SCORES * (width + GAP), GAP + number // SCORES * (height + TEXT + GAP)
        sheet.paste(picture, (left, top))
        draw.text((left, top + height + 2), word, font=font, fill=INK)
        draw.text((left, top + height + (23 if word else 4)), note, font=small, fill=FAINT)
    return sheet
