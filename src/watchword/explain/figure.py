"""An explanation as one figure: frames of the video, the attention of each word, and its timeline."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from watchword.captioning.confidence import in_words
from watchword.explain.attention import (
    Explanation,
    HeadAttention,
    Peak,
    SegmentExplanation,
    main_head,
    peak,
    strength,
    times_uniform,
)
from watchword.explain.overlay import (
    ACCENT,
    BAR,
    FAINT,
    INK,
    PAPER,
    RED,
    YELLOW,
    FrameSet,
    Picture,
    below_each_other,
    paint,
)
from watchword.types import Bars, FloatArray, Mark

WIDTH, MARGIN, GAP = 1320, 24, 10  # pixels
COLUMNS, STRIP = 6, 8  # words in a row, frames that show the video
PIXELS = 200  # of a picture's shorter side, before it is scaled to its column
CHART = 54  # height of bars
MARKS = {
    "first_key_frame": ("first key frame", YELLOW),
    "key_frame": ("key frame", RED),
    "chosen_frame": ("chosen frame", RED),
}


def draw_figure(explanation: Explanation, video: Path, head: str | None = None) -> Image.Image:
    """All segments below each other; `head` is drawn on the frames, the most specific one by default."""
    return below_each_other(
        [draw_segment(explanation, segment, video, head) for segment in explanation.segments], 2 * MARGIN
    )


def draw_segment(
    explanation: Explanation, segment: SegmentExplanation, video: Path, head: str | None = None
) -> Image.Image:
    name = head or main_head(segment)
    strip = [segment.start + (segment.end - segment.start) * (part + 0.5) / STRIP for part in range(STRIP)]
    peaks = [peak(segment, name, word) for word in range(len(segment.words))] if name else []
    marked = [mark.seconds for mark in segment.marks if mark.word is None]
    pictures = FrameSet.read(video, [*strip, *marked, *(one.seconds for one in peaks)], PIXELS)
    rows = [
        _title(explanation, segment),
        _strip(pictures, strip, [mark for mark in segment.marks if mark.word is None]),
    ]
    if name:
        rows.append(_words(segment, segment.heads[name], name, peaks, pictures))
        rows += [
            _timeline(segment, one, segment.heads[one]) for one in segment.heads if len(segment.heads[one].times) > 1
        ]
    return below_each_other(rows, GAP)


def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _row(height: int) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    image = Image.new("RGB", (WIDTH, height), PAPER)
    return image, ImageDraw.Draw(image)


def _title(explanation: Explanation, segment: SegmentExplanation) -> Image.Image:
    image, pen = _row(82)
    pen.text((MARGIN, 14), segment.caption, font=_fitting(segment.caption, 28), fill=INK)
    when = f"{segment.start:.1f} to {segment.end:.1f} s"
    about = f"{explanation.video}, {when}, by {explanation.captioner}, {in_words(segment.confidence)}"
    pen.text((MARGIN, 54), about, font=_fitting(about, 15), fill=FAINT)
    return image


def _fitting(text: str, size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """As large as the line is long, down to where it can still be read."""
    while size > 9 and _font(size).getlength(text) > WIDTH - 2 * MARGIN:
        size -= 1
    return _font(size)


def _fit(picture: Picture, width: int) -> Image.Image:
    high, wide = picture.shape[:2]
    height = min(round(width * high / wide), width)  # an upright video is not taller than its column is wide
    return Image.fromarray(picture).resize((round(height * wide / high), height), Image.Resampling.LANCZOS)


def _strip(pictures: FrameSet, seconds: Sequence[float], marks: Sequence[Mark]) -> Image.Image:
    """Evenly chosen frames in order; the nearest gives way to a frame that the model chose."""
    shown: dict[float, Mark | None] = dict.fromkeys(seconds)
    for mark in marks:
        plain = [one for one in shown if shown[one] is None]
        if mark.seconds not in shown and plain:
            shown.pop(min(plain, key=lambda one: abs(one - mark.seconds)))
        shown[mark.seconds] = mark
    both = {mark.seconds for mark in marks if mark.kind == "first_key_frame"}  # a frame may be both
    column = (WIDTH - 2 * MARGIN - (STRIP - 1) * GAP) // STRIP
    first = _fit(pictures.pictures[0], column)
    image, pen = _row(first.height + 22)
    for location, (one, chosen) in enumerate(sorted(shown.items())):
        left = MARGIN + location * (column + GAP)
        image.paste(_fit(pictures.at(one), column), (left, 0))
        text = f"{one:.1f} s"
        if chosen is not None:
            box = (left, 0, left + first.width - 1, first.height - 1)
            pen.rectangle(box, outline=MARKS[chosen.kind][1], width=4)
            if one in both and chosen.kind != "first_key_frame":
                pen.rectangle((box[0] + 4, 4, box[2] - 4, box[3] - 4), outline=YELLOW, width=3)
            text += f", {MARKS[chosen.kind][0]}"
        pen.text((left, first.height + 3), text, font=_font(13), fill=FAINT)
    return image


def _words(
    segment: SegmentExplanation, head: HeadAttention, name: str, peaks: Sequence[Peak], pictures: FrameSet
) -> Image.Image:
    rows = -(-len(segment.words) // COLUMNS)
    columns = max(-(-len(segment.words) // rows), 3)  # rows that are as long as each other
    column = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) // columns
    high = _fit(pictures.pictures[0], column).height
    chart = CHART + 24 if segment.bars else 0
    cell = chart + high + 50
    image, pen = _row(26 + rows * (cell + GAP))
    balance = f"; above it the weights of {', '.join(bars.title for bars in segment.bars)}" if segment.bars else ""
    pen.text((MARGIN, 2), f"attention of each word: {name}{balance}", font=_font(15), fill=FAINT)
    for number, (word, found) in enumerate(zip(segment.words, peaks, strict=True)):
        left, top = MARGIN + number % columns * (column + GAP), 26 + number // columns * (cell + GAP)
        _charts(pen, segment.bars, number, (left, top, left + column, top + CHART))
        painted = _fit(paint(pictures.at(found.seconds), head, found), column)
        image.paste(painted, (left, top + chart))
        if head.boxes.ndim == 3 and not found.locations_uniform:
            x0, y0, x1, y1 = found.strongest
            box = (left + x0 * painted.width, top + chart + y0 * high)
            pen.rectangle((*box, left + x1 * painted.width - 1, top + chart + y1 * high - 1), outline=ACCENT, width=2)
        pen.text((left, top + chart + high + 3), word.word, font=_font(19), fill=INK)
        pen.text((left, top + chart + high + 28), _note(found, word.probability), font=_font(13), fill=FAINT)
    return image


def _note(found: Peak, probability: float) -> str:
    when = f"{found.seconds:.1f} s, {'flat' if found.times_uniform else f'{found.share:.0%}'}"
    return f"{when}; probability {probability:.0%}"


def _charts(pen: ImageDraw.ImageDraw, charts: Sequence[Bars], word: int, area: tuple[int, int, int, int]) -> None:
    """Side by side: a bar for each name, as high as the area for 1."""
    left, top, right, bottom = area
    each = (right - left) / max(len(charts), 1)
    for number, bars in enumerate(charts):
        begin = left + number * each
        wide = min((each - 8) / len(bars.names), 42)
        pen.line((begin, bottom, begin + wide * len(bars.names), bottom), fill=FAINT)
        for location, (name, weight) in enumerate(zip(bars.names, bars.weights[word], strict=True)):
            side = begin + location * wide
            if weight > 0:
                pen.rectangle((side + 3, bottom - float(weight) * (bottom - top), side + wide - 4, bottom), fill=BAR)
            pen.text((side + 4, bottom + 3), name.rpartition(".")[2], font=_font(12), fill=FAINT)


def _timeline(segment: SegmentExplanation, name: str, head: HeadAttention) -> Image.Image:
    """Words by time: the darker, the larger the weight."""
    label, step = 130, 18
    if all(times_uniform(row) for row in head.over_time):
        image, pen = _row(24)
        pen.text((MARGIN, 4), f"{name}: uniform over time for every word", font=_font(15), fill=FAINT)
        return image
    image, pen = _row(30 + len(segment.words) * step + 22)
    pen.text((MARGIN, 4), f"{name}: attention of each word over time", font=_font(15), fill=FAINT)
    begin, end = min(segment.start, float(head.times[0])), max(segment.end, float(head.times[-1]))
    edges = _edges(head.times, begin, end)
    scale = (WIDTH - 2 * MARGIN - label) / max(end - begin, 1e-9)

    def across(seconds: float) -> float:
        return MARGIN + label + (seconds - begin) * scale

    for word, row in enumerate(strength(head.over_time)):
        top = 28 + word * step
        pen.text((MARGIN, top + 1), segment.words[word].word[:16], font=_font(13), fill=INK)
        for number, dark in enumerate(row.tolist()):
            colour = tuple(round(paper * (1 - dark) + bar * dark) for paper, bar in zip(PAPER, BAR, strict=True))
            pen.rectangle((across(edges[number]), top, across(edges[number + 1]) - 1, top + step - 3), fill=colour)
    bottom = 28 + len(segment.words) * step
    for mark in segment.marks:
        at, colour = across(mark.seconds), MARKS[mark.kind][1]
        if mark.word is None:
            pen.line((at, 26, at, bottom), fill=colour, width=3)
        else:
            middle = 28 + mark.word * step + step // 2 - 2
            pen.ellipse((at - 4, middle - 4, at + 4, middle + 4), outline=colour, width=2)
    for seconds in np.linspace(begin, end, 6):
        text = f"{seconds:.1f} s"
        shift = _font(12).getlength(text) * (seconds - begin) / max(end - begin, 1e-9)
        pen.text((across(float(seconds)) - shift, bottom + 2), text, font=_font(12), fill=FAINT)
    return image


def _edges(times: FloatArray, begin: float, end: float) -> list[float]:
    """Borders of the time steps: half way to the next."""
    middles = ((times[1:] + times[:-1]) / 2).tolist()
    return [begin, *middles, end]
