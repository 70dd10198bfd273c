"""`watchword pointing`: does attention find the object that is spoken of? Asked of drawn films, which know."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

REGIONS = ("regions", "moving_regions")  # streams of drawn films whose places are the slots of the truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchword.research.shapes import Truth
    from watchword.types import FloatArray


def pointing(
    runs: Annotated[list[Path], typer.Argument(help="Runs that look at regions of drawn films.")],
    truth: Annotated[Path, typer.Option(help="The truth.jsonl of their films.")],
    split: Annotated[str, typer.Option(help="The split that is looked at.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """Measure the share of attention on the region that is spoken of, in frames in which it is to be seen.

    `frames`: within each frame that is looked at, all alike. `event`: the same, frames of the event only. `words`: of
    all that the words of the caption look at. `objects`: like `frames`, of what falls on objects instead of mere
    background. Chance looks at everything alike.

    watchword pointing runs/shapes_hierarchical --truth data/objects/truth.jsonl
    """
    import numpy as np
    from rich.console import Console
    from rich.table import Table

    from watchword.data.benchmarks import read_clips
    from watchword.research.shapes import read_truth
    from watchword.training.captioner import LoadedCaptioner

    known = read_truth(truth)
    rows: dict[str, dict[str, float]] = {}
    for folder in runs:
        captioner = LoadedCaptioner.load(folder)
        clips = read_clips(captioner.run.recipe.data).clips
        videos = [clip.video for clip in clips if clip.split == split]
        strange = [video for video in videos if video not in known]
        if strange or not videos:
            raise WatchwordError(f"{truth} knows nothing of the {split} videos of {folder}: name their own truth.jsonl")
        found, chance = [], []
        for caption in captioner.describe(videos):
            looked = np.asarray(on_regions(caption.attention, folder), np.float64)  # (T, F, N)
            seen = known[caption.video].visible[: looked.shape[1], : looked.shape[2]]
            found.append(shares(looked, known[caption.video]))
            chance.append(shares(np.broadcast_to(seen / seen.sum(), looked.shape), known[caption.video]))
        for name, films in ((captioner.run.name, found), ("chance", chance)):
            rows[name] = {key: float(np.nanmean([film[key] for film in films])) for key in films[0]}
    rows["chance"] = rows.pop("chance")  # last
    if as_json:
        print(json.dumps(rows))
        return
    table = Table("", *rows["chance"], title=f"{split}: share of attention on what is spoken of", title_justify="left")
    for name, values in rows.items():
        table.add_row(name, *(f"{value:.1%}" for value in values.values()))
    Console().print(table)


def on_regions(attention: "Mapping[str, FloatArray]", folder: Path) -> "FloatArray":
    """The attention to regions among all that a model looks at; global2local's is called `local:` the stream."""
    for name, weights in attention.items():
        if name.removeprefix("local:") in REGIONS:
            return weights
    raise WatchwordError(f"the model of {folder} does not attend to regions: {' or '.join(REGIONS)} in data.streams")


def shares(looked: "FloatArray", truth: "Truth") -> dict[str, float]:
    """Of one film: attention (T, F, N) that falls on the subject; a film in which it is never seen is NaN."""
    import numpy as np

    from watchword.research.papers.hierarchical_figure import within_frames

    alike = within_frames(looked)  # (F, N)
    # A model that chooses frames does not look at the others: they tell nothing.
    visible = truth.visible[: looked.shape[1], truth.subject] & (alike.sum(-1) > 0)
    objects = [slot for slot, thing in enumerate(truth.things) if thing is not None]
    start, end = truth.event
    happening = visible & (np.arange(len(visible)) >= start) & (np.arange(len(visible)) < end)
    on_subject = alike[:, truth.subject]
    on_objects = alike[:, objects].sum(-1)
    return {
        "frames": float(on_subject[visible].mean()) if visible.any() else float("nan"),
        "event": float(on_subject[happening].mean()) if happening.any() else float("nan"),
        "words": float(looked[:, :, truth.subject].sum(1).mean()),
        "objects": float(on_subject[visible].sum() / on_objects[visible].sum()) if visible.any() else float("nan"),
    }
