"""`watchword library`: films are described once and kept, to be searched and shown."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._options import Beam, Model, Timeline
from watchword.cli.describe import STOPPED, Lazy, listed, say
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchword.captioning.journal import Ledger, Progress, Session
    from watchword.captioning.options import Asked
    from watchword.cli._progress import FilmBar
    from watchword.library import Library

library = typer.Typer(help="Everything described so far, to be searched: add, list, remove.", no_args_is_help=True)
Where = Annotated[
    Path | None,
    typer.Option("--library", help="Its file; WATCHWORD_LIBRARY, or one among your data.", show_default=False),
]


@library.command()
def add(
    videos: Annotated[
        list[str], typer.Argument(metavar="VIDEO...", help="Films, folders with all below, patterns; - reads a list.")
    ],
    model: Model = None,
    top: Annotated[int, typer.Option(min=1, max=50, help="Sentences kept for each film or shot.")] = 3,
    at_least: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Keep nothing that is less sure than this.")
    ] = 0.0,
    timeline: Timeline = None,
    beam: Beam = 5,
    again: Annotated[bool, typer.Option("--again", help="Describe films again that are known already.")] = False,
    path: Where = None,
) -> None:
    """Describe films and keep what was said. Films that are known are skipped; a stopped job goes on where it was.

    watchword library add holiday/

    watchword search "dog on the beach"
    """
    words = [word for word in videos if word != "-"]
    words += listed(Path("-")) if "-" in videos else []

    from watchword.captioning.options import Asked
    from watchword.video.formats import IMAGE_SUFFIXES, VIDEO_SUFFIXES, find_paths

    films = find_paths(words, VIDEO_SUFFIXES | IMAGE_SUFFIXES)
    shelving = Shelving(open_library(path), Lazy(model), Asked(top, beam, timeline), at_least, again)
    try:
        shelving.work(films)
    except KeyboardInterrupt:
        say(f"stopped: {shelving.summary()}; the same command goes on")
        raise typer.Exit(STOPPED) from None
    say(f"{shelving.library.path}: {shelving.summary()}")
    if shelving.num_added:
        understand_if_possible(shelving.library)
    if shelving.captioner.hint:
        say(shelving.captioner.hint)
    if shelving.num_failed:
        raise typer.Exit(1)


@library.command("list")
def list_films(
    limit: Annotated[int, typer.Option(min=1, help="Films to show, the newest first.")] = 50,
    offset: Annotated[int, typer.Option(min=0, help="Films to leave out before.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    path: Where = None,
) -> None:
    """Show the films of the library, each with its number."""
    shelf = open_library(path, create=False)
    rows, total = shelf.films(limit=limit, offset=offset), shelf.count()
    if as_json:
        import json

        from watchword.video import shown

        values = [asdict(row) | {"source": shown(row.source) if row.source else None} for row in rows]
        typer.echo(json.dumps({"total": total, "films": values}, indent=1, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from watchword.captioning.writers import clock

    table = Table(box=None, header_style="bold")
    for column in ("number", "length", "shots"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("film", overflow="fold")
    table.add_column("sentence", overflow="fold")
    for row in rows:
        said = f"{row.sentence} ({row.confidence:.2f})" if row.num_shots else "-"
        table.add_row(str(row.id), clock(row.seconds), str(row.num_shots), Text(row.name), Text(one_line(said)))
    Console(highlight=False).print(table)
    if total > len(rows):
        say(f"{len(rows)} of {total} films; more with --limit and --offset")


@library.command()
def remove(
    numbers: Annotated[list[int], typer.Argument(metavar="NUMBER...", help="From `watchword library list`.")],
    path: Where = None,
) -> None:
    """Forget films and all that was said about them. Your films stay; copies that the web page made are deleted."""
    shelf = open_library(path, create=False)
    for number in numbers:
        row = shelf.film(number)
        if row is None:
            raise WatchwordError(f"no film {number} in {shelf.path}: watchword library list shows the numbers")
        if row.source and row.source.parent == shelf.uploads:
            row.source.unlink(missing_ok=True)
        shelf.remove(number)


def open_library(path: Path | None, create: bool = True) -> "Library":
    """The one that is named, or the person's own. Who only asks does not begin one by a slip of the pen."""
    from watchword.library import Library, default_path

    path = path or default_path()
    if not create and not path.exists():
        raise WatchwordError(f"no library {path}: watchword library add FOLDER makes one")
    return Library(path)


