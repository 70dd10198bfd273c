"""`watchword sweep`: a grid of runs over one or two settings (Table 3 of Dong et al. 2018 in one command)."""

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from PIL.Image import Image


def sweep(
    recipe: Annotated[Path, typer.Argument(help="The recipe of every run.")],
    words: Annotated[list[str] | None, typer.Argument(help="key=value words over it, for all runs")] = None,
    over: Annotated[list[str] | None, typer.Option(help="key=value,value,...; give it once or twice")] = None,
    output: Annotated[Path, typer.Option(help="Where the runs, sweep.json and sweep.png go.")] = Path("runs/sweep"),
    by: Annotated[str, typer.Option(help="The score that is shown.")] = "CIDEr",
    split: Annotated[str, typer.Option(help="The split that is scored: settings are not chosen on test.")] = "val",
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
) -> None:
    """Train and score a run for every value, or pair of values, of settings: a table and a heat map.

    Runs that are done are not done again, a run that was cut off goes on: give the same command once more.

    watchword sweep recipes/msvd_information.toml --over phases.0.loss.trade_off=0.3,0.5 --over phases.0.loss.gamma=1,2
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import console, training_bar
    from watchword.cli._tables import COLUMNS
    from watchword.config import read_recipe, relative_to
    from watchword.training import Run, resume, train
    from watchword.training.evaluation import Search, evaluate
    from watchword.training.loop import VALIDATION_METRICS

    if split == "test":
        raise WatchwordError("a sweep chooses settings, and settings chosen on test make its score worthless: use val")
    if by not in COLUMNS:
        raise WatchwordError(f"--by {by}: expected one of {', '.join(COLUMNS)}")
    axes = [read_axis(word) for word in over or ()]
    if len(axes) not in (1, 2):
        raise WatchwordError("give --over key=value,value,... once or twice, such as --over phases.0.loss.gamma=1,2,3")
    names = [key.rpartition(".")[2] for key, _ in axes]
    metrics = None if by == "METEOR" else VALIDATION_METRICS  # METEOR costs more than all others
    cells = list(itertools.product(*(values for _, values in axes)))
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for number, cell in enumerate(cells, 1):
        chosen = [f"{key}={value}" for (key, _), value in zip(axes, cell, strict=True)]
        planned = read_recipe(recipe, [*(words or ()), *chosen])
        run = Run(output / ",".join(f"{name}={value}" for name, value in zip(names, cell, strict=True)))
        console.print(f"run {number} of {len(cells)}: {' '.join(chosen)}")
        begun = (run.folder / "recipe.toml").exists()
        if begun and relative_to(run.recipe, run.folder) != relative_to(planned, run.folder):
            raise WatchwordError(f"{run.folder} was begun by another recipe or other words: name another --output")
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
    heat_map(grid, axes[0][1], across, names, f"{by} on {split} (x100)").save(output / "sweep.png")
    console.print(f"all of it is in {output}: the runs, sweep.json, sweep.png")


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
) -> "Image":
    """Numbers in coloured cells, the darkest the highest."""
    from PIL import Image, ImageDraw, ImageFont

    wide, high, left, top = 110, 64, 130, 114
    picture = Image.new("RGB", (max(left + wide * len(across) + 20, 420), top + high * len(down) + 20), (250, 249, 246))
    pen, font, ink = ImageDraw.Draw(picture), ImageFont.load_default(18), (40, 40, 44)
    flat = [value for row in grid for value in row]
    low, extent = min(flat), max(max(flat) - min(flat), 1e-9)
    pen.text((12, 22), title, font=font, fill=ink, anchor="lm")
    axes = f"{names[0]} down" + (f", {names[1]} across" if len(names) > 1 else "")
    pen.text((12, 52), axes, font=font, fill=(120, 120, 126), anchor="lm")
    for column, name in enumerate(across):
        pen.text((left + wide * (column + 0.5), top - 20), name, font=font, fill=ink, anchor="mm")
    for row, name in enumerate(down):
        pen.text((left - 16, top + high * (row + 0.5)), name, font=font, fill=ink, anchor="rm")
        for column, value in enumerate(grid[row]):
            strength = (value - low) / extent
            colour = tuple(round(pale + (dark - pale) * strength) for pale, dark in ((225, 30), (235, 95), (243, 150)))
            x, y = left + wide * column, top + high * row
            pen.rectangle((x, y, x + wide - 3, y + high - 3), fill=colour)
            text = (255, 255, 255) if strength > 0.5 else ink
            pen.text((x + wide / 2, y + high / 2), f"{100 * value:.1f}", font=font, fill=text, anchor="mm")
    return picture
