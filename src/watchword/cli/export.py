"""`watchword export`."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN... FOLDER", help="A run, or several for an ensemble; the new folder.")
    ],
    beside: Annotated[
        list[str] | None, typer.Option(help="A shipped captioner as a further member; by name, not copied.")
    ] = None,
    max_time_steps: Annotated[
        int | None, typer.Option(min=1, help="Time steps to read, evenly chosen: fewer are faster.", show_default=False)
    ] = None,
) -> None:
    """Export a run as a small bundle.

    Weights are in half precision, and nothing is kept that only training needs.

    watchword export runs/mine captioners/mine
    """
    from watchword.captioning.bundle import find_bundle
    from watchword.captioning.export import export as export_runs
    from watchword.cli._progress import console
    from watchword.errors import WatchwordError

    if len(runs) < 2:
        raise WatchwordError("name a run and a new folder: watchword export runs/mine captioners/mine")
    *given, target = runs
    exported = export_runs([find_bundle(run) for run in given], target, beside or (), max_time_steps)
    size = sum(path.stat().st_size for path in exported.folder.iterdir())
    console.print(f"{target}: {size / 1e6:.1f} MB; try it: watchword describe clip.mp4 --model {target}")
