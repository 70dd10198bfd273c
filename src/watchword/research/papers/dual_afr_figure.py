"""Layer weights of dualAFR for each word, and Fig. 3 of Pu et al. 2018: the strongest location and the layers."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from watchword.captioning.captioner import Captioner
from watchword.data.dataset import pad_captions
from watchword.errors import WatchwordError
from watchword.explain.overlay import ACCENT, BAR, FAINT, INK, PAPER
from watchword.models.dual_afr import DualAFR
from watchword.tensors import EOS
from watchword.types import FloatArray, Hypothesis

GAP, CHART, TEXT = 8, 64, 44  # pixels


@dataclass(frozen=True)
class WordAttention:
    """A word, the frame with its largest weight, and its layers."""

    text: str
    seconds: float
    picture: NDArray[np.uint8]  # (H, W, 3)
    box: FloatArray  # (4,) x0 y0 x1 y1, 0..1
    layers: FloatArray  # (L,) the lowest first; all 0 for a word that reads none


def strongest_locations(attention: FloatArray) -> list[tuple[int, int]]:
    """attention (T, F, N) -> the time step and location with the largest weight for each word."""
    steps, locations = attention.shape[1:]
    return [divmod(int(best), locations) for best in attention.reshape(-1, steps * locations).argmax(-1)]


def draw_words(words: Sequence[WordAttention], names: Sequence[str], columns: int = 6) -> Image.Image:
    """Words in order: layers as bars, the frame with its location, the word and the time."""
    if not words:
        raise WatchwordError("the caption has no words to draw")
    height, width = words[0].picture.shape[:2]
    columns = min(columns, len(words))
    rows = -(-len(words) // columns)
    cell = CHART + height + TEXT
    sheet = Image.new("RGB", (GAP + columns * (width + GAP), 2 * GAP + rows * (cell + GAP) + 18), PAPER)
    pen, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(11)
    for number, word in enumerate(words):
        left, top = GAP + number % columns * (width + GAP), GAP + number // columns * (cell + GAP)
        _bars(pen, word.layers, (left, top, left + width, top + CHART - 6))
        sheet.paste(Image.fromarray(word.picture), (left, top + CHART))
        x0, y0, x1, y1 = word.box
        corners = (left + x0 * width, top + CHART + y0 * height)
        if word.layers.any():
            pen.rectangle((*corners, left + x1 * width - 1, top + CHART + y1 * height - 1), outline=ACCENT, width=2)
        pen.text((left, top + CHART + height + 2), word.text, font=font, fill=INK)
        when = f"{word.seconds:.1f} s" if word.layers.any() else "from the mean of the video"
        pen.text((left, top + CHART + height + 24), when, font=small, fill=FAINT)
    pen.text((GAP, sheet.height - 20), "layers: " + ", ".join(names), font=small, fill=FAINT)
    return sheet


def _bars(pen: ImageDraw.ImageDraw, layers: FloatArray, area: tuple[int, int, int, int]) -> None:
    """A bar for each layer, as high as the area for a weight of 1."""
    left, top, right, bottom = area
    wide = (right - left) / len(layers)
    pen.line((left, bottom, right - 1, bottom), fill=FAINT)
    for number, weight in enumerate(layers):
        side = left + number * wide
        if weight > 0:
            pen.rectangle((side + 2, bottom - float(weight) * (bottom - top), side + wide - 3, bottom), fill=BAR)


@torch.no_grad()
def layer_weights(captioner: Captioner, captions: Sequence[Hypothesis]) -> list[FloatArray]:
    """Of each caption the weights of the layers for its words, (T, L); 0 for the first word, which reads the mean."""
    model = captioner.model
    if not isinstance(model, DualAFR) or len(model.layers) < 2:
        raise WatchwordError("layers are chosen by the model dual_afr, in a variant that has several: soft, hard, ...")
    found: list[FloatArray] = []
    for video, own in groupby(captions, key=lambda caption: caption.video):  # maps are transformed once a video
        tokens = [np.array([*captioner.vocabulary.encode(caption.words), EOS], np.int64) for caption in own]
        weights = model.layer_weights(captioner.features.read([video]), pad_captions([tokens]))[0]  # (S, T, L)
        found += [np.asarray(row[: len(words) - 1]) for row, words in zip(weights, tokens, strict=True)]
    return found
