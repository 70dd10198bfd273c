"""Measures on drawn videos, whose truth is known: `watchword research grounding` and `temporal-order`.

Grounding is the share of attention on the object of the caption. Temporal order is whether captions get the order of
events right.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.research.shapes import Facts, Truth
    from watchword.types import Hypothesis

REGIONS = ("regions", "moving_regions")  # streams of drawn videos whose locations are the slots of the truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    from watchword.research.shapes import Truth
    from watchword.tensors import Stream
    from watchword.types import FloatArray


def grounding(
    runs: Annotated[list[Path], typer.Argument(help="Runs that attend to regions of drawn videos.")],
    truth: Annotated[Path, typer.Option(help="The truth.jsonl of their videos.")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "test",
    as_json: Json = False,
) -> None:
    """Measure the share of attention on the region of the caption's subject, in frames in which it is visible.

    `frames`: within each frame, averaged over frames. `event`: the same for frames of the event. `words`: over all
    frames, averaged over words. `objects`: like `frames`, relative to that on all objects. `during`: on frames of the
    event, whatever the region. Chance: uniform attention.

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
            stream, attention = on_regions(caption.attention, folder)
            weights = np.asarray(attention, np.float64)  # (T, F, N)
            truth_there = at_times(known[caption.video], captioner.features.read([caption.video]), stream)
            visible = truth_there.visible[: weights.shape[1], : weights.shape[2]]
            found.append(shares(weights, truth_there))
            chance.append(shares(np.broadcast_to(visible / max(1, visible.sum()), weights.shape), truth_there))
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


def on_regions(attention: "Mapping[str, FloatArray]", folder: Path) -> "tuple[str, FloatArray]":
    """The stream of regions, and the attention over it."""
    from watchword.types import AttentionHead

    for name, weights in attention.items():
        stream = AttentionHead.parse(name).stream
        if stream in REGIONS:
            return stream, weights
    raise WatchwordError(f"the model of {folder} does not attend to regions: {' or '.join(REGIONS)} in data.streams")


def at_times(truth: "Truth", streams: "Mapping[str, Stream]", regions: str) -> "Truth":
    """The truth of the frames that have regions; another stream of the video has all frames."""
    import numpy as np

    num_frames = len(truth.visible)
    whole = [stream for stream in streams.values() if stream.times.shape[1] == num_frames]
    times = streams[regions].times[0].numpy()
    if len(times) == num_frames or not whole:
        return truth
    frames = np.abs(whole[0].times[0].numpy()[:, None] - times).argmin(0)  # (F,)
    inside = (frames >= truth.event[0]) & (frames < truth.event[1])
    start = int(inside.argmax()) if inside.any() else 0
    event = (start, start + int(inside.sum()))
    return replace(truth, event=event, boxes=truth.boxes[frames], visible=truth.visible[frames])


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
        "during": float(weights[:, start:end].sum((1, 2)).mean()),
    }


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
