"""`watchword library` and `watchword search`: videos are captioned once, stored, and found by their captions."""

from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from watchword.cli._shared import (
    STOPPED,
    Beam,
    Json,
    Language,
    LazyCaptioner,
    MinConfidence,
    Model,
    Offline,
    ScreenText,
    Sounds,
    Speech,
    SpeechModel,
    Timeline,
    lane_options,
    print_message,
    print_some,
    print_warning,
    read_list,
)
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.text import Text

    from watchword.captioning.journal import Journal, VideoProgress
    from watchword.captioning.many import Task
    from watchword.captioning.pipeline import DescribeOptions
    from watchword.cli._progress import VideoBar
    from watchword.library import Hit, Library
    from watchword.library.database import VideoLocks

Engine = Literal["local", "ray"]
library = typer.Typer(
    name="library", help="Store descriptions of videos for search: add, list, remove.", no_args_is_help=True
)
LibraryPath = Annotated[
    Path | None,
    typer.Option(
        "--library", help="Its file; default: WATCHWORD_LIBRARY, or one in your data folder.", show_default=False
    ),
]


@library.command()
def add(
    videos: Annotated[
        list[str], typer.Argument(metavar="VIDEO...", help="Videos, folders, patterns; - reads a list from stdin.")
    ],
    model: Model = None,
    offline: Offline = False,
    top: Annotated[int, typer.Option(min=1, max=50, help="Captions to store for each video or segment.")] = 3,
    min_confidence: MinConfidence = 0.0,
    timeline: Timeline = None,
    beam: Beam = 5,
    again: Annotated[bool, typer.Option("--again", help="Caption known videos again.")] = False,
    workers: Annotated[int, typer.Option(min=1, help="Processes that share the videos.")] = 1,
    engine: Annotated[
        Engine, typer.Option(help="Where the workers are: on this machine, or on a Ray cluster.")
    ] = "local",
    path: LibraryPath = None,
    speech: Speech = False,
    text: ScreenText = False,
    sounds: Sounds = False,
    speech_model: SpeechModel = "",
    language: Language = "",
) -> None:
    """Caption videos and store the result. Known videos are skipped; a stopped job continues where it was.

    watchword library add holiday/

    watchword library add holiday/ --speech --text       known videos get the new lanes, and keep their captions

    watchword library add /shared/archive --engine ray   a Ray cluster describes, this process writes

    watchword search "dog on the beach"
    """
    words = [word for word in videos if word != "-"]
    words += read_list(Path("-")) if "-" in videos else []

    from watchword.captioning.pipeline import DescribeOptions
    from watchword.video.formats import IMAGE_SUFFIXES, VIDEO_SUFFIXES, find_relative

    found = find_relative(words, VIDEO_SUFFIXES | IMAGE_SUFFIXES, report=print_warning)
    lanes = lane_options(speech, text, sounds, speech_model, language)
    options = DescribeOptions(top, beam, timeline, min_confidence, lanes)
    adding = Adding(open_library(path), LazyCaptioner(model), options, again)
    if engine == "ray" or workers > 1:
        count = None if engine == "ray" and workers == 1 else workers
        adding = ParallelAdding(adding.library, adding.captioner, options, again, count, engine)
    try:
        adding.run(found)
    except KeyboardInterrupt:
        print_message(f"stopped: {adding.summary()}; the same command continues")
        raise typer.Exit(STOPPED) from None
    print_message(f"{adding.library.path}: {adding.summary()}")
    if adding.num_added:
        embed_if_possible(adding.library)
    if adding.captioner.captioner is not None and model is None:
        print_message(f"captions by {adding.captioner.captioner.name}")
    if adding.captioner.hint:
        print_message(adding.captioner.hint)
    if adding.num_failed:
        raise typer.Exit(1)


