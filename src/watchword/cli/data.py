"""`watchword data check`: what of a benchmark is there, and what is missing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.data.benchmarks import Inventory

data = typer.Typer(name="data", help="Check the folder of a benchmark.", no_args_is_help=True)


@data.callback()
def _root() -> None:
    """Every command is a sub-command."""


@data.command()
def check(
    benchmark: Annotated[str, typer.Argument(help="msvd or msrvtt")],
    folder: Annotated[
        Path | None, typer.Argument(help="Its folder; default: the one in the data folder (WATCHWORD_DATA).")
    ] = None,
) -> None:
    """Count the captions, videos and features of a benchmark, and say what is missing.

    watchword data check msvd datasets/msvd

    Where the data is to be had: docs/reference/formats.md#benchmarks
    """
    from watchword.data.benchmarks import data_folder, find_benchmark, take_inventory

    title = find_benchmark(benchmark).title
    folder = folder or data_folder() / benchmark
    if not folder.is_dir():
        raise WatchwordError(f"there is no folder {folder}: make it, with the captions of {title} and videos in clips/")
    found = take_inventory(benchmark, folder)
    show(title, found)
    for line in (lacks := missing(benchmark, found)):
        typer.echo(f"missing: {line}")
    if lacks:
        raise typer.Exit(1)


def show(title: str, found: "Inventory") -> None:
    from rich.console import Console
    from rich.table import Table

    typer.echo(f"{title}: {found.num_captions:,} captions in {found.captions}; features in {found.store}")
    table = Table("", *found.sizes)
    rows = {"official": found.sizes, "captions": found.captioned, "videos": found.with_video, **found.with_stream}
    for name, counts in rows.items():
        table.add_row(name, *(f"{counts.get(split, 0):,}" for split in found.sizes))
    Console(highlight=False).print(table)


def missing(benchmark: str, found: "Inventory") -> list[str]:
    """What is not there, and what to do about it."""
    lines = [
        f"captions of {size - found.captioned.get(split, 0):,} {split} videos"
        for split, size in found.sizes.items()
        if found.captioned.get(split, 0) < size
    ]
    if found.without_video:
        lines.append(f"{len(found.without_video):,} videos, such as clips/{found.without_video[0]}.mp4")
    if not found.with_stream:
        lines.append(f"features: watchword features extract --benchmark {benchmark}")
    return lines
