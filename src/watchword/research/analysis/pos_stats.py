"""`watchword research pos-stats`: verbs, nouns and adjectives in captions (STaTS, Fig. 5)."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.cli._shared import Json
from watchword.research.charts import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PARTS = ("verb", "noun", "adjective")
COLOURS = {"verb": "tab:orange", "noun": "tab:blue", "adjective": "tab:green"}
LEFT_OUT, SHOWN = 5, 20  # Sec. 4.2: without the 5 most frequent words, the 20 that follow


@dataclass(frozen=True)
class PosStats:
    """The parts of speech of some captions."""

    shares: dict[str, float]  # of the verbs, nouns and adjectives together
    frequent: tuple[
        tuple[str, str, int], ...
    ]  # word, part of speech, count: verbs and nouns, without the most frequent
    different_words: int
    captions: int

    @property
    def among_frequent(self) -> dict[str, int]:
        return {part: sum(own == part for _, own, _ in self.frequent) for part in ("verb", "noun")}


def pos_stats_of(captions: Iterable[Sequence[str]]) -> PosStats:
    """Counts the words of tokenised captions by part of speech."""
    from watchword.text.parts_of_speech import parts_of_speech

    counts: Counter[tuple[str, str]] = Counter()
    number = 0
    for words in captions:
        number += 1
        counts.update(pair for pair in zip(words, parts_of_speech(words), strict=True) if pair[1] in PARTS)
    total = max(sum(counts.values()), 1)
    shares = {part: sum(count for (_, own), count in counts.items() if own == part) / total for part in PARTS}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[LEFT_OUT:]
    frequent = [(word, part, count) for (word, part), count in ordered if part != "adjective"][:SHOWN]
    return PosStats(shares, tuple(frequent), len({word for word, _ in counts}), number)


def pos_stats(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.")],
    split: Annotated[str, typer.Option(help="The split to count.")] = "test",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A figure of the most frequent words, .png or .pdf.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Count verbs, nouns and adjectives in the captions of runs.

    watchword research pos-stats runs/st runs/ts runs/stats --split test --output words.png
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.text.ptb import tokenise
    from watchword.training.run import Run

    found = {}
    for folder in runs:
        captions = [str(row["caption"]) for row in Run(folder).predictions(split)]
        found[folder.name] = pos_stats_of(tokenise(captions, context="line"))
    if output:
        save_figure(draw(found), output)
    if as_json:
        print(json.dumps({name: asdict(one) | {"among_frequent": one.among_frequent} for name, one in found.items()}))
        return
    table = Table(title=f"{split}: words by part of speech", title_justify="left")
    for heading in ("", *(f"{part}s" for part in PARTS), "different", f"of {SHOWN} frequent: verbs", "nouns"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in found.items():
        shares = (f"{one.shares[part]:.1%}" for part in PARTS)
        among = one.among_frequent
        table.add_row(name, *shares, str(one.different_words), str(among["verb"]), str(among["noun"]))
    Console().print(table)


def draw(found: dict[str, PosStats]) -> "Figure":
    """A chart for each run: bars of the frequent words, the shares of the parts of speech in its title."""
    figure = new_figure(4 * len(found), 6)
    for axes, (name, one) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        words, parts, counts = zip(*one.frequent, strict=True) if one.frequent else ((), (), ())
        axes.barh(range(len(words)), counts, color=[COLOURS[part] for part in parts])
        axes.set_yticks(range(len(words)), words)
        axes.invert_yaxis()
        axes.set_title(f"{name}\n" + ", ".join(f"{part}s {one.shares[part]:.0%}" for part in PARTS), fontsize="medium")
    return figure
