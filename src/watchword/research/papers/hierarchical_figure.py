"""The regions that a captioner attends to in each frame (Fig. 4 of Dong et al. 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from watchword.explain.overlay import ACCENT, INK, PAPER, veil
from watchword.types import FloatArray
from watchword.video import At, ShortSide, read_frames


@dataclass(frozen=True)
class Salience:
    """A distribution over the regions of each frame."""

    video: str
    caption: str
    times: FloatArray  # (F,) seconds
    boxes: FloatArray  # (F, N, 4)
    weights: FloatArray  # (F, N), every frame sums to 1, or to 0 without regions

    def to_json(self) -> dict[str, Any]:
        frames = [
            {
                "seconds": round(float(time), 3),
                "boxes": np.round(boxes, 4).tolist(),
                "weights": np.round(weights, 5).tolist(),
            }
            for time, boxes, weights in zip(self.times, self.boxes, self.weights, strict=True)
        ]
        return {"video": self.video, "caption": self.caption, "frames": frames}


def within_frames(attention: FloatArray) -> FloatArray:
    """Attention over a video, (F, N) or (T, F, N) averaged over words, as a distribution within each frame."""
    joint = attention.mean(0) if attention.ndim == 3 else attention
    total = joint.sum(-1, keepdims=True)
    return np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)


def draw_strip(pictures: Sequence[FloatArray], salience: Salience, frames: Sequence[int]) -> Image.Image:
    """Frames side by side, plain above and veiled below, with the caption."""
    height, width = pictures[0].shape[:2]
    gap, text = 6, 40
    sheet = Image.new("RGB", (gap + len(frames) * (width + gap), 2 * (height + gap) + gap + text), PAPER)
    pen = ImageDraw.Draw(sheet)
    for column, (picture, frame) in enumerate(zip(pictures, frames, strict=True)):
        left = gap + column * (width + gap)
        faded = veil(np.asarray(picture, np.uint8), salience.weights[frame], salience.boxes[frame])
        sheet.paste(Image.fromarray(np.asarray(picture, np.uint8)), (left, gap))
        sheet.paste(Image.fromarray(faded), (left, 2 * gap + height))
        if salience.weights[frame].any():
            x0, y0, x1, y1 = salience.boxes[frame, int(salience.weights[frame].argmax())]
            top = 2 * gap + height
            corners = (left + x0 * width, top + y0 * height, left + x1 * width, top + y1 * height)
            pen.rectangle(corners, outline=ACCENT, width=2)
        pen.text((left + 4, gap + 3), f"{salience.times[frame]:.1f} s", font=ImageFont.load_default(12), fill=ACCENT)
    pen.text((gap + 2, sheet.height - text + 10), salience.caption, font=ImageFont.load_default(17), fill=INK)
    return sheet


def draw_on_video(video: Path, salience: Salience, columns: int = 6, pixels: int = 160) -> Image.Image:
    """The strip from a video file; `columns` frames, evenly chosen."""
    frames = np.unique(np.linspace(0, len(salience.times) - 1, columns).round().astype(int)).tolist()
    seconds = tuple(float(salience.times[frame]) for frame in frames)
    pictures = read_frames(video, At(seconds), ShortSide(pixels)).pictures
    return draw_strip(list(pictures), salience, frames)
