"""`watchword features`: extract, import, map, categories; `watchword data check`: what of a benchmark is there."""

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Device, Shard, print_some, print_warning, read_list, shard_of
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.data.benchmarks import Inventory
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
    device: Device = "cpu",
    shard: Shard = None,
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
    from watchword.features.extraction import extract_local, extract_ray, find_videos, prepare
    from watchword.workers import cores

    default = ",".join(find_benchmark(benchmark).streams) if benchmark else DEFAULT_STREAMS
    names = list(dict.fromkeys(name.strip() for name in (streams or default).split(",") if name.strip()))
    changes = [*(settings_of(benchmark, names) if benchmark else []), *(settings or [])]
    found, stills = _of_benchmark(benchmark) if benchmark else (find_videos(words, print_warning), [])
    if not found and not stills:
        raise WatchwordError("the list has no video")
    found, stills = shard_of(found, shard), shard_of(stills, shard)
    target = store or (store_path(Data(benchmark=benchmark)) if benchmark else Path("features"))
    job = prepare(target, names, changes, overwrite, device)
    still_job = replace(job, specs={name: job.specs[name] for name in names if not name.startswith(NOT_IN_STILLS)})
    parts = ((job, found), (still_job, stills))
    conflicts = {video.video: line for part, some in parts for video in some if (line := part.conflict(video))}
    waiting = [
        (part, [video for video in some if video.video not in conflicts and part.missing(video.video)])
        for part, some in parts
    ]
    total = sum(len(some) for _, some in waiting)
    problems = list(conflicts.values())
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
                if outcome.is_disk_full:
                    raise WatchwordError(outcome.problem)
                done += not outcome.problem
                num_bytes += outcome.num_bytes
                problems += [outcome.problem] if outcome.problem else []
                warnings += outcome.warnings
                progress.advance(task)
    there = len(found) + len(stills) - total - len(conflicts)
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


features = typer.Typer(
    name="features", help="Extract features of videos, or import them into a store.", no_args_is_help=True
)
StorePath = Annotated[Path, typer.Option(help="The feature store; created if missing.")]


@features.callback()
def _features() -> None:
    """Every command is a sub-command."""


features.command()(extract)


@features.command()
def categories(
    captions: Annotated[Path, typer.Argument(help="Captions with categories: MSR-VTT's, or your own.")],
    store: StorePath,
) -> None:
    """Write the stream `category` from the annotations (MSR-VTT: 20 categories).

    watchword features categories videodatainfo.json --store features
    """
    from watchword.data.annotations import read_annotations
    from watchword.data.imports import write_categories
    from watchword.features.store import Store

    clips = read_annotations(captions)
    count = write_categories(clips, Store(store))
    typer.echo(f"category of {len(clips):,} clips, {count} categories: data.streams may name it beside others")


@features.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help=".npz, .h5, .hdf5, or a folder of .npy files")],
    store: StorePath,
    stream: Annotated[str, typer.Option(help="The name of the stream: appearance, motion, audio, ...")],
    settings: Annotated[
        list[str] | None, typer.Option(help="key=value, stored with the features: backbone=vgg16; repeatable.")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float16 (rounds to 0.05 %, half the disk) or float32.")] = "float16",
    layout: Annotated[
        str, typer.Option(help="Axes of one video's array if not FD, FND, FHWD: letters F D N H W, such as FDHW or DF.")
    ] = "",
    fps: Annotated[float | None, typer.Option(help="Time steps a second.")] = None,
    duration: Annotated[float | None, typer.Option(help="Seconds from the first to the last time step.")] = None,
    names: Annotated[Path | None, typer.Option(help="MSVD's youtube_mapping.txt: vid1 gets its real name.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is there already.")] = False,
) -> None:
    """Import features that were computed elsewhere.

    watchword features import vgg16_fc2_20.npz --store features --stream appearance --settings backbone=vgg16
    """
    from rich.markup import escape

    from watchword.cli._progress import bar
    from watchword.data.imports import Outcome, Rules, import_features, open_features
    from watchword.data.msvd import read_mapping
    from watchword.features.store import Store

    rules = Rules(_one_of(dtype, "float16", "float32"), _layout(layout), fps, duration, _notes(settings or []))
    for option, value in (("--fps", fps), ("--duration", duration)):
        if value is not None and not 0 < value < float("inf"):
            raise WatchwordError(f"{option} must be above 0, not {value}")
    if fps and duration:
        raise WatchwordError("--fps and --duration both set the times of the time steps: give one")

    outcomes: list[Outcome] = []
    renamed = read_mapping(names) if names else None
    with open_features(file) as source, bar() as progress:
        total = len(source.videos)
        task = progress.add_task(escape(f"{file.name} -> {stream}"), total=total)
        try:
            for outcome in import_features(
                source, Store(store), stream, rules, source=file.name, names=renamed, overwrite=overwrite
            ):
                outcomes.append(outcome)
                progress.advance(task)
        except WatchwordError as error:  # the file ends early or the disk is full: what was imported stays
            outcomes.append(Outcome("", str(error)))

    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    skipped = sum(outcome.was_there for outcome in outcomes)
    imported = len(outcomes) - len(problems) - skipped
    typer.echo(f"{imported} videos imported, {skipped} were there before, {total - imported - skipped} not imported")
    if problems:
        print_some("", problems)
        raise typer.Exit(1)


