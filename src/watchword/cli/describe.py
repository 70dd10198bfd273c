"""`watchword describe VIDEO...`: a sentence for a film, a timeline for a long one."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from watchword.cli._options import Beam, Model, Timeline
from watchword.cli._quick_torch import import_torch_quickly
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.captioning.captioner import Describer
    from watchword.captioning.description import Description
    from watchword.captioning.journal import Progress, Session

Format = Literal["text", "json", "csv", "srt", "vtt", "chapters"]
ENDINGS: dict[str, Format] = {".txt": "text", ".json": "json", ".csv": "csv", ".srt": "srt", ".vtt": "vtt"}
FOR_ONE_FILM = ("srt", "vtt", "chapters")
STOPPED = 130  # what shells say of a program that was ended with Ctrl-C


def describe(
    videos: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIDEO...", help="Films, pictures, folders with all below, patterns; - reads a list."),
    ] = None,
    model: Model = None,
    form: Annotated[
        Format | None, typer.Option("--format", help="By the ending of --output, or text.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option(help="A file for all films, or a folder for a file each.")] = None,
    top: Annotated[int, typer.Option(min=1, max=50, help="Sentences for each film or shot.")] = 1,
    at_least: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Say nothing that is less sure than this.")
    ] = 0.0,
    timeline: Timeline = None,
    beam: Beam = 5,
    from_list: Annotated[Path | None, typer.Option("--list", help="A file, one film a line; - is the input.")] = None,
    example: Annotated[bool, typer.Option("--example", help="A film of 4 seconds that is fetched for you.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a stopped job with this --output was.")] = False,
    explain: Annotated[
        Path | None, typer.Option(help="A folder for a page of each film: what each word looked at.", file_okay=False)
    ] = None,
) -> None:
    """Say what is to be seen in films.

    watchword describe clip.mp4

    watchword describe film.mkv --output film.srt        a timeline as subtitles; Ctrl-C and --resume as you like

    watchword describe holiday/ --output holiday.json    every film of a folder
    """
    words = [word for word in videos or [] if word != "-"]
    if example:
        from watchword.captioning.example import example_film

        words.append(str(example_film()))
    if from_list is not None or "-" in (videos or []):
        words += listed(from_list or Path("-"))
    if not words:
        raise WatchwordError("name a film: watchword describe clip.mp4 (or a folder, a pattern, --list FILE)")
    if resume and output is None:
        raise WatchwordError("--resume goes on with an --output: name the one that the stopped job had")

    from watchword.video.formats import IMAGE_SUFFIXES, VIDEO_SUFFIXES, find_paths

    form = form or (ENDINGS.get(output.suffix.lower(), "text") if output else "text")
    films = find_paths(words, VIDEO_SUFFIXES | IMAGE_SUFFIXES)
    targets = plan_outputs(films, form, output)
    pages = dict(zip(films, (explain / f"{name}.html" for name in own_names(films)), strict=True)) if explain else {}

    from watchword.captioning.journal import Ledger, Session
    from watchword.captioning.options import Asked

    asked = Asked(top, beam, True if timeline is None and form in FOR_ONE_FILM else timeline)
    job = {"captioner": model or "default", "top": top, "beam": beam, "timeline": asked.timeline}
    captioner = Lazy(model)
    failed = False
    for target, some in targets:
        if target is not None and resume and target.exists() and not part_of(target).exists():
            continue  # whole
        ledger = Ledger(part_of(target) if target else None, job, resume)
        desk = Desk(Session(some, asked, captioner.open, ledger), form, target, at_least, len(films) > 1, pages)
        try:
            desk.work()
        except KeyboardInterrupt:
            desk.finish()
            say(desk.where_it_stopped())
            raise typer.Exit(STOPPED) from None
        desk.finish()
        ledger.close()
        failed = failed or desk.has_problems
    if captioner.hint:
        say(captioner.hint)
    if failed:
        raise typer.Exit(1)


def plan_outputs(films: "Sequence[Path]", form: str, output: Path | None) -> "list[tuple[Path | None, Sequence[Path]]]":
    """Which films go into which file; None is the screen."""
    from watchword.captioning.writers import WRITERS

    ending = WRITERS[form][0]
    if output is not None and (output.is_dir() or not output.suffix or str(output).endswith(os.sep)):
        return [(output / f"{name}{ending}", [film]) for name, film in zip(own_names(films), films, strict=True)]
    if form in FOR_ONE_FILM and len(films) > 1:
        raise WatchwordError(f"{form} is a file for one film, here are {len(films)}: name a folder, --output srt/")
    return [(output, films)]


def own_names(films: "Sequence[Path]") -> list[str]:
    """What a file of each film's own is called."""
    stems = [film.stem for film in films]
    names = [film.stem if stems.count(film.stem) == 1 else film.name for film in films]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise WatchwordError(f"two films are called {twice!r}, their files would be one: describe them one by one")
    return names


def part_of(target: Path) -> Path:
    """Where a job notes what is done while it is not whole."""
    return target.with_name(f"{target.name}.part")


