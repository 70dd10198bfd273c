"""`watchword features`: extract, import, map, categories."""

from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import print_some
from watchword.cli.extract import extract
from watchword.errors import WatchwordError

features = typer.Typer(
    name="features", help="Extract features of videos, or import them into a store.", no_args_is_help=True
)
StorePath = Annotated[Path, typer.Option(help="The feature store; created if missing.")]


@features.callback()
def _root() -> None:
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
    from watchword.data.categories import write_categories
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
