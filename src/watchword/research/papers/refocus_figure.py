"""Both passes of a model that watches twice, and the figures of Watch It Twice: key frames (Fig. 3), masks (Fig. 4)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from watchword.captioning.captioner import Captioner
from watchword.errors import WatchwordError
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
)
from watchword.models.refocus import Refocus
from watchword.tensors import Memory, State, Step, Streams
from watchword.training.evaluation import VIDEOS_AT_ONCE, Search, caption_videos
from watchword.types import FloatArray, Hypothesis

GAP, LINE, MARGIN, INDENT = 6, 24, 8, 70


@dataclass(frozen=True)
class Strip:
    """One video of Fig. 3."""

    pictures: NDArray[np.uint8]  # (F, H, W, 3)
    middle: int  # the key frame of the first pass: yellow
    key: int  # the selected one: red
    lines: Sequence[tuple[str, str]]  # ("GT", "a man hits a ball"), ("STEP1", ...), ...


def draw_strips(strips: Sequence[Strip], height: int = 96, most: int = 12) -> Image.Image:
    """Videos below each other; both key frames are always among the frames shown."""
    rows = [_strip(strip, height, most) for strip in strips]
    return below_each_other(rows)


def shown_frames(count: int, keys: Sequence[int], most: int) -> list[int]:
    """Evenly chosen frames; a key frame replaces the nearest one."""
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
class WordMasks:
    """One video of Fig. 4: the attention of the words of its caption."""

    picture: NDArray[np.uint8]  # (H, W, 3), the key frame
    words: Sequence[str]  # those that are shown
    weights: FloatArray  # (words, N) attention over locations
    boxes: FloatArray  # (N, 4) x0 y0 x1 y1, 0..1
    lines: Sequence[tuple[str, str]]


def draw_masks(videos: Sequence[WordMasks], height: int = 128) -> Image.Image:
    """Videos below each other: the key frame, then the key frame under the mask of each word."""
    return below_each_other([_masks(video, height) for video in videos])


def _masks(video: WordMasks, height: int) -> Image.Image:
    width = round(height * video.picture.shape[1] / video.picture.shape[0])
    columns = 1 + len(video.words)
    across = max(MARGIN + columns * (width + GAP), _width(video.lines))
    picture = Image.new("RGB", (across, height + 2 * GAP + LINE * (1 + len(video.lines))), PAPER)
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    plain = scaled(video.picture, width, height)
    picture.paste(plain, (MARGIN, GAP))
    for column, (word, weights) in enumerate(zip(video.words, video.weights, strict=True), 1):
        left = MARGIN + column * (width + GAP)
        lit = spotlight(np.asarray(plain), heat_of(weights, video.boxes, (width, height)))
        picture.paste(Image.fromarray(lit), (left, GAP))
        draw.text((left + 2, height + GAP + 4), word, font=font, fill=INK)
    _write(draw, video.lines, MARGIN, height + 2 * GAP + LINE)
    return picture


def _write(draw: ImageDraw.ImageDraw, lines: Sequence[tuple[str, str]], left: int, top: int) -> None:
    font = ImageFont.load_default(15)
    for row, (name, text) in enumerate(lines):
        draw.text((left, top + row * LINE), name, font=font, fill=FAINT)
        draw.text((left + INDENT, top + row * LINE), text, font=font, fill=INK)


def _width(lines: Sequence[tuple[str, str]]) -> int:
    """Pixels that the lines need."""
    font = ImageFont.load_default(15)
    return 2 * MARGIN + INDENT + int(max((font.getlength(text) for _, text in lines), default=0))


# --- the two passes ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Passes:
    """One video, captioned after each pass."""

    video: str
    times: FloatArray  # (F,) seconds of its frames
    middle: int  # the key frame of the first pass
    key: int  # the key frame of the second
    relevance: FloatArray  # (F,) alpha
    first: Hypothesis
    second: Hypothesis  # with attention (T, F, N)


@dataclass(frozen=True)
class OnePass:
    """The model after its first pass (0) or its second (1), which may begin at given key frames (B,)."""

    model: Refocus
    number: int
    key: Tensor | None = None

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory, states, _, _ = self.model.encode_passes(streams, self.key)
        return memory, {name: tensor[:, self.number : self.number + 1] for name, tensor in states.items()}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        return self.model.step(words, memory, state)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return self.model.log_probabilities(outputs)


def with_two_passes(captioner: Captioner) -> Refocus:
    """Its model, which selects key frames."""
    model = captioner.model
    if not isinstance(model, Refocus) or int(model.passes) != 2:
        raise WatchwordError("this run has one pass: key frames are selected by refocus, variant vre, after first_pass")
    return model


@torch.no_grad()
def caption_twice(
    captioner: Captioner, videos: Sequence[str], search: Search, report: Callable[[int], None] = lambda done: None
) -> list[Passes]:
    """Key frames and captions of both passes, in order; `report` gets the number of finished videos."""
    model, features = with_two_passes(captioner), captioner.features
    found: list[Passes] = []
    for start in range(0, len(videos), VIDEOS_AT_ONCE):
        names = videos[start : start + VIDEOS_AT_ONCE]
        streams = features.read(names)
        _, _, relevance, key = model.encode_passes(streams)
        middle = model.middle_frames(streams)
        first, second = (
            caption_videos(
                OnePass(model, number), features, names, captioner.vocabulary, search, keep_attention=number == 1
            )
            for number in (0, 1)
        )
        for row, video in enumerate(names):
            length = int(streams[model.temporal].mask[row].any(-1).nonzero().max()) + 1
            found.append(
                Passes(
                    video,
                    np.asarray(streams[model.temporal].times[row, :length]),
                    int(middle[row]),
                    int(key[row]),
                    np.asarray(relevance[row, :length].exp()),
                    first[row],
                    second[row],
                )
            )
        report(len(found))
    return found
