"""`watchword research sweep` and `perplexity`: experiments with runs.

A sweep is a grid of runs over one or two settings (Table 3 of Dong et al. 2018). Perplexity is the cross entropy of
references, paired by video.
"""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Beam, Json
from watchword.errors import WatchwordError
from watchword.research.charts import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweep(
    recipe: Annotated[str, typer.Argument(help="The recipe of every run: a name, or a file.")],
    words: Annotated[list[str] | None, typer.Argument(help="key=value settings for all runs")] = None,
    over: Annotated[list[str] | None, typer.Option(help="key=value,value,...; once or twice.")] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the runs, sweep.json and sweep.png.")
    ] = Path("runs/sweep"),
    by: Annotated[str, typer.Option(help="The score to show.")] = "CIDEr",
    split: Annotated[str, typer.Option(help="The split to score, not test.")] = "val",
    beam: Beam = 5,
) -> None:
    """Train and score a run for every value, or pair of values, of settings; print a table and draw a heat map.

    Finished runs are skipped and interrupted ones continue: repeat the same command.

    watchword research sweep msvd/information --over phases.0.loss.gamma=1,2
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import console, training_bar
    from watchword.cli._shared import SCORES
    from watchword.config import find_recipe, read_recipe, relative_to
    from watchword.training import Run, resume, train
    from watchword.training.evaluation import Search, evaluate
    from watchword.training.loop import VALIDATION_METRICS

    if split == "test":
        raise WatchwordError("settings must not be selected on the test split: use val")
    if by not in SCORES:
        raise WatchwordError(f"--by {by}: expected one of {', '.join(SCORES)}")
    axes = [read_axis(word) for word in over or ()]
    if len(axes) not in (1, 2):
        raise WatchwordError("give --over key=value,value,... once or twice, such as --over phases.0.loss.gamma=1,2,3")
    names = [key.rpartition(".")[2] for key, _ in axes]
    metrics = None if by == "METEOR" else VALIDATION_METRICS  # METEOR takes longer than all others
    cells = list(itertools.product(*(values for _, values in axes)))
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for number, cell in enumerate(cells, 1):
        chosen = [f"{key}={value}" for (key, _), value in zip(axes, cell, strict=True)]
        planned = read_recipe(find_recipe(recipe), [*(words or ()), *chosen])
        run = Run(output / ",".join(f"{name}={value}" for name, value in zip(names, cell, strict=True)))
        console.print(f"run {number} of {len(cells)}: {' '.join(chosen)}")
        begun = (run.folder / "recipe.toml").exists()
        if begun and relative_to(run.recipe, run.folder) != relative_to(planned, run.folder):
            raise WatchwordError(
                f"{run.folder} was started with another recipe or other settings: name another --output"
            )
        if not (run.folder / f"scores-{split}.json").exists():
            with training_bar() as report:
                run = resume(run.folder, report) if begun else train(planned, run.folder, report)
            result = evaluate([run], split, Search(beam, max_words=planned.data.max_words), metrics)
            write_whole(run.folder / f"predictions-{split}.json", result.predictions_json())
            write_whole(run.folder / f"scores-{split}.json", result.scores_json())
        found[cell] = run.scores(split)["scores"]
        rows = [{"settings": dict(zip((key for key, _ in axes), cell, strict=True)), **found[cell]} for cell in found]
        write_whole(output / "sweep.json", json.dumps(rows, indent=2) + "\n")
    across = axes[1][1] if len(axes) == 2 else [""]
    grid = [[found[(down, *([right] if right else []))][by] for right in across] for down in axes[0][1]]
    table = Table(names[0], *across, title=f"{by} on {split} (x100)", title_justify="left")
    for down, values in zip(axes[0][1], grid, strict=True):
        table.add_row(down, *(f"{100 * value:.1f}" for value in values))
    Console().print(table)
    save_figure(heat_map(grid, axes[0][1], across, names, f"{by} on {split} (x100)"), output / "sweep.png")
    console.print(f"written into {output}: the runs, sweep.json, sweep.png")


def read_axis(word: str) -> tuple[str, list[str]]:
    """`phases.0.loss.gamma=1,2,3` -> the key and its values."""
    key, equals, text = word.partition("=")
    values = [value.strip() for value in text.split(",") if value.strip()]
    if not equals or not values:
        raise WatchwordError(f"--over {word!r}: expected key=value,value,... such as phases.0.loss.gamma=1,2,3")
    if len(set(values)) < len(values):
        raise WatchwordError(f"--over {word!r} names a value twice")
    return key, values


def heat_map(
    grid: Sequence[Sequence[float]], down: Sequence[str], across: Sequence[str], names: Sequence[str], title: str
) -> "Figure":
    """Numbers in coloured cells, the darkest the highest."""
    figure = new_figure(max(4.0, 1.5 + len(across)), 1.5 + 0.6 * len(down))
    axes = figure.add_subplot(title=title, ylabel=names[0], xlabel=names[1] if len(names) > 1 else "")
    axes.imshow(grid, cmap="Blues", aspect="auto")
    axes.set_xticks(range(len(across)), across)
    axes.set_yticks(range(len(down)), down)
    middle = (min(map(min, grid)) + max(map(max, grid))) / 2
    for row, values in enumerate(grid):
        for column, value in enumerate(values):
            colour = "white" if value > middle else "black"
            axes.text(column, row, f"{100 * value:.1f}", ha="center", va="center", color=colour)
    return figure


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
