"""`watchword research temporal-order`: whether captions get the order of events right, on drawn videos."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.research.shapes import Facts, Truth
    from watchword.types import Hypothesis


@dataclass(frozen=True)
class Decisions:
    """How often captions are right where only the order of frames decides. None: nothing to count."""

    videos: int  # whose caption depends on the order
    right: float | None  # the deciding word is the video's; a caption without it is wrong
    of_two: float | None  # of captions with the video's word or its counterpart: chance: 0.5
    decided: int  # such captions


@dataclass(frozen=True)
class Ranks:
    """How <x_ST, x_t> changes with t. None: no LSTM over time."""

    rising: float | None = None  # share of neighbouring time steps with the larger value at the later one; chance: 0.5
    rising_in_event: float | None = None  # of those within the event
    rank: float | None = None  # Spearman's correlation with t, mean over videos and words


def temporal_order(
    runs: Annotated[list[Path], typer.Argument(help="Runs on drawn videos (watchword research shapes).")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "test",
    beam: Beam = 1,
    as_json: Json = False,
) -> None:
    """Measure how often the word is right that depends on the order of frames: left or right, appears or vanishes.

    For `stats` with an LSTM over time also whether its memory ranks time steps: <x_ST, x_t> rises with t.

    watchword research temporal-order runs/mean runs/ranked --split test
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.captioning.captioner import Captioner
    from watchword.data.annotations import read_annotations
    from watchword.data.benchmarks import captions_path
    from watchword.research.shapes import read_truth

    found: dict[str, dict[str, float | None]] = {}
    for folder in runs:
        captioner = Captioner.load(folder)
        path = captions_path(captioner.bundle.recipe.data)
        truth = read_truth(path.parent / "truth.jsonl")
        videos = [clip.video for clip in read_annotations(path) if clip.split == split and clip.video in truth]
        if not videos:
            raise WatchwordError(
                f"{path} has no {split} videos of truth.jsonl: draw them with watchword research shapes"
            )
        captions = captioner.caption_stored(videos, beam)
        found[folder.name] = asdict(decisions(captions, truth)) | asdict(_ranks(captioner, captions, truth))
    if as_json:
        print(json.dumps(found))
        return
    headings = ("videos", "right", "of two", "decided", "rising", "in event", "rank")
    table = Table("", *headings, title=f"{split}: order of frames", title_justify="left")
    for name, one in found.items():
        table.add_row(name, *("-" if value is None else f"{value:.3g}" for value in one.values()))
    Console().print(table)


def decisions(captions: Sequence["Hypothesis"], truth: "dict[str, Truth]") -> Decisions:
    from watchword.research.shapes import meaning

    videos = right = wrong = 0
    for caption in captions:
        facts = truth[caption.video].facts
        if facts.depends_on_order:
            videos += 1
            found = meaning(caption.text)
            right += _matches(found, facts)
            wrong += _matches(found, facts.backwards())
    decided = right + wrong
    return Decisions(videos, right / videos if videos else None, right / decided if decided else None, decided)


def _matches(found: dict[str, str], facts: "Facts") -> bool:
    """Whether the caption names the action, and its direction or new colour."""
    wanted = {"action": facts.action, "direction": facts.direction, "after": facts.after}
    if facts.after is not None:
        wanted["colour"] = facts.subject.colour
    return all(found.get(kind) == value for kind, value in wanted.items() if value is not None)


def _ranks(captioner: "Captioner", captions: Sequence["Hypothesis"], truth: "dict[str, Truth]") -> Ranks:
    """Whether <x_ST, x_t> rises with t, over all words of the captions and all streams that an LSTM reads."""
    import numpy as np
    import torch

    from watchword.metrics.statistics import rank_correlation
    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats):
        return Ranks()
    rising, inside, ranks = [], [], []
    for caption in captions:
        tokens = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
        with torch.no_grad():
            states = model.retrace(captioner.features.read([caption.video]), tokens)
        start, end = truth[caption.video].event
        for name in model.projections(states[0]):
            projected = torch.stack([model.projections(state)[name][0, 0] for state in states]).numpy()  # (T, F)
            rises = (np.diff(projected) > 0).mean(0)  # (F - 1,)
            rising.append(rises.mean())
            if projected.shape[1] == len(truth[caption.video].boxes):  # every frame of the video is a time step
                inside.append(rises[start : end - 1].mean())
            order = list(range(projected.shape[1]))
            ranks.append(np.mean([rank_correlation(row.tolist(), order) for row in projected]))
    if not rising:
        return Ranks()
    return Ranks(float(np.mean(rising)), float(np.mean(inside)) if inside else None, float(np.mean(ranks)))
