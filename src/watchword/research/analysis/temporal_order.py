"""`watchword order RUN...`: does a run know what came first? On drawn films, where the truth is known."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.research.shapes import Facts, Truth
    from watchword.training.captioner import LoadedCaptioner
    from watchword.types import Caption, FloatArray


@dataclass(frozen=True)
class Decisions:
    """How captions decide what only the order of time tells. None: there is nothing to count."""

    films: int              # whose caption the order decides
    right: float | None     # the deciding word is the film's; a sentence without it is wrong
    of_two: float | None    # of sentences with the film's word or its counterpart: by chance one half
    decided: int            # such sentences


@dataclass(frozen=True)
class Ranks:
    """How <x_ST, x_t> goes with t. None: no LSTM reads the moments."""

    rising: float | None = None           # of neighbouring moments: larger at the later one, by chance one half
    rising_in_event: float | None = None  # of those within the event
    rank: float | None = None             # Spearman's correlation with t, mean over films and words


def order(
    runs: Annotated[list[Path], typer.Argument(help="Runs on drawn films (watchword shapes).")],
    split: Annotated[str, typer.Option(help="The split that is described.")] = "test",
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """How often the word is right that only the order of time decides: left or right, appears or vanishes.

    For `stats` with an LSTM over moments also whether its memory ranks them: the projections <x_ST, x_t> rise with t.

    watchword order runs/mean runs/ranked --split test
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.data.benchmarks import captions_path
    from watchword.research.shapes import read_truth
    from watchword.training.captioner import LoadedCaptioner

    found: dict[str, dict[str, float | None]] = {}
    for folder in runs:
        captioner = LoadedCaptioner.load(folder)
        path = captions_path(captioner.run.recipe.data)
        truth = read_truth(path.parent / "truth.jsonl")
        videos = [clip.video for clip in read_annotations(path) if clip.split == split and clip.video in truth]
        if not videos:
            raise WatchwordError(f"{path} has no {split} films that truth.jsonl knows: draw them with watchword shapes")
        captions = captioner.describe(videos, beam)
        found[folder.name] = asdict(decisions(captions, truth)) | asdict(_ranks(captioner, captions, truth))
    if as_json:
        print(json.dumps(found))
        return
    headings = ("films", "right", "of two", "decided", "rising", "in event", "rank")
    table = Table("", *headings, title=f"{split}: the order of time", title_justify="left")
    for name, one in found.items():
        table.add_row(name, *("-" if value is None else f"{value:.3g}" for value in one.values()))
    Console().print(table)


def decisions(captions: Sequence["Caption"], truth: "dict[str, Truth]") -> Decisions:
    from watchword.research.shapes import meaning

    films = right = wrong = 0
    for caption in captions:
        facts = truth[caption.video].facts
        if facts.depends_on_order:
            films += 1
            said = meaning(caption.text)
            right += _says(said, facts)
            wrong += _says(said, facts.backwards())
    decided = right + wrong
    return Decisions(films, right / films if films else None, right / decided if decided else None, decided)


def _says(said: dict[str, str], facts: "Facts") -> bool:
    """The sentence says what happens, and whither or into which colour."""
    wanted = {"action": facts.action, "direction": facts.direction, "after": facts.after}
    if facts.after is not None:
        wanted["colour"] = facts.subject.colour
    return all(said.get(kind) == value for kind, value in wanted.items() if value is not None)


def _ranks(
    captioner: "LoadedCaptioner", captions: Sequence["Caption"], truth: "dict[str, Truth]"
) -> Ranks:
    """Whether <x_ST, x_t> rises with t, over all words of the captions and all streams that an LSTM reads."""
    import numpy as np
    import torch

    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats):
        return Ranks()
    rising, inside, ranks = [], [], []
    for caption in captions:
        sentence = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
        with torch.no_grad():
            states = model.retrace(captioner.features.read([caption.video]), sentence)
        start, end = truth[caption.video].event
        for name in model.projections(states[0]):
            projected = torch.stack([model.projections(state)[name][0, 0] for state in states]).numpy()  # (T, F)
            rises = (np.diff(projected) > 0).mean(0)  # (F - 1,)
            rising.append(rises.mean())
            if projected.shape[1] == len(truth[caption.video].boxes):  # every frame of the film is a moment
                inside.append(rises[start : end - 1].mean())
            ranks.append(np.mean([rank_correlation(row) for row in projected]))
    if not rising:
        return Ranks()
    return Ranks(float(np.mean(rising)), float(np.mean(inside)) if inside else None, float(np.mean(ranks)))


def rank_correlation(values: "FloatArray") -> float:
    """Spearman's correlation of a series with its own order: 1 rises always, -1 falls always."""
    import numpy as np

    count = len(values)
    if count < 2:
        return 0.0
    ranks = np.argsort(np.argsort(values))
    return float(1 - 6 * ((ranks - np.arange(count)) ** 2).sum() / (count * (count**2 - 1)))
