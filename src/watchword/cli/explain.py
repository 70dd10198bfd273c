"""`watchword explain VIDEO --output PATH`: the attention of each word."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from watchword.cli._shared import Beam, Model, Timeline, Videos, print_message
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.explain.attention import Explanation

Format = Literal["html", "png", "mp4", "json"]
FORMATS: dict[str, Format] = {".html": "html", ".htm": "html", ".png": "png", ".mp4": "mp4", ".json": "json"}
MAX_SEGMENTS = 20  # in one figure


def explain(
    words: Annotated[
        list[str], typer.Argument(metavar="VIDEO", help="A video, or the id of one in the run's feature store.")
    ],
    model: Model = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="A file, .html .png .mp4 .json, or a folder.")] = Path(
        "explained"
    ),
    form: Annotated[
        Format | None, typer.Option("--format", help="By the suffix of --output, or html.", show_default=False)
    ] = None,
    videos: Videos = None,
    store: Annotated[Path | None, typer.Option(help="Another feature store than the run's own.")] = None,
    head: Annotated[str | None, typer.Option(help="The attention head to draw in png and mp4.")] = None,
    timeline: Timeline = None,
    beam: Beam = 5,
) -> None:
    """Show the attention of each word.

    Also what else the model reports: key frames, weights of layers.

    watchword explain clip.mp4 --output clip.html      a page that works offline: choose a word, play the video

    watchword explain video7020 --model runs/msrvtt_refocus --videos clips --output figures --format png
    """
    *former, video = words
    if len(former) == 1 and model is None:
        print_message(f"warning: `watchword explain {former[0]} VIDEO` is now `watchword explain VIDEO --model NAME`")
        model = former[0]
    elif former:
        raise WatchwordError(f"explain takes one video, not {len(words)}")
    if form is not None and not is_folder(output):
        check_suffix(output, form)
    form = form or format_of(output)
    from watchword.atomic_io import check_outputs
    from watchword.captioning.captioner import Captioner
    from watchword.captioning.writers import certainty
    from watchword.explain.attention import Explanation, flat_notes

    captioner = Captioner.load(model, store)
    is_file = Path(video).is_file()
    path = Path(video) if is_file else stored_video(captioner, video, videos, needed=form != "json")
    target = target_of(output, form, name_of_file(Path(video)) if is_file else video.replace(os.sep, "_"))
    check_outputs([target], [path] if path else [])
    if is_file:
        check_backbones(captioner, video)
        description = captioner.describe(video, beam=beam, timeline=timeline)
    else:
        description = captioner.describe_stored(video, path, beam=beam)
    for warning in description.warnings:
        print_message(f"warning: {warning}")
    explanation = Explanation.of(description)
    check_head(explanation, head)
    write_explanation(explanation, path, target, form, head)
    for segment in explanation.segments:
        typer.echo(f"{segment.caption}{certainty(segment.confidence)}")
        for line in flat_notes(segment):
            typer.echo(f"  {line}")
    typer.echo(str(target))
    if model is None:
        print_message(f"captions by {captioner.name}; watchword captioner shows others and keeps your choice")
    if captioner.hint:
        print_message(captioner.hint)


def is_folder(output: Path) -> bool:
    return output.is_dir() or not output.suffix


def check_suffix(output: Path, form: Format) -> None:
    """No page or JSON under the name of a video or picture."""
    from watchword.video.formats import IMAGE_SUFFIXES, VIDEO_SUFFIXES

    suffix = output.suffix.lower()
    if suffix in VIDEO_SUFFIXES | IMAGE_SUFFIXES and FORMATS.get(suffix) != form:
        raise unknown(f"suffix of --output for {form}", suffix, [one for one in FORMATS if FORMATS[one] == form])


def format_of(output: Path) -> Format:
    """By the suffix; a folder gets a page."""
    if is_folder(output):
        return "html"
    if output.suffix.lower() not in FORMATS:
        raise unknown("suffix of --output", output.suffix, FORMATS)
    return FORMATS[output.suffix.lower()]


def check_backbones(captioner: "Captioner", video: str) -> None:
    """A run on imported or drawn streams can only explain videos of its store."""
    from watchword.captioning.bundle import stream_specs

    try:
        stream_specs(captioner.bundle)
    except WatchwordError as error:
        command = f"watchword explain ID --model {captioner.name} --videos {video}"
        raise WatchwordError(f"{error}; or name a video of its store and its file: {command}") from error


def stored_video(captioner: "Captioner", video: str, videos: Path | None, *, needed: bool) -> Path | None:
    """The file of a video in the store; JSON does not need it."""
    from watchword.features.store import Store

    store, stream = Store(captioner.store), captioner.streams[0]
    try:
        if not store.has(video, stream):
            raise unknown(f"video of {store.folder}", video, store.videos(stream))
    except WatchwordError as error:
        raise WatchwordError(
            f"there is no file {video}, and the captioner's store has no such video: {error}"
        ) from error
    try:
        return captioner.video_file(video, videos)
    except WatchwordError:
        if needed:
            raise
        return None


def check_head(explanation: "Explanation", head: str | None) -> None:
    names = dict.fromkeys(name for segment in explanation.segments for name in segment.heads)
    if head is not None and head not in names:
        raise unknown("attention head of this model", head, names)


def name_of_file(video: Path) -> str:
    """With its folders below the current one: `day1/IMG_1` and `day2/IMG_1` are two videos."""
    absolute, here = Path(os.path.abspath(video)), Path.cwd()
    return (absolute.relative_to(here).with_suffix("").as_posix()) if absolute.is_relative_to(here) else video.stem


def target_of(output: Path, form: Format, name: str) -> Path:
    """The file; in a folder it has the name of the video."""
    target = output / f"{name}.{form}" if is_folder(output) else output
    target.parent.mkdir(parents=True, exist_ok=True)
    return target


def write_explanation(
    explanation: "Explanation", video: Path | None, target: Path, form: Format, head: str | None = None
) -> None:
    """Complete or not at all. Only JSON does not need the video."""
    from watchword.atomic_io import path_of, whole_file, write_whole

    if form == "json":
        write_whole(target, json.dumps(explanation.values(), ensure_ascii=False) + "\n")
        return
    if video is None:
        raise WatchwordError(f"{form} shows the video, and there is none: name it with --videos, or use --format json")
    if form == "html":
        from watchword.explain.page import make_page

        write_whole(target, make_page(explanation, video, target))
        return
    if form == "png" and len(explanation.segments) > MAX_SEGMENTS:
        raise WatchwordError(f"{len(explanation.segments)} segments are too many for one figure: use html, or --whole")
    with whole_file(target) as file:
        if form == "png":
            from watchword.explain.figure import draw_figure

            draw_figure(explanation, video, head).save(file, "PNG")
        else:
            from watchword.explain.video import write_video

            write_video(explanation, video, path_of(file), head)
