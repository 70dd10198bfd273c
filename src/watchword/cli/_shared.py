"""Options, tables, messages and the quick start of torch, which several commands share."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, NoReturn, TypeVar

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from watchword.captioning.captioner import Captioner
    from watchword.lanes import LaneOptions

MAX_MESSAGES = 20
T = TypeVar("T")
STOPPED = 130  # the exit status of a program that Ctrl-C ended

Videos = Annotated[Path | None, typer.Option(help="The video, or a folder of videos, if not beside the captions.")]
Model = Annotated[
    str | None, typer.Option(help="A run, or a captioner by name: base (the default) or light.", show_default=False)
]


def go_offline(wanted: bool) -> bool:
    """Forbids downloads in this process and its children."""
    if wanted:
        os.environ["WATCHWORD_OFFLINE"] = "1"
    return wanted


Offline = Annotated[
    bool, typer.Option("--offline", callback=go_offline, help="Download nothing (or set WATCHWORD_OFFLINE=1).")
]
Timeline = Annotated[
    bool | None,
    typer.Option("--timeline/--whole", help="Segment by segment, or one caption; default: a timeline beyond 40 s."),
]
Beam = Annotated[int, typer.Option(min=1, max=100, help="Beam size.")]
MinConfidence = Annotated[float, typer.Option(min=0.0, max=1.0, help="Leave out captions with less confidence.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1; auto: a GPU where there is one.")]
Shard = Annotated[
    str | None, typer.Option(metavar="K/N", help="The K-th of N parts of the videos: one for each machine, say 3/16.")
]
Speech = Annotated[bool, typer.Option("--speech", help="Also write down what is said.")]
ScreenText = Annotated[bool, typer.Option("--text", help="Also read the text on screen.")]
Sounds = Annotated[bool, typer.Option("--sounds", help="Also name the sounds.")]
SpeechModel = Annotated[
    str, typer.Option(help="For --speech: whisper_tiny, whisper_base, a folder or a name of faster-whisper.")
]
Language = Annotated[str, typer.Option(help="Of the speech, such as en; detected by default.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
LengthPower = Annotated[
    float, typer.Option(min=0.0, max=5.0, help="Length penalty: scores are divided by words ** this.")
]

SCORES = {
    "Bleu_1": "BLEU-1",
    "Bleu_2": "BLEU-2",
    "Bleu_3": "BLEU-3",
    "Bleu_4": "BLEU-4",
    "METEOR": "METEOR",
    "ROUGE_L": "ROUGE-L",
    "CIDEr": "CIDEr",
}


def score_table(rows: Mapping[str, Mapping[str, float]], title: str) -> "Table":
    """Scores as papers print them: times 100, one decimal; a dash for a missing one."""
    from rich.table import Table

    table = Table(title=f"{title} (x100)", title_justify="left", box=None, header_style="bold", pad_edge=False)
    table.add_column("", overflow="fold")
    for heading in SCORES.values():
        table.add_column(heading, justify="right", no_wrap=True)
    for name, scores in rows.items():
        table.add_row(name, *(f"{100 * scores[key]:.1f}" if key in scores else "-" for key in SCORES))
    return table


def wide_console() -> "Console":
    """For wide tables: 120 columns and more. A pipe counts as 80 wide, which would cut numbers."""
    from rich.console import Console

    return Console(width=max(Console().width, 120))


def print_message(line: str) -> None:
    """To stderr: stdout is for results."""
    typer.echo(f"watchword: {line}", err=True)


def print_warning(line: str) -> None:
    print_message(f"warning: {line}")


def print_some(kind: str, lines: list[str]) -> None:
    """The first messages of many, to stderr."""
    for line in lines[:MAX_MESSAGES]:
        print_message(f"{kind}{line}")
    if len(lines) > MAX_MESSAGES:
        print_message(f"{kind}... and {len(lines) - MAX_MESSAGES} more")


def read_list(path: Path) -> list[str]:
    """One video a line; - reads stdin. Relative names are relative to the working directory."""
    try:
        text = sys.stdin.read() if str(path) == "-" else path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WatchwordError(f"cannot read the list {path}: {error}") from error
    return [line.strip() for line in text.splitlines() if line.strip()]


def shard_of(items: Sequence[T], shard: str | None) -> list[T]:
    """The K-th of N parts: every N-th item. All parts together are all items."""
    if shard is None:
        return list(items)
    part, slash, parts = shard.partition("/")
    if not (slash and part.isdecimal() and parts.isdecimal() and 1 <= int(part) <= int(parts)):
        raise WatchwordError(f"--shard {shard!r}: expected K/N with K from 1 to N, such as 3/16")
    return list(items[int(part) - 1 :: int(parts)])


def lane_options(speech: bool, text: bool, sounds: bool, speech_model: str, language: str) -> "LaneOptions":
    """The lanes to read; naming a model or a language asks for the speech. What is missing is reported now."""
    from watchword.lanes import LaneOptions, check_lanes

    options = LaneOptions(speech or bool(speech_model or language), text, sounds, speech_model, language)
    check_lanes(options)
    return options


class LazyCaptioner:
    """A captioner that is loaded when the first video has been opened: a wrong file name is reported at once."""

    def __init__(self, model: str | None, device: str = "cpu") -> None:
        self.model, self.device, self.hint = model, device, ""
        self.captioner: Captioner | None = None

    @property
    def choice(self) -> str:
        """What the user names, or chose once; nothing is loaded for it."""
        from watchword.preferences import preference

        return self.model or preference("model") or "default"

    def load(self) -> "Captioner":
        if self.captioner is None:
            import_torch_quickly()
            from watchword.captioning.captioner import Captioner
            from watchword.cli._progress import download_bar

            with download_bar() as report:
                self.captioner = Captioner.load(self.model, device=self.device, report=report)
            self.hint = self.captioner.hint
        return self.captioner


# --- importing torch in half the time, for a process that captions and ends ------------------------------------------


FOR_COMPILERS = "torch._meta_registrations"
STAND_IN = ModuleType(FOR_COMPILERS)


def import_torch_quickly() -> None:
    """Imports torch without the shape rules that its compilers and fake tensors need: 1.2 CPU seconds instead of 2.1.

    An empty module stands in their place, so nothing may be compiled or exported afterwards: for our own command's
    process alone. Whoever imports watchword gets torch whole.
    """
    if "torch" not in sys.modules:
        sys.modules[FOR_COMPILERS] = STAND_IN
    import torch  # noqa: F401


def leave(code: int) -> NoReturn:
    """Ends the command's process, without the third of a second that unloading torch takes.

    By then every file is closed and every thread joined; only printed text may still wait to be written.
    """
    if sys.modules.get(FOR_COMPILERS) is STAND_IN:
        with suppress(OSError):  # the reader is gone: Python handles it
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    sys.exit(code)
