"""The command line. Each command imports what is heavy when it is called."""

import errno
from collections.abc import Callable
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape
from typer.core import TyperGroup

import watchword
from watchword.cli._shared import leave, print_message
from watchword.cli.captioner import calibrate, captioner, export
from watchword.cli.describe import describe
from watchword.cli.explain import explain
from watchword.cli.features import data, features
from watchword.cli.library import library, search
from watchword.cli.models import models, weights
from watchword.cli.score import compare, evaluate, score
from watchword.cli.serve import serve
from watchword.cli.train import train
from watchword.errors import WatchwordError
from watchword.research.commands import research

DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Of files that may not be read or written, and of names that no file can have.
NOT_ALLOWED = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ELOOP)
EXAMPLES = """
Start with [bold]watchword describe clip.mp4[/], or [bold]watchword research demo[/].
"""
# Names of version 0.1, which still work and warn. An option is renamed for the commands that are listed.
RENAMED_COMMANDS = {
    "pack": "export",
    "surprise": "research perplexity",
    "diction": "research vocab-stats",
    "wording": "research pos-stats",
    "kinds": "research tuple-f1",
    "bias": "research word-frequency",
    "pointing": "research grounding",
    "order": "research temporal-order",
    "masking": "research attention-ablation",
    "regions": "research regions",
    "heatmap": "research heatmap",
    "refocus": "research refocus",
    "layers": "research layers",
    "sweep": "research sweep",
    "study": "research study",
    "shapes": "research shapes",
    "demo": "research demo",
    "features carry": "features map",
}
SYNONYMS = {"caption": "describe", "transcribe": "describe", "index": "library", "find": "search", "server": "serve"}
NOT_COMMANDS = {"version": "watchword --version", "help": "watchword --help"}
RENAMED_OPTIONS = {
    "describe": {"--at-least": "--min-confidence"},
    "library add": {"--at-least": "--min-confidence"},
    "export": {"--moments": "--max-time-steps"},
    "search": {"--meaning": "--semantic"},
    "serve": {"--largest": "--max-megabytes", "--longest": "--max-hours"},
    "evaluate": {"--votes": "--mbr-samples"},
    "train": {"--start": "--init-from"},
    "explain": {"--films": "--videos", "--stream": "--head"},
    "research attention-ablation": {"--picture": "--output"},
    "research pos-stats": {"--figure": "--output"},
    "research regions": {"--films": "--videos"},
    "research heatmap": {"--films": "--videos", "--stream": "--head"},
    "research refocus": {"--films": "--videos", "--videos": "--ids"},
    "research layers": {"--films": "--videos"},
    "research study make": {"--films": "--videos"},
    "research shapes": {"--films": "--count", "--videos": "--write-videos"},
    "research demo": {"--films": "--count"},
}


def renamed(words: list[str]) -> list[str]:
    """The command line with the names of this version; each old name is reported."""
    for old, new in RENAMED_COMMANDS.items():
        count = len(old.split())
        if words[:count] == old.split():
            print_message(f"warning: `watchword {old}` is now `watchword {new}`")
            words = [*new.split(), *words[count:]]
            break
    command = next((name for name in RENAMED_OPTIONS if words[: len(name.split())] == name.split()), "")
    options = RENAMED_OPTIONS.get(command, {})
    known = set(options.values())  # a former name may mean something else now: the new meaning wins
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name in options and name not in known:
            print_message(f"warning: {name} of `watchword {command}` is now {options[name]}")
            words = [*words[:number], f"{options[name]}{equals}{value}", *words[number + 1 :]]
    return words


class RenamingGroup(TyperGroup):
    """Accepts the names of version 0.1; a command that does not exist gets the one that was meant."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, renamed(args))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in SYNONYMS:
            raise WatchwordError(f"unknown command {args[0]!r}; did you mean {SYNONYMS[args[0]]!r}?")
        if args and args[0] in NOT_COMMANDS:
            raise WatchwordError(f"unknown command {args[0]!r}; did you mean {NOT_COMMANDS[args[0]]!r}?")
        if args and ("/" in args[0] or "." in args[0]) and not args[0].startswith("-"):
            raise WatchwordError(f"unknown command {args[0]!r}; to caption a video: watchword describe {args[0]}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=RenamingGroup,
    help="Watchword describes what happens in a video.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"watchword {watchword.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    """Every command is a sub-command."""


COMMANDS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "Videos": (describe, explain, search, library, serve, captioner),
    "Captioners": (train, evaluate, score, compare, calibrate, export),
    "Features and models": (features, weights, models, data),
    "Research": (research,),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        if isinstance(command, typer.Typer):
            app.add_typer(command, rich_help_panel=panel)
        else:
            app.command(rich_help_panel=panel)(command)


def main() -> None:
    """An error of the user, or a full disk, is one line on stderr; anything else is a bug and shows its traceback."""
    try:
        app()
    except WatchwordError as error:
        _fail(str(error))
    except OSError as error:
        if error.errno in DISK_FULL:
            name = error.filename or "the output"
            _fail(f"cannot write {name}: {error.strerror}. Free some space and run the command again")
        if error.errno in NOT_ALLOWED and error.filename:
            _fail(f"cannot use {error.filename}: {error.strerror}")
        raise
    except SystemExit as end:  # how every command ends
        if isinstance(end.code, int):
            leave(end.code)
        raise


def _fail(line: str) -> NoReturn:
    Console(stderr=True, highlight=False).print(f"[bold red]watchword:[/] {escape(line)}", soft_wrap=True)
    leave(1)
