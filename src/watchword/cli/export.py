"""`watchword pack`."""

from pathlib import Path
from typing import Annotated

import typer


def pack(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN... FOLDER", help="A run, or several to average; the new folder.")
    ],
    beside: Annotated[
        list[str] | None, typer.Option(help="A captioner that came with Watchword, averaged too; named, not copied.")
    ] = None,
    moments: Annotated[
        int | None, typer.Option(min=1, help="Frames to look at, evenly chosen: fewer are quicker.", show_default=False)
    ] = None,
) -> None:
    """Make a small folder of a run, to keep or give away: weights in half precision, nothing that only training needs.

    watchword pack runs/mine captioners/mine
    """
    from watchword.captioning.bundle import find_captioner
    from watchword.captioning.calibrate import pack as pack_runs
    from watchword.cli._progress import console
    from watchword.errors import WatchwordError

    if len(runs) < 2:
        raise WatchwordError("say a run and a new folder: watchword pack runs/mine captioners/mine")
    *given, target = runs
    packed = pack_runs([find_captioner(run) for run in given], target, beside or (), moments)
    size = sum(path.stat().st_size for path in packed.folder.iterdir())
    console.print(f"{target}: {size / 1e6:.1f} MB; try it: watchword describe clip.mp4 --model {target}")
