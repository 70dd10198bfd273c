"""`watchword research attention-ablation`: the score without the smaller attention weights (G2L, Fig. 6)."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json, LengthPower, wide_console
from watchword.errors import WatchwordError
from watchword.research.charts import new_figure, save_figure

if TYPE_CHECKING:
    from watchword.research.papers.global2local_ablation import AblationCurves

SHARES = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0"


def attention_ablation(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    split: Annotated[str, typer.Option(help="The split to caption and score.")] = "val",
    shares: Annotated[str, typer.Option(help="Shares of the weights to set to 0, the smallest first.")] = SHARES,
    metric: Annotated[str, typer.Option(help="The metric to show; the file has all.")] = "CIDEr",
    beam: Beam = 5,
    length_power: LengthPower = 0.5,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A figure of the curves, .png or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Set the smaller weights of each attention head to 0, more and more of them, and score the captions.

    watchword research attention-ablation runs/g2l --split test --output ablation.png
    """
    wanted = _shares(shares)
    from rich.table import Table

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar
    from watchword.research.papers.global2local_ablation import ablation_curves
    from watchword.training.evaluation import Search
    from watchword.training.run import Run

    loaded = Run(run)
    search = Search(beam, length_power, loaded.recipe.data.max_words)
    with bar(transient=True) as progress:
        task = progress.add_task(f"captioning {split}", total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        curves = ablation_curves(loaded, split, wanted, search, report=report)
    if metric not in curves.whole:
        raise WatchwordError(f"no metric {metric!r}; there are {', '.join(curves.whole)}")
    write_whole(run / f"attention-ablation-{split}.json", json.dumps(asdict(curves), indent=1) + "\n")
    if output is not None:
        draw(curves, metric, output)
    if as_json:
        print(json.dumps(asdict(curves)))
        return
    title = f"{metric} on {split} relative to {100 * curves.whole[metric]:.1f} with all weights, by the share set to 0"
    table = Table("head", *(f"{share:g}" for share in wanted), title=title, title_justify="left")
    for name, ratios in curves.ratios(metric).items():
        table.add_row(name, *(f"{ratio:.2f}" for ratio in ratios))
    wide_console().print(table)


def _shares(text: str) -> list[float]:
    try:
        shares = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise WatchwordError(f"--shares {text}: expected numbers such as 0.5,0.9,1") from error
    if not all(0 <= share <= 1 for share in shares):
        raise WatchwordError(f"--shares {text}: a share is between 0 and 1")
    return shares


def draw(curves: "AblationCurves", metric: str, path: Path) -> None:
    """One line for each head: share of the weights set to 0 (x), score relative to that of all weights (y)."""
    figure = new_figure(6, 4)
    axes = figure.add_subplot(title=f"{curves.run}, {curves.split}", ylabel=f"{metric} / {metric} of all weights")
    axes.set_xlabel("share of the attention weights set to 0, the smallest first")
    for (name, ratios), marker in zip(curves.ratios(metric).items(), "osD^v<>pPX*hH8d|_+x1234" * 4, strict=False):
        axes.plot([0.0, *curves.shares], [1.0, *ratios], marker=marker, label=name or "attention")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    save_figure(figure, path)
