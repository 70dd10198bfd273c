"""The command line: a table of verbs. Each verb lives in a file of its own and imports what is heavy when called."""

import errno
from typing import NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from watchword.app.bias import bias
from watchword.app.calibrate import calibrate
from watchword.app.compare import compare
from watchword.app.demo import demo
from watchword.app.describe import describe
from watchword.app.diction import diction
from watchword.app.evaluate import evaluate
from watchword.app.explain import explain
from watchword.app.features import features
from watchword.app.heatmap import heatmap
from watchword.app.kinds import kinds
from watchword.app.layers import layers
from watchword.app.library import library
from watchword.app.masking import masking
from watchword.app.models import models
from watchword.app.order import order
from watchword.app.pack import pack
from watchword.app.pointing import pointing
from watchword.app.quick_torch import leave
from watchword.app.refocus import refocus
from watchword.app.regions import regions
from watchword.app.score import score
from watchword.app.search import search
from watchword.app.serve import serve
from watchword.app.shapes import shapes
from watchword.app.study import study
from watchword.app.surprise import surprise
from watchword.app.sweep import sweep
from watchword.app.train import train
from watchword.app.weights import weights
from watchword.app.wording import wording
from watchword.errors import WatchwordError

FULL = (errno.ENOSPC, errno.EDQUOT)
EXAMPLES = """Try it:

[bold]watchword describe clip.mp4[/]   a sentence for a film, a timeline for a long one

[bold]watchword serve[/]   a page to drop films on, and to find them again

[bold]watchword demo[/]   the whole way in a minute, on films drawn for it

[bold]watchword shapes data/shapes[/]   then   [bold]watchword train recipes/shapes.toml[/]

[bold]watchword score references.jsonl predictions.json[/]   BLEU, METEOR, ROUGE-L, CIDEr without Java
"""

app = typer.Typer(
    help="Watchword watches a video and finds the words for it.",
    epilog=EXAMPLES,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _root() -> None:
    """Keeps every verb a sub-command, however many there are."""


VERBS = {
    "For films": (describe, explain, serve, search, calibrate, pack),
    "Train and score": (demo, shapes, train, sweep, evaluate, score, compare, surprise, models),
    "Look inside: the papers' figures": (
        bias, diction, wording, kinds, regions, pointing, heatmap, order, masking, refocus, layers,
    ),
}  # fmt: skip
for panel, verbs in VERBS.items():
    for verb in verbs:
        app.command(rich_help_panel=panel)(verb)
app.add_typer(library, name="library", rich_help_panel="For films")
app.add_typer(study, name="study", rich_help_panel="Train and score")
app.add_typer(features, name="features", rich_help_panel="Features")
app.add_typer(weights, name="weights", rich_help_panel="Features")


def main() -> None:
    """A user's mistake is one line on stderr, a full disk too; anything else is a bug and shows its traceback."""
    try:
        app()
    except WatchwordError as error:
        _complain(str(error))
    except OSError as error:
        if error.errno not in FULL:
            raise
        _complain(f"cannot write {error.filename or 'what is to be said'}: {error.strerror}; make room, and once more")
    except SystemExit as end:  # how every verb ends
        if isinstance(end.code, int):
            leave(end.code)
        raise


def _complain(line: str) -> NoReturn:
    Console(stderr=True, highlight=False).print(f"[bold red]watchword:[/] {escape(line)}", soft_wrap=True)
    leave(1)
