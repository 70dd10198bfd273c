"""A picture of a run's curves: losses on the left, validation scores on the right."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from math import isfinite, nan
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from watchword.atomic_io import write_whole
from watchword.documents import parse_json

LOSSES = {"loss": "loss", "val_loss": "val_loss"}
SCORES = {"CIDEr": "CIDEr", "Bleu_4": "BLEU-4", "ROUGE_L": "ROUGE-L"}
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 560, 420, 64, 44, 20, 48  # a panel and its margins, pixels
COLOURS = ("#1f6fb4", "#d9730d", "#2e8b57")
INK, GRID = "#222222", "#dddddd"
NUM_LINES = 4  # of the grid
DRAWN = 1e9  # larger values are not drawn

Points = Sequence[tuple[int, float]]


def draw_curves(folder: Path) -> None:
    """Writes curves.png from log.jsonl."""
    if not (folder / "log.jsonl").exists():  # no phase has an epoch
        return
    rows = list(_rows((folder / "log.jsonl").read_text("utf-8", "replace")))
    picture = Image.new("RGB", (2 * WIDTH, HEIGHT), "white")
    _panel(picture, 0, "nats a token", curves_of(rows, LOSSES, 1.0), len(rows))
    _panel(picture, WIDTH, "validation, x100", curves_of(rows, SCORES, 100.0), len(rows))
    content = io.BytesIO()
    picture.save(content, "PNG", optimize=True)
    write_whole(folder / "curves.png", content.getvalue(), durable=False)


def _rows(log: str) -> Iterator[Mapping[str, Any]]:
    """A line that is damaged has no place in the curves; it is no reason to stop a training."""
    for line in log.splitlines():
        with suppress(ValueError):
            row = parse_json(line)
            if isinstance(row, dict):
                yield {
                    name: value for name, value in row.items() if isinstance(value, int | float) and abs(value) < DRAWN
                }


def curves_of(rows: Sequence[Mapping[str, Any]], names: Mapping[str, str], scale: float) -> dict[str, Points]:
    """Label -> (epoch, value); an epoch without validation has no score, and a loss that overflowed no point."""
    found = {
        label: [(number, scale * row[name]) for number, row in enumerate(rows, 1) if isfinite(row.get(name, nan))]
        for name, label in names.items()
    }
    return {label: points for label, points in found.items() if points}


def _panel(picture: Image.Image, begin: int, title: str, curves: Mapping[str, Points], epochs: int) -> None:
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(15)
    left, right, bottom = begin + LEFT, begin + WIDTH - RIGHT, HEIGHT - BOTTOM
    values = [value for points in curves.values() for _, value in points] or [0.0, 1.0]
    low, high = min(values), max(values)
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)

    def at(epoch: float, value: float) -> tuple[float, float]:
        share = (epoch - 1) / max(1, epochs - 1)
        return left + share * (right - left), bottom - (value - low) / (high - low) * (bottom - TOP)

    for number in range(NUM_LINES + 1):
        value = low + (high - low) * number / NUM_LINES
        height = at(1, value)[1]
        pen.line([(left, height), (right, height)], GRID)
        pen.text((left - 8, height), f"{round(value, 3):.3g}", INK, font, anchor="rm")
    pen.text((left, bottom + 10), "1", INK, font, anchor="mt")
    pen.text((right, bottom + 10), f"epoch {epochs}", INK, font, anchor="rt")
    for colour, points in zip(COLOURS, curves.values(), strict=False):
        places = [at(epoch, value) for epoch, value in points]
        pen.line(places, colour, 2)
        for x, y in places:
            pen.ellipse((x - 3, y - 3, x + 3, y + 3), colour)
    _legend(pen, (left, TOP // 2), title, list(curves))


def _legend(pen: ImageDraw.ImageDraw, place: tuple[float, float], title: str, labels: Sequence[str]) -> None:
    x, y = place
    pen.text((x, y), title, INK, ImageFont.load_default(17), anchor="lm")
    x += 20 + pen.textlength(title, ImageFont.load_default(17))
    for colour, label in zip(COLOURS, labels, strict=False):
        pen.ellipse((x, y - 4, x + 8, y + 4), colour)
        pen.text((x + 14, y), label, INK, ImageFont.load_default(15), anchor="lm")
        x += 30 + pen.textlength(label, ImageFont.load_default(15))
