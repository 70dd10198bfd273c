"""`watchword features extract VIDEOS... --store DIR --streams appearance,motion`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from watchword.errors import WatchwordError

SHOWN = 20


def extract(
    videos: Annotated[
        list[str] | None, typer.Argument(metavar="VIDEOS...", help="files, folders (with all below them), patterns")
    ] = None,
    store: Annotated[Path, typer.Option(help="the folder that keeps features; made if it is not there")] = Path(
        "features"
    ),
    streams: Annotated[
        str,
        typer.Option(
            help="appearance, appearance_grid, motion, motion_grid, motion_layers, regions, flow, audio: with commas"
        ),
    ] = "appearance,motion,regions,audio",
    settings: Annotated[
        list[str] | None, typer.Option(help="stream.key=value, such as motion.moments=28; may be repeated")
    ] = None,
    from_list: Annotated[
        Path | None, typer.Option("--list", help="a file with one film a line; - reads them from the input")
    ] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="processes; one for each core unless told")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="make again what is there already")] = False,
) -> None:
    """Make features of films: one decoding for all streams. What is there already is skipped, so it can be resumed.

    watchword features extract films/ --store features --streams appearance,motion
    """
    if engine not in ("local", "ray"):
        raise WatchwordError(f"--engine must be local or ray, not {engine!r}")
    words = list(videos or []) + (_listed(from_list) if from_list else [])
    if not words:
        raise WatchwordError("name films to extract: files, folders, patterns, or --list FILE")

    from rich.markup import escape

    from watchword.cli._progress import bar
    from watchword.features.engines import cores, extract_local, extract_ray
    from watchword.features.extraction import prepare
    from watchword.features.films import find_films

    names = list(dict.fromkeys(name.strip() for name in streams.split(",") if name.strip()))
    job = prepare(store, names, settings or [], overwrite)
    films = find_films(words)
    if not films:
        raise WatchwordError("there is no film in the list")
    waiting = [film for film in films if job.missing(film.video)]
    problems: list[str] = []
    warnings: list[str] = []
    done = num_bytes = 0
    if waiting:
        outcomes = (
            extract_ray(job, waiting, workers)
            if engine == "ray"
            else extract_local(job, waiting, min(workers or cores(), len(waiting)))
        )
        with bar() as progress:
            task = progress.add_task(escape(f"{', '.join(names)} -> {store}"), total=len(waiting))
            for outcome in outcomes:
                done += not outcome.problem
                num_bytes += outcome.num_bytes
                problems += [outcome.problem] if outcome.problem else []
                warnings += outcome.warnings
                progress.advance(task)
    there = len(films) - len(waiting)
    each = f" ({num_bytes / done / 1e6:.2f} MB each)" if done else ""
    typer.echo(f"{done} films extracted{each}, {there} were there before, {len(problems)} failed")
    _show("warning: ", warnings)
    _show("", problems)
    if problems:
        raise typer.Exit(1)


def _show(kind: str, lines: list[str]) -> None:
    for line in lines[:SHOWN]:
        typer.echo(f"watchword: {kind}{line}", err=True)
    if len(lines) > SHOWN:
        typer.echo(f"watchword: {kind}... and {len(lines) - SHOWN} more", err=True)


def _listed(path: Path) -> list[str]:
    """One film a line; relative names are relative to where the command runs."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WatchwordError(f"cannot read the list {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