def one_line(text: str) -> str:
    """A caption cannot move the cursor or colour the terminal."""
    return "".join(char if char.isprintable() else " " for char in text)


def understand_if_possible(library: "Library") -> None:
    """So that the first search by meaning need not."""
    from watchword.library.meaning import has_minilm

    if has_minilm():
        from watchword.cli.search import understand

        understand(library)


class Shelving:
    """Films go into the library one by one, each as soon as it is done."""

    def __init__(
        self, library: "Library", captioner: Lazy, asked: "Asked", at_least: float, again: bool
    ) -> None:
        self.library, self.captioner, self.asked, self.at_least, self.again = (
            library, captioner, asked, at_least, again,
        )  # fmt: skip
        self.num_added = self.num_known = self.num_busy = self.num_failed = 0

    def work(self, films: "Sequence[Path]") -> None:
        from watchword.cli._progress import film_bar

        with film_bar(len(films)) as show:
            for number, film in enumerate(films):
                problem = self.shelve(film, show, number)  # what is wrong with the library itself ends the job
                if problem:
                    self.num_failed += 1
                    with show.aside():
                        say(problem)

    def shelve(self, film: Path, show: "FilmBar", number: int) -> str:
        """What was wrong with the film, if anything: it does not stop the rest."""
        from watchword.library.claims import claim, identity_of

        if not self.again and self.library.find_file(film) is not None:
            self.num_known += 1
            return ""
        try:
            identity = identity_of(film)
        except WatchwordError as error:
            return str(error)
        with claim(self.library.path, identity) as is_ours:
            if not is_ours:
                self.num_busy += 1
            elif not self.again and self.is_known(identity, film):
                self.num_known += 1
            else:
                return self.describe(film, identity, show, number)
        return ""

    def is_known(self, identity: str, film: Path) -> bool:
        """Its content is; if it was moved, the library learns where it is now."""
        number = self.library.find(identity)
        row = self.library.film(number) if number is not None else None
        if row is None:
            return False
        if row.source is None or not row.source.exists() or row.source == film.absolute():
            self.library.move(row.id, film)
        return True

    def describe(self, film: Path, identity: str, show: "FilmBar", number: int) -> str:
        from watchword.captioning.journal import Session
        from watchword.video import shown

        ledger = self.ledger(identity)
        session = Session([film], self.asked, self.captioner.open, ledger)
        for progress in session.run():
            show.update(shown(Path(film.name)), progress.reached, progress.seconds, number + progress.is_done)
        if not progress.problem:
            with show.aside():
                self.keep(session, progress, identity)
        ledger.close()  # not before: a process that is killed here finds it again
        return progress.problem

    def keep(self, session: "Session", progress: "Progress", identity: str) -> None:
        from watchword.captioning.attention import evidence_of
        from watchword.captioning.writers import is_whole
        from watchword.video import shown

        film, description = progress.film, progress.description(session.open().name, self.at_least)
        evidence = evidence_of(description).values()
        self.library.add(description, name=film.name, identity=identity, source=film, evidence=evidence)
        self.num_added += 1
        for warning in description.warnings:
            say(f"warning: {warning}")
        said = f"{description.sentence} ({description.confidence:.2f})" if description.shots else "nothing sure enough"
        count = "" if is_whole(description) else f"{len(description.shots)} shots, "
        typer.echo(f"{shown(film)}: {count}{one_line(said)}")

    def ledger(self, identity: str) -> "Ledger":
        """How far the film was when it was stopped; a job that asked for something else is begun again."""
        from watchword.captioning.journal import Ledger
        from watchword.library.claims import part_of

        part = part_of(self.library.path, identity)
        job = {"captioner": self.captioner.model or "default", **asdict(self.asked)}
        try:
            return Ledger(part, job, resume=True)
        except WatchwordError:
            return Ledger(part, job, resume=False)

    def summary(self) -> str:
        known = f", {self.num_known} known already" if self.num_known else ""
        busy = f", {self.num_busy} in the hands of another process" if self.num_busy else ""
        failed = f", {self.num_failed} could not be described" if self.num_failed else ""
        return f"{self.num_added} film{'s' * (self.num_added != 1)} added{known}{busy}{failed}"