@library.command("list")
def list_videos(
    limit: Annotated[int, typer.Option(min=1, help="Videos to show, the newest first.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Videos to skip.")] = 0,
    as_json: Json = False,
    path: LibraryPath = None,
) -> None:
    """Show the videos of the library, each with its number."""
    opened = open_library(path, create=False)
    rows, total = opened.videos(limit=limit, offset=offset), opened.count()
    if as_json:
        import json

        from watchword.video import shown

        values = [asdict(row) | {"source": shown(row.source) if row.source else None} for row in rows]
        typer.echo(json.dumps({"total": total, "videos": values}, indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from watchword.captioning.writers import certainty, clock

    table = Table(box=None, header_style="bold")
    for column in ("number", "length", "segments"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("video", overflow="fold")
    table.add_column("caption", overflow="fold")
    for row in rows:
        caption = f"{row.caption}{certainty(row.confidence, row.num_edited > 0)}" if row.num_segments else "-"
        table.add_row(str(row.id), clock(row.seconds), str(row.num_segments), Text(row.name), Text(one_line(caption)))
    Console(highlight=False).print(table)
    if total > len(rows):
        print_message(f"{len(rows)} of {total} videos; more with --limit and --offset")


@library.command()
def remove(
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER...", help="From `watchword library list`.")],
    path: LibraryPath = None,
) -> None:
    """Remove videos from the library. Your files stay; uploads of the web page are deleted."""
    opened = open_library(path, create=False)
    for number in numbers:
        row = opened.video(number)
        if row is None:
            raise WatchwordError(f"no video {number} in {opened.path}: watchword library list shows the numbers")
        if row.source and row.source.parent == opened.uploads:
            row.source.unlink(missing_ok=True)
        opened.remove(number)


def open_library(path: Path | None, create: bool = True) -> "Library":
    """The named library, or the user's own. Commands that only read do not create one."""
    from watchword.library import Library, default_path

    path = path or default_path()
    try:
        is_there = path.exists()
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error
    if not create and not is_there:
        raise WatchwordError(f"no library {path}: watchword library add FOLDER creates one")
    return Library(path)


def one_line(text: str) -> str:
    """Without control characters, which could move the cursor or colour the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def embed_if_possible(library: "Library") -> None:
    """So that the first semantic search need not."""
    from watchword.library.query import has_minilm

    if has_minilm():
        embed(library)


class Adding:
    """Videos are added one by one, each as soon as it is done."""

    def __init__(self, library: "Library", captioner: LazyCaptioner, options: "DescribeOptions", again: bool) -> None:
        self.library, self.captioner, self.options, self.again = library, captioner, options, again
        self.num_added = self.num_known = self.num_locked = self.num_failed = 0
        self.names: dict[Path, str] = {}

    def run(self, found: "Mapping[Path, Path]") -> None:
        """Videos by their relative paths, which are their names."""
        from watchword.cli._progress import video_bar

        self.names = {path: name.as_posix() for name, path in found.items()}
        with video_bar(len(found)) as bar:
            for number, path in enumerate(found.values()):
                error = self.add(path, bar, number)  # an error of the library itself ends the job
                if error:
                    self.num_failed += 1
                    with bar.paused():
                        print_message(error)

    def add(self, path: Path, bar: "VideoBar", number: int) -> str:
        """The error of the video, if any: it does not stop the others."""
        from watchword.library.database import identity_of, lock_video

        known = self.library.find_file(path)
        if not self.again and known is not None and self.has_lanes(known):
            self.num_known += 1
            return ""
        try:
            identity = identity_of(path)
        except WatchwordError as error:
            return str(error)
        with lock_video(self.library.path, identity) as is_free:
            if not is_free:
                self.num_locked += 1
            elif not self.again and self.is_known(identity, path):
                self.num_known += 1
            else:
                return self.describe(path, identity, bar, number)
        return ""

    def is_known(self, identity: str, path: Path) -> bool:
        """By its content; if it was moved, the library gets the new path."""
        number = self.library.find(identity)
        row = self.library.video(number) if number is not None else None
        if row is None:
            return False
        if row.source is None or not row.source.exists() or row.source == path.absolute():
            self.library.move(row.id, path, self.names[path])
        return self.has_lanes(row.id)

    def has_lanes(self, video: int) -> bool:
        """Whether the library has all wanted lanes of a video."""
        return set(self.options.lanes.wanted) <= set(self.library.description(video).lanes)

    def describe(self, path: Path, identity: str, bar: "VideoBar", number: int) -> str:
        from watchword.captioning.journal import DescribeJob
        from watchword.video import shown

        journal = self.journal(identity)
        known = None if self.again else self.library.find(identity)
        if known is not None:  # its captions stay, and the lanes that it has
            journal.begin_with(path, self.library.description(known))
        for video in DescribeJob([path], self.options, self.captioner.load, journal).run():
            bar.update(shown(Path(path.name)), video.reached, video.seconds, number + video.is_done)
        if not video.error:
            with bar.paused():
                self.keep(video, identity, known)
        journal.close()  # last: a process that is killed before finds it again
        return video.error

    def keep(self, video: "VideoProgress", identity: str, known: int | None) -> None:
        from watchword.captioning.pipeline import with_lanes
        from watchword.captioning.writers import as_guess
        from watchword.explain.attention import Explanation
        from watchword.video import shown

        path = video.video
        if known is None:
            description = video.description(self.captioner.load().name, self.options)
            explanation: dict[str, Any] | None = Explanation.of(description).values()
        else:
            description = with_lanes(self.library.description(known), video.lanes)
            explanation = self.library.explanation(known)
        self.library.add(description, name=self.names[path], identity=identity, source=path, explanation=explanation)
        self.num_added += 1
        for warning in description.warnings:
            print_message(f"warning: {warning}")
        caption = as_guess(description.best) if description.best else "no caption is confident enough"
        count = "" if description.is_whole else f"{len(description.segments)} segments, "
        count += "".join(f"{len(cues)} of {lane}, " for lane, cues in description.lanes.items())
        typer.echo(f"{shown(path)}: {count}{one_line(caption)}")

    def journal(self, identity: str) -> "Journal":
        """The journal of a stopped job; one with other settings is started again."""
        from watchword.captioning.journal import Journal
        from watchword.library.database import journal_of

        path = journal_of(self.library.path, identity)
        options = {key: value for key, value in asdict(self.options).items() if key != "min_confidence"}
        job = {"captioner": self.captioner.choice, **options}
        try:
            return Journal(path, job, resume=True)
        except WatchwordError:
            return Journal(path, job, resume=False)

    def summary(self) -> str:
        known = f", {self.num_known} known already" if self.num_known else ""
        locked = f", {self.num_locked} in progress in another process" if self.num_locked else ""
        failed = f", {self.num_failed} could not be described" if self.num_failed else ""
        return f"{self.num_added} video{'s' * (self.num_added != 1)} added{known}{locked}{failed}"


class ParallelAdding(Adding):
    """Several workers describe; this process alone writes the library, and lists the failed videos at the end."""

    def __init__(
        self,
        library: "Library",
        captioner: LazyCaptioner,
        options: "DescribeOptions",
        again: bool,
        workers: int | None,
        engine: Engine,
    ) -> None:
        super().__init__(library, captioner, options, again)
        self.workers, self.engine = workers, engine
        self.errors: list[str] = []
        self.copies: list[Path] = []  # of videos that a worker has

    def run(self, found: "Mapping[Path, Path]") -> None:
        from watchword.cli._progress import video_bar
        from watchword.library.database import VideoLocks

        self.names = {path: name.as_posix() for name, path in found.items()}
        locks = VideoLocks(self.library.path)
        try:
            with video_bar(len(found)) as bar:
                self.describe_all(list(found.values()), locks, bar)
            for path in self.copies:  # by now their content is known, or failed
                self.num_known += self.is_known_copy(path)
        finally:  # also of a job that is stopped
            locks.close()
            self.num_failed = len(self.errors)
            print_some("", self.errors)

    def describe_all(self, paths: "Sequence[Path]", locks: "VideoLocks", bar: "VideoBar") -> None:
        from watchword.captioning.many import run_tasks
        from watchword.video import shown

        tasks = self.tasks(paths, locks)
        first = next(tasks, None)
        if first is None:
            return
        named = {path.absolute(): path for path in paths}
        described = run_tasks(chain([first], tasks), self.captioner.load(), self.options, self.workers, self.engine)
        for task, video in described:
            path = named[task.video]
            if video.error:
                self.errors.append(video.error)
            else:
                with bar.paused():
                    self.keep(replace(video, video=path), task.identity, task.known)
            locks.release(task.identity)
            number = self.num_added + self.num_known + self.num_locked + len(self.errors)
            bar.update(shown(Path(path.name)), video.seconds, video.seconds, number)

    def tasks(self, paths: "Sequence[Path]", locks: "VideoLocks") -> "Iterator[Task]":
        """The videos that are not known, one by one, as workers become free."""
        from watchword.captioning.many import Task
        from watchword.library.database import identity_of

        for path in paths:
            known = self.library.find_file(path)
            if not self.again and known is not None and self.has_lanes(known):
                self.num_known += 1
                continue
            try:
                identity = identity_of(path)
            except WatchwordError as error:
                self.errors.append(str(error))
                continue
            if identity in locks.held:
                self.copies.append(path)
            elif not locks.take(identity):
                self.num_locked += 1
            elif not self.again and self.is_known(identity, path):
                self.num_known += 1
                locks.release(identity)
            else:
                number = None if self.again else self.library.find(identity)
                before = self.library.description(number) if number is not None else None
                yield Task(path.absolute(), identity, number, before)

    def is_known_copy(self, path: Path) -> bool:
        from watchword.library.database import identity_of

        try:
            return self.is_known(identity_of(path), path)
        except WatchwordError as error:  # it is gone meanwhile
            self.errors.append(str(error))
            return False


# --- search ----------------------------------------------------------------------------------------------------------


def search(
    query: Annotated[
        list[str], typer.Argument(metavar="QUERY", help='Words and prefixes; "phrases" and -without in quotes.')
    ],
    semantic: Annotated[bool, typer.Option("--semantic", help="By sentence embedding: 'puppy' finds dogs.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Segments to show, the best first.")] = 20,
    offset: Annotated[int, typer.Option(min=0, help="Segments to skip.")] = 0,
    as_json: Json = False,
    path: LibraryPath = None,
) -> None:
    """Search the library: what is to be seen, said, written and heard.

    watchword search dog running

    watchword search '"playing a guitar" -man'     a phrase, without men

    watchword search said:welcome                  what is said; also written:, seen: and heard:

    watchword search --semantic "a puppy at the sea"
    """
    library = open_library(path, create=False)
    words = " ".join(query)
    if semantic:
        embed(library)
    hits = library.search(words, limit=limit, offset=offset, semantic=semantic)
    total = library.count_hits(words, semantic=semantic)
    if as_json:
        import json

        document = {"query": words, "total": total, "hits": [hit_values(hit, library) for hit in hits]}
        typer.echo(json.dumps(document, indent=1, ensure_ascii=False))
        return
    show(hits, library)
    if not total:
        print_message(f"no match in the {library.count()} videos of {library.path}")
    elif total > len(hits):
        print_message(f"{len(hits)} of {total} results; more with --limit and --offset")


def embed(library: "Library") -> None:
    """Embeds new captions, with a progress bar."""
    from watchword.cli._progress import bar

    with bar(transient=True) as progress:
        task = progress.add_task("embedding captions", total=None)
        library.embed(lambda done, total: progress.update(task, completed=done, total=total))


def hit_values(hit: "Hit", library: "Library") -> dict[str, object]:
    from watchword.video import shown

    source = source_of(hit, library)
    return {
        "video": hit.video,
        "name": hit.name,
        "source": shown(source) if source else None,
        "start": round(hit.start, 3),
        "end": round(hit.end, 3),
        "caption": hit.caption,
        "confidence": round(hit.confidence, 4),
        "edited": hit.edited,
        "pieces": hit.pieces,
        "lane": hit.lane,
    }


def show(hits: "Sequence[Hit]", library: "Library") -> None:
    """A line each; in a terminal matches are bold, and the name links to the time in the video."""
    from rich.console import Console
    from rich.text import Text

    from watchword.captioning.writers import VERBS, certainty, clock

    console = Console(highlight=False, soft_wrap=True)
    for hit in hits:
        line = Text.assemble(named(hit, library), f"  {clock(hit.start)}  ")
        if hit.lane != "captions":
            line.append(f"{VERBS[hit.lane]}: ")
        for text, is_match in hit.pieces:
            line.append(one_line(text), "bold" if is_match else "")
        console.print(line.append(certainty(hit.confidence, hit.edited)))


def named(hit: "Hit", library: "Library") -> "Text":
    from rich.text import Text

    source = source_of(hit, library)
    return Text(hit.name, f"link {source.as_uri()}#t={hit.start:.3f}" if source and source.exists() else "")


def source_of(hit: "Hit", library: "Library") -> Path | None:
    row = library.video(hit.video)
    return row.source if row else None
