"""`watchword explain CAPTIONER FILM --output PATH`: when and where each word looked."""

import json
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from watchword.cli._options import Beam, Films, Timeline
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    from watchword.captioning.captioner import Describer
    from watchword.explain.attention import Evidence

Format = Literal["html", "png", "mp4", "json"]
MOST_SHOTS = 20  # that are drawn below each other


def explain(
    captioner: Annotated[str, typer.Argument(help="A run of yours, or a captioner by name: light.")],
    video: Annotated[str, typer.Argument(metavar="FILM", help="A film, or the name of a video in the run's store.")],
    output: Annotated[Path, typer.Option(help="A file, .html .png .mp4 .json, or a folder.")] = Path("explained"),
    form: Annotated[
        Format | None, typer.Option("--format", help="By the ending of --output, or html.", show_default=False)
    ] = None,
    films: Films = None,
    store: Annotated[Path | None, typer.Option(help="Features from elsewhere than where the run was trained.")] = None,
    stream: Annotated[str | None, typer.Option(help="The attention that is drawn in png and mp4.")] = None,
    timeline: Timeline = None,
    beam: Beam = 5,
) -> None:
    """Show what each word of a description looked at: moments, places, key frames, layers, whatever the model tells.

    watchword explain light clip.mp4 --output clip.html      a page that works offline: choose a word, play the film

    watchword explain runs/msrvtt_refocus video7020 --films clips --output figures --format png
    """
    form = form or form_of(output)
    from watchword.captioning.attention import evidence_of
    from watchword.captioning.captioner import Describer

    describer = Describer.open(captioner, store)
    if Path(video).is_file():
        film: Path | None = Path(video)
        check_eyes(describer, video)
        description = describer.describe(video, beam=beam, timeline=timeline)
    else:
        film = film_of(describer, video, films, needed=form != "json")
        description = describer.describe_stored(video, film, beam=beam)
    for warning in description.warnings:
        typer.echo(f"watchword: warning: {warning}", err=True)
    evidence = evidence_of(description)
    check_stream(evidence, stream)
    target = target_of(output, form, Path(video).stem if film == Path(video) else video.replace(os.sep, "_"))
    write_evidence(evidence, film, target, form, stream)
    for shot in evidence.shots:
        typer.echo(f"{shot.sentence} ({shot.confidence:.2f})")
    typer.echo(str(target))


def form_of(output: Path) -> Format:
    """By the ending; a folder gets a page."""
    endings: dict[str, Format] = {".html": "html", ".htm": "html", ".png": "png", ".mp4": "mp4", ".json": "json"}
    if output.is_dir() or not output.suffix:
        return "html"
    if output.suffix.lower() not in endings:
        raise unknown("ending of --output", output.suffix, endings)
    return endings[output.suffix.lower()]


def check_eyes(describer: "Describer", film: str) -> None:
    """A run that cannot watch films can still be shown one whose features it has."""
    from watchword.captioning.requirements import looks_of

    try:
        looks_of(describer.folder)
    except WatchwordError as error:
        hint = f"or name a video of its store, and its film: watchword explain {describer.name} VIDEO --films {film}"
        raise WatchwordError(f"{error}; {hint}") from error


def film_of(describer: "Describer", video: str, films: Path | None, *, needed: bool) -> Path | None:
    """The film of a video in the store; data alone can do without."""
    from watchword.data.annotations import video_path
    from watchword.data.benchmarks import captions_path, store_path
    from watchword.features.store import Store

    data = describer.folder.recipe.data
    store, stream = Store(describer.store or store_path(data)), data.streams[0]
    try:
        if not store.has(video, stream):
            raise unknown(f"video of {store.folder}", video, store.videos(stream))
    except WatchwordError as error:
        raise WatchwordError(f"there is no film {video}, nor is it in the captioner's store: {error}") from error
    try:
        return video_path(video, captions_path(data), films)
    except WatchwordError:
        if needed:
            raise
        return None


def check_stream(evidence: "Evidence", stream: str | None) -> None:
    names = dict.fromkeys(name for shot in evidence.shots for name in shot.heads)
    if stream is not None and stream not in names:
        raise unknown("attention of this model", stream, names)


def target_of(output: Path, form: Format, name: str) -> Path:
    """The file; a folder gets one that is called as the film or the video is."""
    if not output.suffix or output.is_dir():
        output.mkdir(parents=True, exist_ok=True)
        return output / f"{name}.{form}"
    output.parent.mkdir(parents=True, exist_ok=True)
    return output


def write_evidence(
    evidence: "Evidence", film: Path | None, target: Path, form: Format, stream: str | None = None
) -> None:
    """Whole or not at all. Only JSON can do without the film."""
    from watchword.atomic_io import write_whole

    if form == "json":
        write_whole(target, json.dumps(evidence.values(), ensure_ascii=False) + "\n")
        return
    if film is None:
        raise WatchwordError(f"{form} shows the film, and there is none: name it with --films, or take --format json")
    if form == "html":
        from watchword.explain.page import make_page

        write_whole(target, make_page(evidence, film, target))
        return
    if form == "png" and len(evidence.shots) > MOST_SHOTS:
        raise WatchwordError(f"{len(evidence.shots)} shots are too many for one picture: take html, or --whole")
    temporary = target.with_name(f".{secrets.token_hex(8)}.{form}")
    try:
        if form == "png":
            from watchword.explain.figure import draw_sheet

            draw_sheet(evidence, film, stream).save(temporary)
        else:
            from watchword.explain.video import write_film

            write_film(evidence, film, temporary, stream)
        os.replace(temporary, target)
    except OSError as error:
        raise WatchwordError(f"cannot write {target}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
