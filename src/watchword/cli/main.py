"""The command line: a table of verbs. Each verb lives in a file of its own and imports what is heavy when called."""

import errno
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

import watchword
from watchword.cli._quick_torch import leave
from watchword.cli.calibrate import calibrate
from watchword.cli.compare import compare
from watchword.cli.describe import describe
from watchword.cli.evaluate import evaluate
from watchword.cli.explain import explain
from watchword.cli.export import pack
from watchword.cli.features import features
from watchword.cli.library import library
from watchword.cli.models import models
from watchword.cli.score import score
from watchword.cli.search import search
from watchword.cli.serve import serve
from watchword.cli.train import train
from watchword.cli.weights import weights
from watchword.errors import WatchwordError
from watchword.research.analysis.grounding import pointing
from watchword.research.analysis.perplexity import surprise
from watchword.research.analysis.pos_stats import wording
from watchword.research.analysis.sweep import sweep
from watchword.research.analysis.temporal_order import order
from watchword.research.analysis.tuple_f1 import kinds
from watchword.research.analysis.vocab_stats import diction
from watchword.research.analysis.word_frequency import bias
from watchword.research.papers.dual_afr import layers
from watchword.research.papers.global2local import masking
from watchword.research.papers.hierarchical import regions
from watchword.research.papers.refocus import refocus
from watchword.research.papers.stats import heatmap
from watchword.research.shapes.command import shapes
from watchword.research.shapes.demo import demo
from watchword.research.study.commands import study

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


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"watchword {watchword.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Keeps every verb a sub-command, however many there are."""


VERBS = {
    "For films": (describe, explain, serve, search, calibrate, pack),
    "Train and score": (demo, shapes, train, sweep, evaluate, score, compare, surprise, models),
    "StreamSpec inside: the papers' figures": (
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
