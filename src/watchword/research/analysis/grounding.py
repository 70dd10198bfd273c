"""`watchword research grounding`: the share of attention on the object of the caption, on drawn videos."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Json
from watchword.errors import WatchwordError

REGIONS = ("regions", "moving_regions")  # streams of drawn videos whose locations are the slots of the truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchword.research.shapes import Truth
    from watchword.types import FloatArray


def grounding(
    runs: Annotated[list[Path], typer.Argument(help="Runs that attend to regions of drawn videos.")],
    truth: Annotated[Path, typer.Option(help="The truth.jsonl of their videos.")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "test",
    as_json: Json = False,
) -> None:
    """Measure the share of attention on the region of the caption's subject, in frames in which it is visible.

    `frames`: within each frame, averaged over frames. `event`: the same for frames of the event. `words`: over all
    frames, averaged over words. `objects`: like `frames`, relative to that on all objects. Chance: uniform attention.

    watchword research grounding runs/shapes_hierarchical --truth data/objects/truth.jsonl
    """
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from watchword.captioning.captioner import Captioner
    from watchword.data.benchmarks import read_clips
    from watchword.research.shapes import read_truth

    known = read_truth(truth)
    rows: dict[str, dict[str, float]] = {}
    for folder in runs:
        captioner = Captioner.load(folder)
        clips = read_clips(captioner.bundle.recipe.data).clips
        videos = [clip.video for clip in clips if clip.split == split]
        missing = [video for video in videos if video not in known]
        if missing or not videos:
            raise WatchwordError(f"{truth} does not have the {split} videos of {folder}: name their own truth.jsonl")
        found, chance = [], []
        for caption in captioner.caption_stored(videos):
            weights = np.asarray(on_regions(caption.attention, folder), np.float64)  # (T, F, N)
            visible = known[caption.video].visible[: weights.shape[1], : weights.shape[2]]
            found.append(shares(weights, known[caption.video]))
            chance.append(shares(np.broadcast_to(visible / visible.sum(), weights.shape), known[caption.video]))
        for name, some in ((captioner.name, found), ("chance", chance)):
            rows[name] = {key: float(np.nanmean([one[key] for one in some])) for key in some[0]}
    rows["chance"] = rows.pop("chance")  # last
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("", *rows["chance"], title=f"{split}: share of attention on the subject", title_justify="left")
    for name, values in rows.items():
        table.add_row(name, *(f"{value:.1%}" for value in values.values()))
    Console().print(table)


def on_regions(attention: "Mapping[str, FloatArray]", folder: Path) -> "FloatArray":
    """The attention over regions."""
    from watchword.types import AttentionHead

    for name, weights in attention.items():
        if AttentionHead.parse(name).stream in REGIONS:
            return weights
    raise WatchwordError(f"the model of {folder} does not attend to regions: {' or '.join(REGIONS)} in data.streams")


def shares(weights: "FloatArray", truth: "Truth") -> dict[str, float]:
    """Of one video: the attention (T, F, N) on the subject; NaN where it is never visible."""
    import numpy as np

    from watchword.research.papers.hierarchical_figure import within_frames

    per_frame = within_frames(weights)  # (F, N)
    # A model that selects frames gives the others no weight: they do not count.
    visible = truth.visible[: weights.shape[1], truth.subject] & (per_frame.sum(-1) > 0)
    objects = [slot for slot, thing in enumerate(truth.things) if thing is not None]
    start, end = truth.event
    happening = visible & (np.arange(len(visible)) >= start) & (np.arange(len(visible)) < end)
    on_subject = per_frame[:, truth.subject]
    on_objects = per_frame[:, objects].sum(-1)
    return {
        "frames": float(on_subject[visible].mean()) if visible.any() else float("nan"),
        "event": float(on_subject[happening].mean()) if happening.any() else float("nan"),
        "words": float(weights[:, :, truth.subject].sum(1).mean()),
        "objects": float(on_subject[visible].sum() / on_objects[visible].sum()) if visible.any() else float("nan"),
    }
