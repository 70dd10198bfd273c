"""The curves of a run as a picture: losses, and scores times 100, over the epochs of all phases."""

import io
import json
import logging
from pathlib import Path

from watchword.atomic_io import write_whole

log = logging.getLogger(__name__)

LOSSES = ("loss", "val_loss")
SCORES = {"CIDEr": "CIDEr", "Bleu_4": "BLEU-4", "ROUGE_L": "ROUGE-L"}


def draw_curves(folder: Path) -> None:
    """Writes curves.png from log.jsonl, where matplotlib is installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        log.info("a picture of the curves needs matplotlib: pip install 'watchword[figures]'")
        return
    if not (folder / "log.jsonl").exists():  # no phase has an epoch
        return
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text("utf-8").splitlines()]
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    losses, scores = figure.subplots(1, 2)
    for name in LOSSES:
        points = [(number, row[name]) for number, row in enumerate(rows, 1) if name in row]
        losses.plot(*zip(*points, strict=True), marker=".", label=name)
    for name, label in SCORES.items():
        points = [(number, 100 * row[name]) for number, row in enumerate(rows, 1) if name in row]
        scores.plot(*zip(*points, strict=True), marker=".", label=label)
    for axes, title in ((losses, "nats a token"), (scores, "validation, x100")):
        axes.set(title=title, xlabel="epoch")
        axes.legend()
        axes.grid(alpha=0.3)
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=120)
    write_whole(folder / "curves.png", content.getvalue(), durable=False)
