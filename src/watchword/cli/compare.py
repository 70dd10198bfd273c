"""`watchword compare`."""

import json
from pathlib import Path
from typing import Annotated

import typer


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that watchword evaluate has been over.")],
    split: Annotated[str, typer.Option(help="The split whose scores are compared.")] = "test",
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """Put runs side by side, the paper's figures under each run that reproduces one.

    watchword compare runs/mean_pool runs/soft_attention --split test
    """
    from rich.console import Console

    from watchword.cli._tables import score_table
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
    _tell(scored, trained)


def _tell(scored: dict[str, str], trained: set[str]) -> None:
    """What the runs were scored on, and a warning where that, or what they were trained on, differs."""
    lines = sorted(set(scored.values()))
    if len(lines) > 1:
        typer.echo("watchword: warning: scored on different data, the figures do not compare", err=True)
        lines = [f"{name}: {line}" for name, line in scored.items()]
    elif len(trained) > 1:
        typer.echo("watchword: warning: trained on different data", err=True)
    for line in lines:
        typer.echo(line, err=True)
