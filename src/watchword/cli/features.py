"""`watchword features`: `extract`, `categories` (files of their own), `import`, `carry`."""

from pathlib import Path
from typing import Annotated

import typer

from watchword.cli.categories import categories
from watchword.cli.extract import extract
from watchword.errors import WatchwordError

features = typer.Typer(help="Features of videos: make them, or bring them into a store.", no_args_is_help=True)
SHOWN_PROBLEMS = 20


@features.callback()
def _root() -> None:
    """Keeps every verb a sub-command, however many there are."""


features.command("extract")(extract)
features.command("categories")(categories)


@features.command("import")
def import_(
    file: Annotated[Path, typer.Argument(help=".npz, .h5, .hdf5, or a folder of .npy files")],
    store: Annotated[Path, typer.Option(help="the folder that keeps features; made if it is not there")],
    stream: Annotated[str, typer.Option(help="what to call these features: appearance, motion, audio, ...")],
    settings: Annotated[
        list[str] | None, typer.Option(help="key=value, kept with the features: backbone=vgg16; may be repeated")
    ] = None,
    dtype: Annotated[str, typer.Option(help="float16 (rounds to 0.05 %, half the disk) or float32")] = "float16",
    layout: Annotated[
        str, typer.Option(help="axes of one video's array if not FD, FND, FHWD: letters F D N H W, such as FDHW or DF")
    ] = "",
    fps: Annotated[float | None, typer.Option(help="moments a second of the features")] = None,
    duration: Annotated[float | None, typer.Option(help="seconds from the first to the last moment")] = None,
    names: Annotated[Path | None, typer.Option(help="MSVD's youtube_mapping.txt: vid1 gets its real name")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="replace what is there already")] = False,
) -> None:
    """Bring features that somebody computed into a store.

    watchword features import vgg16_fc2_20.npz --store features --stream appearance --settings backbone=vgg16
    """
    from rich.console import Console
    from rich.markup import escape
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from watchword.data.imports import Outcome, Rules, import_features, open_features
    from watchword.data.msvd import read_mapping
    from watchword.features.store import Store

    rules = Rules(_one_of(dtype, "float16", "float32"), _layout(layout), fps, duration, _notes(settings or []))
    for option, value in (("--fps", fps), ("--duration", duration)):
        if value is not None and not 0 < value < float("inf"):
            raise WatchwordError(f"{option} must be above 0, not {value}")
    if fps and duration:
        raise WatchwordError("--fps and --duration both say when the moments are: give one")

    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes: list[Outcome] = []
    renamed = read_mapping(names) if names else None
    with open_features(file) as source, Progress(*columns, console=console) as progress:
        total = len(source.videos)
        task = progress.add_task(escape(f"{file.name} -> {stream}"), total=total)
        try:
            for outcome in import_features(
                source, Store(store), stream, rules, source=file.name, names=renamed, overwrite=overwrite
            ):
                outcomes.append(outcome)
                progress.advance(task)
        except WatchwordError as error:  # the file ends early or the disk is full: what was imported stays, say so
            outcomes.append(Outcome("", str(error)))

    problems = [outcome.problem for outcome in outcomes if outcome.problem]
    skipped = sum(outcome.was_there for outcome in outcomes)
    imported = len(outcomes) - len(problems) - skipped
    typer.echo(f"{imported} videos imported, {skipped} were there before, {total - imported - skipped} not imported")
    if problems:
        for problem in problems[:SHOWN_PROBLEMS]:
            typer.echo(f"watchword: {problem}", err=True)
        if len(problems) > SHOWN_PROBLEMS:
            typer.echo(f"watchword: ... and {len(problems) - SHOWN_PROBLEMS} more", err=True)
        raise typer.Exit(1)



@features.command("carry")
def carry(
    source: Annotated[str, typer.Option("--from", help="STORE:STREAM, features of films that are gone")],
    examples: Annotated[str, typer.Option(help="STORE:STREAM, another network's features of some of these films")],
    into: Annotated[str, typer.Option(help="STORE:STREAM, where that network's features of all of them are wanted")],
) -> None:
    """Guess what one network would have seen from what another saw, by a linear map.

    watchword features carry --from msvd:vgg16 --examples clips:appearance --into features:appearance
    """
    from rich.console import Console
    from rich.progress import track

    from watchword.features.mapping import StoredStream, fit_map, map_features, pairs

    seen, other, wanted = (StoredStream.read(text) for text in (source, examples, into))
    mapping = fit_map(*pairs(seen, other))
    films = seen.store.videos(seen.stream)
    there = sum(wanted.store.has(film, wanted.stream) for film in films)
    work = map_features(seen, mapping, wanted, films)
    for _ in track(work, "carrying over", total=len(films), console=Console(stderr=True)):
        pass
    typer.echo(
        f"{len(films) - there} films carried over, {there} were there before; learned from {mapping.num_videos} films, "
        f"explains {mapping.explained:.0%} of what varies in films left out"
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
