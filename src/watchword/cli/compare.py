"""`watchword compare`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Json, print_message, score_table


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.")],
    split: Annotated[str, typer.Option(help="The split to compare.")] = "test",
    as_json: Json = False,
) -> None:
    """Compare the scores of runs, and those of the papers.

    watchword compare runs/mean_pool runs/soft_attention --split test
    """
    from rich.console import Console

    from watchword.data.benchmarks import share_text
    from watchword.training.run import Run

    rows: dict[str, dict[str, float]] = {}
    scored: dict[str, str] = {}
    trained: set[str] = set()
    for folder in runs:
        run = Run(folder)
        found = run.scores(split)
        rows[f"{run.name} (beam {found.get('beam', '?')})"] = found["scores"]
        if data := found.get("data"):
            scored[run.name] = f"{split} {share_text(data)} videos, data {data['sha256']}"
            trained.add(data["trained_on"])
        if (folder / "recipe.toml").exists() and run.recipe.published:
            rows[f"{run.name}: published"] = run.recipe.published
    if as_json:
        print(json.dumps(rows))
    else:
        Console().print(score_table(rows, split))
    _print_data(scored, trained)


def _print_data(scored: dict[str, str], trained: set[str]) -> None:
    """The data of the scores, with a warning where it, or the training data, differs."""
    lines = sorted(set(scored.values()))
    if len(lines) > 1:
        print_message("warning: scored on different data, the figures do not compare")
        lines = [f"{name}: {line}" for name, line in scored.items()]
    elif len(trained) > 1:
        print_message("warning: trained on different data")
    for line in lines:
        typer.echo(line, err=True)