def say(line: str) -> None:
    """To the person, not into what a program reads."""
    typer.echo(f"watchword: {line}", err=True)


class Lazy:
    """The captioner, opened when the first film turns out to be one: a mistyped name is told at once."""

    def __init__(self, model: str | None) -> None:
        self.model, self.hint = model, ""
        self.describer: Describer | None = None

    def open(self) -> "Describer":
        if self.describer is None:
            import_torch_quickly()
            from watchword.captioning.captioner import Describer

            self.describer = Describer.open(self.model)
            self.hint = self.describer.hint
        return self.describer


class Desk:
    """One output: what is shown while it is made, and how it is written."""

    def __init__(
        self, session: "Session", form: str, target: Path | None, at_least: float, named: bool,
        pages: "dict[Path, Path]",
    ) -> None:  # fmt: skip
        self.session, self.form, self.target, self.at_least, self.named = session, form, target, at_least, named
        self.pages = pages  # film -> where it is explained
        self.films: list[Progress] = []
        self.printed = 0  # shots of the last film that are on the screen
        self.shows_text = target is None and form == "text"

    @property
    def has_problems(self) -> bool:
        return any(film.problem for film in self.films)

    def work(self) -> None:
        from watchword.cli._progress import film_bar
        from watchword.video import shown

        with film_bar(len(self.session.films)) as show:
            for film in self.session.run():
                if not self.films or self.films[-1] is not film:
                    self.films.append(film)
                    self.printed = 0
                name, done = shown(Path(film.film.name)), len(self.films) - 1 + film.is_done
                show.update(name, film.reached, film.seconds, done)
                lines = self.lines_of(film) if self.shows_text else []
                if lines or film.problem:
                    with show.aside():
                        self.tell(film, lines)
                elif film.is_done:
                    self.tell(film, lines)
                if film.is_done and film.film in self.pages:
                    self.explain(film)

    def lines_of(self, film: "Progress", stopped: bool = False) -> list[str]:
        """What can be said for good: the last shot may still be joined with the next."""
        from watchword.captioning.writers import shot_lines
        from watchword.video import shown

        description = self.description(film)
        is_timeline = self.session.asked.as_timeline(film.seconds)
        ready = description.shots[self.printed : None if film.is_done or stopped else -1]
        head = [shown(film.film)] if ready and is_timeline and self.named and not self.printed else []
        self.printed += len(ready)
        name = shown(film.film) if self.named else ""
        return head + [line for shot in ready for line in shot_lines(shot, is_timeline=is_timeline, name=name)]

    def tell(self, film: "Progress", lines: list[str]) -> None:
        from watchword.video import shown

        for line in lines:
            typer.echo(line)
        if film.problem:
            say(film.problem)
        for warning in dict.fromkeys(film.warnings) if film.is_done or film.problem else ():
            say(f"warning: {warning}")
        if film.is_done and film.shots and not self.description(film).shots:
            surest = max(shot.best.confidence for shot in film.shots)
            least = f"the surest sentence has {surest:.2f}, below --at-least {self.at_least:g}"
            say(f"{shown(film.film)}: nothing said, {least}")

    def explain(self, film: "Progress") -> None:
        """A page; shots that an earlier, stopped job described are there without what they looked at."""
        from watchword.captioning.attention import evidence_of
        from watchword.cli.explain import write_evidence

        page = self.pages[film.film]
        page.parent.mkdir(parents=True, exist_ok=True)
        write_evidence(evidence_of(self.description(film)), film.film, page, "html")

    def description(self, film: "Progress") -> "Description":
        describer = self.session.open() if film.shots else None
        return film.description(describer.name if describer else "", self.at_least)

    def finish(self) -> None:
        """Writes all that is done, also of a film in the middle of which somebody pressed Ctrl-C."""
        from watchword.atomic_io import write_whole
        from watchword.captioning.writers import WRITERS, as_json

        done = [self.description(film) for film in self.films if film.shots]
        if self.shows_text:
            for line in self.lines_of(self.films[-1], stopped=True) if self.films else []:
                typer.echo(line)
            return
        if self.form == "json":
            text = as_json(done, [(film.film, film.problem) for film in self.films if film.problem])
        elif done or self.form == "csv":
            text = WRITERS[self.form][1](done)
        else:
            return
        if self.target is None:
            sys.stdout.write(text)
            return
        write_whole(self.target, text)
        count = sum(len(description.shots) for description in done)
        say(f"{self.target}: {count} sentence{'s' * (count != 1)} for {len(done)} film{'s' * (len(done) != 1)}")

    def where_it_stopped(self) -> str:
        from watchword.captioning.writers import clock
        from watchword.video import shown

        film = self.films[-1] if self.films else None
        place = f" in {shown(film.film)} at {clock(film.reached)} of {clock(film.seconds)}" if film else ""
        how = "; go on with the same command and --resume" if self.target is not None else ""
        return f"stopped{place}{how}"


def listed(path: Path) -> list[str]:
    """One film a line; relative names are relative to where the command runs."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WatchwordError(f"cannot read the list {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]
