"""`watchword features extract VIDEOS... --store DIR --streams appearance,motion`, or of a `--benchmark`."""

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.features.extraction import VideoFile

SHOWN = 20
USUAL = "appearance,motion,regions,audio"


def extract(
    videos: Annotated[
        list[str] | None, typer.Argument(metavar="VIDEOS...", help="files, folders (with all below them), patterns")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="the folder that keeps features, made if it is not there; else features/")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="msvd or msrvtt: its videos and its store, below the data folder")
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            help="appearance, appearance_grid, motion, motion_grid, motion_layers, regions, flow, audio, ...: with "
            f"commas; else {USUAL}, or those of the benchmark",
            show_default=False,
        ),
    ] = None,
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

    watchword features extract --benchmark msvd
    """
    if engine not in ("local", "ray"):
        raise WatchwordError(f"--engine must be local or ray, not {engine!r}")
    words = list(videos or []) + (_listed(from_list) if from_list else [])
    if words and benchmark:
        raise WatchwordError("name videos or a --benchmark, not both")
    if not words and not benchmark:
        raise WatchwordError("name videos to extract: files, folders, patterns, --list FILE or --benchmark NAME")

    from rich.markup import escape

    from watchword.cli._progress import bar
    from watchword.config import Data
    from watchword.data.benchmarks import NOT_IN_STILLS, find_benchmark, settings_of, store_path
    from watchword.features.executors import cores, extract_local, extract_ray
    from watchword.features.extraction import find_videos, prepare

    usual = ",".join(find_benchmark(benchmark).streams) if benchmark else USUAL
    names = list(dict.fromkeys(name.strip() for name in (streams or usual).split(",") if name.strip()))
    changes = [*(settings_of(benchmark, names) if benchmark else []), *(settings or [])]
    films, stills = _of_benchmark(benchmark) if benchmark else (find_videos(words), [])
    if not films and not stills:
        raise WatchwordError("there is no film in the list")
    target = store or (store_path(Data(benchmark=benchmark)) if benchmark else Path("features"))
    job = prepare(target, names, changes, overwrite)
    still_job = replace(job, specs={name: job.specs[name] for name in names if not name.startswith(NOT_IN_STILLS)})
    waiting = [
        (part, [film for film in some if part.missing(film.video)])
        for part, some in ((job, films), (still_job, stills))
    ]
    total = sum(len(some) for _, some in waiting)
    problems: list[str] = []
    warnings: list[str] = []
    done = num_bytes = 0
    begin = _cpu_seconds()
    with bar() as progress:
        task = progress.add_task(escape(f"{', '.join(names)} -> {target}"), total=total, visible=total > 0)
        for part, some in waiting:
            if not some:
                continue
            outcomes = (
                extract_ray(part, some, workers)
                if engine == "ray"
                else extract_local(part, some, min(workers or cores(), len(some)))
            )
            for outcome in outcomes:
                done += not outcome.problem
                num_bytes += outcome.num_bytes
                problems += [outcome.problem] if outcome.problem else []
                warnings += outcome.warnings
                progress.advance(task)
    there = len(films) + len(stills) - total
    cost = "" if engine == "ray" else f", {(_cpu_seconds() - begin) / max(done, 1):.1f} CPU s"
    each = f" ({num_bytes / done / 1e6:.2f} MB{cost} each)" if done else ""
    typer.echo(f"{done} videos extracted{each}, {there} were there before, {len(problems)} failed")
    _show("warning: ", warnings)
    _show("", problems)
    if problems:
        raise typer.Exit(1)


def _of_benchmark(name: str) -> "tuple[list[VideoFile], list[VideoFile]]":
    """The benchmark's videos that are at hand: those that move, and those of still pictures."""
    from watchword.data.benchmarks import benchmark_videos, find_benchmark
    from watchword.features.extraction import VideoFile

    benchmark = find_benchmark(name)
    clips, total = benchmark_videos(name)
    typer.echo(f"{benchmark.title}: videos of {len(clips):,} of {total:,} clips with captions", err=True)
    films: tuple[list[VideoFile], list[VideoFile]] = [], []
    for clip in clips:
        assert clip.path is not None
        films[benchmark.is_still(clip)].append(VideoFile(clip.video, clip.path))
    return films


def _cpu_seconds() -> float:
    """Of this process and of those that it has waited for: workers are joined when the last video is done."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


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
