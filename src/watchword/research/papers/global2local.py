"""`watchword masking`: how much of its attention a model needs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.research.papers.global2local_curves import MaskingCurves

SHARES = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0"


def masking(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    split: Annotated[str, typer.Option(help="The split that is described and scored.")] = "val",
    shares: Annotated[str, typer.Option(help="Shares of the weights, smallest first, that are taken away.")] = SHARES,
    metric: Annotated[str, typer.Option(help="The metric that is drawn; the file holds all.")] = "CIDEr",
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
    length_power: Annotated[float, typer.Option(min=0.0, max=5.0, help="Scores are divided by words ** this.")] = 0.5,
    picture: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG: watchword\\[figures].")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the curves for a program.")] = False,
) -> None:
    """Set the smaller weights of each attention to 0, more and more of them, and score what is said then.

    watchword masking runs/g2l --split test --picture masking.png
    """
    wanted = _shares(shares)
    from rich.table import Table

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar, console
    from watchword.research.papers.global2local_curves import masking_curves
    from watchword.training.evaluation import Search
    from watchword.training.run import Run

    loaded = Run(run)
    search = Search(beam, length_power, loaded.recipe.data.max_words)
    with bar(transient=True) as progress:
        task = progress.add_task(f"describing {split}", total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        curves = masking_curves(loaded, split, wanted, search, report=report)
    if metric not in curves.whole:
        raise WatchwordError(f"no metric {metric!r}; there are {', '.join(curves.whole)}")
    write_whole(run / f"masking-{split}.json", json.dumps(asdict(curves), indent=1) + "\n")
    if picture is not None:
        draw(curves, metric, picture)
    if as_json:
        print(json.dumps(asdict(curves)))
        return
    title = f"{metric} of {split}, over the {100 * curves.whole[metric]:.1f} of all weights, when this share is 0"
    table = Table("attention", *(f"{share:g}" for share in wanted), title=title, title_justify="left")
    for name, ratios in curves.ratios(metric).items():
        table.add_row(name, *(f"{ratio:.2f}" for ratio in ratios))
    console.print(table)


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WatchwordError(f"--shares {text}: expected numbers such as 0.5,0.9,1") from error
    if not all(0 <= share <= 1 for share in shares):
        raise WatchwordError(f"--shares {text}: a share is between 0 and 1")
    return shares


def draw(curves: "MaskingCurves", metric: str, path: Path) -> None:
    """One line an attention: share of the weights that are 0 (x), score over the score of all weights (y)."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise WatchwordError("pictures of curves need matplotlib: pip install 'watchword[figures]'") from error
    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot(title=f"{curves.run}, {curves.split}", ylabel=f"{metric} / {metric} of all weights")
    axes.set_xlabel("share of the attention weights set to 0, the smallest first")
    for (name, ratios), marker in zip(curves.ratios(metric).items(), "osD^v<>pPX*hH8d|_+x1234" * 4, strict=False):
        axes.plot([0.0, *curves.shares], [1.0, *ratios], marker=marker, label=name or "attention")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    try:
        figure.savefig(path, dpi=150)
    except (OSError, ValueError) as error:
        raise WatchwordError(f"cannot write {path}: {error}") from error
