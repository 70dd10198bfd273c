"""`watchword features extract VIDEO... --store DIR --streams appearance,motion`, or of a `--benchmark`."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import print_some, read_list
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.features.extraction import VideoFile

DEFAULT_STREAMS = "appearance,motion,regions,audio"


def extract(
    videos: Annotated[list[str] | None, typer.Argument(metavar="VIDEO...", help="Files, folders, patterns.")] = None,
    store: Annotated[
        Path | None, typer.Option(help="The feature store, created if missing; default: features.")
    ] = None,
    benchmark: Annotated[
        str | None, typer.Option(help="msvd or msrvtt: its videos and its store, in the data folder.")
    ] = None,
    streams: Annotated[
        str | None,
        typer.Option(
            help="appearance, appearance_grid, motion, motion_grid, motion_layers, regions, flow, audio, ...: with "
            f"commas; default: {DEFAULT_STREAMS}, or those of the benchmark.",
            show_default=False,
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option(help="stream.key=value, such as motion.time_steps=28; repeatable.")
    ] = None,
    from_list: Annotated[Path | None, typer.Option("--list", help="A file with one video a line; - is stdin.")] = None,
    engine: Annotated[str, typer.Option(help="local, or ray for a cluster.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one for each core.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Extract again what is there already.")] = False,
) -> None:
    """Extract features of videos; each is decoded once for all streams. What is there already is skipped.

    watchword features extract videos/ --store features --streams appearance,motion

    watchword features extract --benchmark msvd
    """
    if engine not in ("local", "ray"):
        raise WatchwordError(f"--engine must be local or ray, not {engine!r}")
    words = list(videos or []) + (read_list(from_list) if from_list else [])
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

    default = ",".join(find_benchmark(benchmark).streams) if benchmark else DEFAULT_STREAMS
    names = list(dict.fromkeys(name.strip() for name in (streams or default).split(",") if name.strip()))
    changes = [*(settings_of(benchmark, names) if benchmark else []), *(settings or [])]
    found, stills = _of_benchmark(benchmark) if benchmark else (find_videos(words), [])
    if not found and not stills:
        raise WatchwordError("the list has no video")
    target = store or (store_path(Data(benchmark=benchmark)) if benchmark else Path("features"))
    job = prepare(target, names, changes, overwrite)
    still_job = replace(job, specs={name: job.specs[name] for name in names if not name.startswith(NOT_IN_STILLS)})
    waiting = [
        (part, [video for video in some if part.missing(video.video)])
        for part, some in ((job, found), (still_job, stills))
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
    there = len(found) + len(stills) - total
    cost = "" if engine == "ray" else f", {(_cpu_seconds() - begin) / max(done, 1):.1f} CPU s"
    each = f" ({num_bytes / done / 1e6:.2f} MB{cost} each)" if done else ""
    typer.echo(f"{done} videos extracted{each}, {there} were there before, {len(problems)} failed")
    print_some("warning: ", warnings)
    print_some("", problems)
    if problems:
        raise typer.Exit(1)


def _of_benchmark(name: str) -> "tuple[list[VideoFile], list[VideoFile]]":
    """The available videos of a benchmark: moving ones, and those of still pictures."""
    from watchword.data.benchmarks import benchmark_videos, find_benchmark
    from watchword.features.extraction import VideoFile

    benchmark = find_benchmark(name)
    clips, total = benchmark_videos(name)
    typer.echo(f"{benchmark.title}: videos of {len(clips):,} of {total:,} clips with captions", err=True)
    videos: tuple[list[VideoFile], list[VideoFile]] = [], []
    for clip in clips:
        assert clip.path is not None
        videos[benchmark.is_still(clip)].append(VideoFile(clip.video, clip.path))
    return videos


def _cpu_seconds() -> float:
    """Of this process and its finished workers: they are joined when the last video is done."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
