"""What a person sees while something takes long."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from watchword.training.loop import Report, TrainingProgress

console = Console(stderr=True, highlight=False)


class Bar(Progress):
    """Says nothing where nobody watches: a log, or an error that is to be one line, gets no empty line of its own."""

    def stop(self) -> None:
        self.live.stop()


def bar(transient: bool = False) -> Progress:
    return Bar(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("left"),
        TimeRemainingColumn(), console=console, transient=transient,
    )  # fmt: skip


@contextmanager
def training_bar() -> Iterator["Report"]:
    """A bar for the batches of an epoch, a line for each epoch that is done and for what training logs."""
    if os.environ.get("RANK", "0") != "0":  # one of several processes speaks
        yield lambda moment: None
        return
    with bar(transient=True) as progress, logged(progress.console):
        task = progress.add_task("training", total=None)

        def report(moment: "TrainingProgress") -> None:
            phase = f"phase {moment.phase + 1}, " if moment.phase else ""
            if moment.scores:
                shown = "  ".join(f"{name} {value:.4g}" for name, value in moment.scores.items())
                progress.console.print(f"{phase}epoch {moment.epoch}/{moment.epochs}  {shown}")
            else:
                name = f"{phase}epoch {moment.epoch + 1}/{moment.epochs}, loss {moment.loss:.3f}"
                done = moment.epoch * moment.batches + moment.batch
                progress.update(task, description=name, completed=done, total=moment.epochs * moment.batches)

        yield report


@contextmanager
def logged(console: Console) -> Iterator[None]:
    """Within it what the package logs goes to the console, one plain line each."""
    logger, handler = logging.getLogger("watchword"), logging.Handler(logging.INFO)
    handler.emit = lambda record: console.print(record.getMessage(), soft_wrap=True, markup=False)  # type: ignore[method-assign]
    level, logger.level = logger.level, logging.INFO
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


class FilmBar:
    """How far a film is, and how many films are done; it steps aside for lines on the screen."""

    def __init__(self, num_films: int) -> None:
        self.num_films, self.name = num_films, ""
        self.progress = Bar(
            TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[place]}"), TextColumn("left"),
            TimeRemainingColumn(), console=console, transient=True, redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self.films = self.progress.add_task("films", total=num_films, place="", visible=num_films > 1)
        self.film = self.progress.add_task("waking up", total=None, place="")

    def update(self, name: str, reached: float, seconds: float, films_done: int) -> None:
        place = f"{films_done} of {self.num_films}"
        self.progress.update(self.films, completed=films_done, place=place)
        minutes = " of ".join(f"{round(time) // 60}:{round(time) % 60:02d}" for time in (reached, seconds))
        if self.name != name:
            self.name = name
            self.progress.reset(self.film, description=escape(name), total=seconds or None, completed=int(reached))
        self.progress.update(self.film, completed=reached, place=minutes)

    @contextmanager
    def aside(self) -> Iterator[None]:
        self.progress.stop()
        yield
        self.progress.start()


@contextmanager
def film_bar(num_films: int) -> Iterator[FilmBar]:
    bar = FilmBar(num_films)
    with bar.progress:
        yield bar
