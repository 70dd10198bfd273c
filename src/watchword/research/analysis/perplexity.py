"""`watchword research perplexity`: the cross entropy of references, paired by video."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Json


def perplexity(
    runs: Annotated[list[Path], typer.Argument(help="Run folders; the first is the baseline.")],
    split: Annotated[str, typer.Option(help="The split, or several with commas: val,test.")] = "val",
    as_json: Json = False,
) -> None:
    """Compare runs by the cross entropy of references; it separates them on few videos, where CIDEr is too noisy.

    The standard error is over videos; that of a difference is paired by video. Do not select models on a test split.

    watchword research perplexity runs/global runs/local --split val
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.metrics.statistics import mean_of_ratio
    from watchword.training.evaluation import open_split, video_losses
    from watchword.training.run import Run

    opened = [Run(folder) for folder in runs]
    clips = [clip for name in split.split(",") for clip in open_split(opened, name)[0].split(name)]
    rows: dict[str, dict[str, float]] = {}
    first = None
    for run in opened:
        losses, words = video_losses(run, clips)
        first = losses if first is None else first
        mean, error = mean_of_ratio(losses, words)
        more, of_more = mean_of_ratio(losses - first, words)
        rows[run.name] = {"loss": mean, "error": error, "difference": more, "error_of_difference": of_more}
    if as_json:
        print(json.dumps({"split": split, "videos": len(clips), "runs": rows}))
        return
    table = Table("", "nats a token", f"against {opened[0].name}", title=f"{split}, {len(clips)} videos")
    for name, row in rows.items():
        difference = f"{row['difference']:+.3f} +- {row['error_of_difference']:.3f}" if row["difference"] else "-"
        table.add_row(name, f"{row['loss']:.3f} +- {row['error']:.3f}", difference)
    Console().print(table)
