"""STaTS: `watchword research heatmap` draws Fig. 6 to 9, `watchword research branches` measures ST, TS and ranking."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json, Videos, wide_console
from watchword.errors import WatchwordError, unknown
from watchword.research.charts import save_picture

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.types import FloatArray, Hypothesis

SIDE = 160  # pixels of a picture's short side


def heatmap(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    video: Annotated[str, typer.Argument(help="The id of a video in the run's store.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The figure, .png or .jpg.")] = Path("heatmap.png"),
    videos: Videos = None,
    head: Annotated[str, typer.Option(help="The attention head to draw; default: the first.")] = "",
    beam: Beam = 5,
) -> None:
    """Caption a video and draw, for each word, the frame with the largest weight and its heat map.

    watchword research heatmap runs/msrvtt_stats video7020 --output heat.png
    """
    from watchword.atomic_io import check_outputs
    from watchword.captioning.captioner import Captioner
    from watchword.research.papers.stats_figure import draw_words
    from watchword.types import AttentionHead
    from watchword.video import At, ShortSide, read_frames

    captioner = Captioner.load(run)
    path = captioner.video_file(video, videos)
    check_outputs([output], [path])
    (caption,) = captioner.caption_stored([video], beam)
    if not caption.attention:
        raise WatchwordError(f"{run} has a model without attention")
    head = head or next(iter(caption.attention))
    if head not in caption.attention:
        raise unknown("attention head of this run", head, caption.attention)
    stream = AttentionHead.parse(head).stream
    arrays = captioner.features.read([video])[stream]
    attention = caption.attention[head]
    steps, locations = attention.shape[1:]
    frames = read_frames(path, At(tuple(float(time) for time in arrays.times[0, :steps])), ShortSide(SIDE))
    notes = _shares(captioner, caption, stream)
    picture = draw_words(frames, caption.words, attention, arrays.boxes[0, :steps, :locations].numpy(), notes)
    save_picture(picture, output)
    typer.echo(f"{caption.text}\n{output}")


def _shares(captioner: "Captioner", caption: "Hypothesis", stream: str) -> list[str]:
    """The weight of ST in Eq. 12 for each word, for a model `stats` with both branches."""
    import torch

    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats) or model.config.variant != "stats":
        return []
    tokens = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
    with torch.no_grad():
        states = model.retrace(captioner.features.read([caption.video]), tokens)
    return [f"ST {float(model.share_of_st(state)[stream]):.0%}" for state in states]


@dataclass(frozen=True)
class Branches:
    """What the two branches of a run do with one stream, means over all words of a split. None: no such branch."""

    stream: str
    words: int
    st: float  # Eq. 12: the share of ST
    st_deviation: float  # of that share, over words
    largest: float | None = None  # Eq. 9: the largest weight of a time step
    effective: float | None = None  # exp(entropy) of these weights: how many time steps count ...
    time_steps: float | None = None  # ... of how many
    rising: float | None = (
        None  # Eq. 6: neighbouring time steps with the larger <x_ST, x_t> at the later one; chance 0.5
    )
    rank: float | None = None  # Spearman's correlation of <x_ST, x_t> with t


def branches(
    runs: Annotated[list[Path], typer.Argument(help="Runs of model stats.")],
    split: Annotated[str, typer.Option(help="The split to caption.")] = "val",
    beam: Beam = 1,
    as_json: Json = False,
) -> None:
    """Measure over a whole split the share of ST, how sharply TS selects a time step, and whether ST ranks time steps.

    watchword research branches runs/msvd_stats --split test
    """
    from rich.table import Table

    from watchword.captioning.captioner import Captioner
    from watchword.data.benchmarks import read_clips

    found: dict[str, list[Branches]] = {}
    for folder in runs:
        captioner = Captioner.load(folder)
        clips = read_clips(captioner.bundle.recipe.data).split(split)
        found[folder.name] = branches_of(captioner, captioner.caption_stored([clip.video for clip in clips], beam))
    if as_json:
        print(json.dumps({name: [asdict(one) for one in rows] for name, rows in found.items()}))
        return
    headings = ("stream", "words", "ST", "deviation", "largest", "effective", "time steps", "rising", "rank")
    table = Table(title=f"{split}: the branches of STaTS", title_justify="left")
    for heading in ("", *headings):
        is_name = heading in ("", "stream")
        table.add_column(heading, justify="left" if is_name else "right", no_wrap=not is_name, overflow="fold")
    for name, rows in found.items():
        for one in rows:
            first, *numbers = asdict(one).values()
            table.add_row(name, first, *("-" if value is None else f"{value:.4g}" for value in numbers))
    wide_console().print(table)


def branches_of(captioner: "Captioner", captions: "Sequence[Hypothesis]") -> list[Branches]:
    """One row a stream."""
    import numpy as np
    import torch

    from watchword.models.stats import Stats

    model = captioner.model
    if not isinstance(model, Stats):
        raise WatchwordError("branches are those of the model stats")
    shares: dict[str, list[FloatArray]] = {}
    chosen: dict[str, list[FloatArray]] = {}
    ranked: dict[str, list[tuple[float, float]]] = {}
    for caption in captions:
        streams = captioner.features.read([caption.video])
        tokens = torch.tensor([[captioner.vocabulary.encode(caption.words)]])
        with torch.no_grad():
            states = model.retrace(streams, tokens)
        for name in model.looked_at:
            real = streams[name].mask[0].any(-1)  # (F,)
            if not real.any():
                continue
            read = (model.share_of_st, model.chosen_time_steps, model.projections)
            share, weights, projected = (
                np.stack(
                    [np.asarray(one(state)[name][0, 0]) for state in states if name in one(state)] or [np.zeros(0)]
                )
                for one in read
            )  # (T,), (T, F), (T, F)
            shares.setdefault(name, []).append(share)
            if weights.size:
                chosen.setdefault(name, []).append(sharpness(weights[:, real]))
            if projected.size and real.sum() > 1:
                ranked.setdefault(name, []).append(ranking(projected[:, real]))
    rows = []
    for name, values in shares.items():
        share = np.concatenate(values)
        sharp = np.concatenate(chosen[name]).mean(0).tolist() if name in chosen else (None,) * 3
        order = np.mean(ranked[name], 0).tolist() if name in ranked else (None,) * 2
        rows.append(Branches(name, len(share), float(share.mean()), float(share.std()), *sharp, *order))
    return rows


def sharpness(weights: "FloatArray") -> "FloatArray":
    """weights (T, F), each row a distribution -> largest weight, exp(entropy) and F of each row: (T, 3)."""
    import numpy as np

    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1)
    return np.stack([weights.max(-1), np.exp(entropy), np.full(len(weights), weights.shape[1])], 1)


def ranking(projected: "FloatArray") -> tuple[float, float]:
    """<x_ST, x_t> (T, F) -> the share of rising neighbours and the rank correlation with time, means over words."""
    import numpy as np

    from watchword.metrics.statistics import rank_correlation

    order = list(range(projected.shape[1]))
    ranks = [rank_correlation(row.tolist(), order) for row in projected]
    return float((np.diff(projected) > 0).mean()), float(np.mean(ranks))
