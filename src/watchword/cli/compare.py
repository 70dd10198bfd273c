"""`watchword compare`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._shared import SCORES, Json, print_message, score_table

if TYPE_CHECKING:
    from rich.table import Table

    from watchword.training.evaluation import System
    from watchword.training.run import Run

SHOWN = ("Bleu_4", "METEOR", "ROUGE_L", "CIDEr")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.")],
    split: Annotated[str, typer.Option(help="The split to compare.")] = "test",
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals", help="Average runs that differ in seed only; 95 % intervals; differences to the first."
        ),
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Compare the scores of runs, and those of the papers.

    watchword compare runs/mean_pool runs/soft_attention --split test

    watchword compare runs/a_1 runs/a_2 runs/b_1 runs/b_2 --intervals
    """
    from watchword.training.run import Run

    rows: Any
    found = [Run(folder) for folder in runs]
    _warn_of_data(found, split)
    if intervals:
        from watchword.training.evaluation import read_systems

        systems = read_systems(found, split)
        table, rows = _system_table(systems, split), [_system_json(each, systems[0]) for each in systems]
    else:
        scores = _scores(found, split)
        table, rows = score_table(scores, split), scores
    if as_json:
        print(json.dumps(rows))
    else:
        _print_table(table, markdown)
        for line in _data_lines(found, split):
            typer.echo(line)


def _print_table(table: "Table", markdown: bool) -> None:
    from rich.box import MARKDOWN
    from rich.console import Console

    if not markdown:
        Console().print(table)
        return
    table.title, table.box = None, MARKDOWN
    Console(width=400, highlight=False).print(table)


def _scores(runs: Sequence["Run"], split: str) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for run in runs:
        kept = run.scores(split)
        rows[f"{run.name} (beam {kept.get('beam', '?')})"] = kept["scores"]
        if (run.folder / "recipe.toml").exists() and run.recipe.published:
            rows[f"{run.name}: published"] = run.recipe.published
    return rows


def _system_table(systems: Sequence["System"], split: str) -> "Table":
    from rich.table import Table

    table = Table(title=f"{split} (x100); intervals and differences are CIDEr's", title_justify="left")
    for heading in ("", "seeds", *(SCORES[metric] for metric in SHOWN), "95 % interval", "by seed", "difference"):
        table.add_column(heading, justify="left" if not heading else "right")
    first, by = systems[0], "CIDEr"
    for system in systems:
        own = system.estimate(by)
        cells = [f"{100 * system.mean(metric):.1f}" if metric in system.metrics else "-" for metric in SHOWN]
        cells += [f"{100 * own.low:.1f} to {100 * own.high:.1f}"]
        cells += [", ".join(f"{100 * value:.1f}" for value in system.of_seeds(by))]
        paired = system.minus(first, by)
        against = f"{100 * paired.value:+.1f} ({100 * paired.low:+.1f} to {100 * paired.high:+.1f})"
        table.add_row(system.name, _listed(system.seeds), *cells, "" if system is first else against)
    return table


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _system_json(system: "System", first: "System") -> dict[str, Any]:
    return {
        "system": system.name,
        "seeds": system.seeds,
        "scores": {metric: asdict(system.estimate(metric)) for metric in system.metrics},
        "by_seed": {metric: system.of_seeds(metric) for metric in system.metrics},
        "difference": {metric: asdict(system.minus(first, metric)) for metric in system.metrics},
    }


def _warn_of_data(runs: Sequence["Run"], split: str) -> None:
    """Warnings where the runs' test or training data differ."""
    if len(set(_data_of(runs, split).values())) > 1:
        print_message("warning: scored on different data, the figures do not compare")
    elif len({run.scores(split)["data"]["trained_on"] for run in runs if "data" in run.scores(split)}) > 1:
        print_message("warning: trained on different data")


def _data_lines(runs: Sequence["Run"], split: str) -> list[str]:
    """What the scores stand on: one line where it is the same data, else one of each run."""
    lines = _data_of(runs, split)
    if len(set(lines.values())) > 1:
        return [f"{name}: {line}" for name, line in lines.items()]
    return sorted(set(lines.values()))


def _data_of(runs: Sequence["Run"], split: str) -> dict[str, str]:
    from watchword.data.benchmarks import share_text

    kept = {run.name: run.scores(split).get("data") for run in runs}
    return {name: f"{split} {share_text(data)} videos, data {data['sha256']}" for name, data in kept.items() if data}