@features.command("map")
def map_features(
    source: Annotated[str, typer.Option("--from", help="STORE:STREAM, features whose videos are not available.")],
    examples: Annotated[str, typer.Option(help="STORE:STREAM, another backbone's features of some of these videos.")],
    into: Annotated[str, typer.Option(help="STORE:STREAM, for that backbone's features of all of them.")],
) -> None:
    """Predict the features of one backbone from those of another, by a linear map.

    watchword features map --from msvd:vgg16 --examples clips:appearance --into features:appearance
    """
    from rich.console import Console
    from rich.progress import track

    from watchword.features.mapping import StoredStream, fit_map, pairs
    from watchword.features.mapping import map_features as map_all

    known, other, wanted = (StoredStream.read(text) for text in (source, examples, into))
    mapping = fit_map(*pairs(known, other))
    videos = known.store.videos(known.stream)
    there = sum(wanted.store.has(video, wanted.stream) for video in videos)
    work = map_all(known, mapping, wanted, videos)
    for _ in track(work, "mapping", total=len(videos), console=Console(stderr=True)):
        pass
    typer.echo(
        f"{len(videos) - there} videos mapped, {there} were there before; fitted on {mapping.num_videos} videos, "
        f"explains {mapping.explained:.0%} of the variance of held-out videos"
    )


def _one_of(word: str, *choices: str) -> str:
    if word not in choices:
        raise WatchwordError(f"--dtype must be {' or '.join(choices)}, not {word!r}")
    return word


def _layout(letters: str) -> str:
    letters = letters.upper()
    wrong = set(letters) - set("FDNHW") or len(set(letters)) != len(letters) or "D" not in letters
    grid = {"H", "W"} & set(letters)
    if letters and (wrong or grid == {"H"} or grid == {"W"} or (grid and "N" in letters)):
        raise WatchwordError(f"--layout {letters!r}: expected letters of F D N, or F D H W, each once, such as FDHW")
    return letters


def _notes(words: list[str]) -> dict[str, str]:
    for word in words:
        if "=" not in word:
            raise WatchwordError(f"--settings {word!r}: expected key=value, such as backbone=vgg16")
    return {key: value for key, _, value in (word.partition("=") for word in words)}


data = typer.Typer(name="data", help="Check the folder of a benchmark.", no_args_is_help=True)


@data.callback()
def _data() -> None:
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
    from watchword.video.formats import VIDEO_SUFFIXES, files_below

    title = find_benchmark(benchmark).title
    folder = folder or data_folder() / benchmark
    if not folder.is_dir():
        raise WatchwordError(f"there is no folder {folder}: make it, with the captions of {title} and videos in clips/")
    try:
        found = take_inventory(benchmark, folder)
    except WatchwordError as error:
        count = len(files_below(folder, VIDEO_SUFFIXES))
        typer.echo(f"{title}: {count:,} video{'s' * (count != 1)} below {folder}")
        typer.echo(f"missing: captions ({error}); to be had from {find_benchmark(benchmark).source}")
        raise typer.Exit(1) from None
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
