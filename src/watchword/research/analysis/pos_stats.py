"""`watchword wording RUN...`: verbs, nouns and adjectives in what runs say (STaTS, Fig. 5)."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from PIL.Image import Image

PARTS = ("verb", "noun", "adjective")
COLOURS = {"verb": (214, 96, 36), "noun": (52, 104, 170), "adjective": (110, 150, 60)}
LEFT_OUT, SHOWN = 5, 20  # Sec. 4.2: without the 5 most frequent words, the 20 that follow


@dataclass(frozen=True)
class Wording:
    """Which words some sentences are made of."""

    shares: dict[str, float]                  # of the verbs, nouns and adjectives together
    frequent: tuple[tuple[str, str, int], ...]  # word, part, how often: verbs and nouns, the commonest left out
    different_words: int
    sentences: int

    @property
    def among_frequent(self) -> dict[str, int]:
        return {part: sum(own == part for _, own, _ in self.frequent) for part in ("verb", "noun")}


def wording_of(sentences: Iterable[Sequence[str]]) -> Wording:
    """Counts the words of tokenised sentences by what they are where they stand."""
    from watchword.text.parts_of_speech import parts_of_speech

    counts: Counter[tuple[str, str]] = Counter()
    number = 0
    for words in sentences:
        number += 1
        counts.update(pair for pair in zip(words, parts_of_speech(words), strict=True) if pair[1] in PARTS)
    total = max(sum(counts.values()), 1)
    shares = {part: sum(count for (_, own), count in counts.items() if own == part) / total for part in PARTS}
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[LEFT_OUT:]
    frequent = [(word, part, count) for (word, part), count in ordered if part != "adjective"][:SHOWN]
    return Wording(shares, tuple(frequent), len({word for word, _ in counts}), number)


def wording(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that watchword evaluate has been over.")],
    split: Annotated[str, typer.Option(help="The split whose sentences are counted.")] = "test",
    figure: Annotated[Path | None, typer.Option(help="A picture (.png) of the most frequent words too.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the counts for a program.")] = False,
) -> None:
    """Count verbs, nouns and adjectives in what runs said about a split.

    watchword wording runs/st runs/ts runs/stats --split test --figure words.png
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.text.ptb import tokenise
    from watchword.training.run import Run

    found = {}
    for folder in runs:
        said = [str(row["caption"]) for row in Run(folder).predictions(split)]
        found[folder.name] = wording_of(tokenise(said, context="line"))
    if figure:
        try:
            draw_wordings(found).save(figure)
        except (OSError, ValueError) as error:
            raise WatchwordError(f"cannot write {figure}: {error}; name a .png or .jpg") from error
    if as_json:
        print(json.dumps({name: asdict(one) | {"among_frequent": one.among_frequent} for name, one in found.items()}))
        return
    table = Table(title=f"{split}: words by what they are", title_justify="left")
    for heading in ("", *(f"{part}s" for part in PARTS), "different", f"of {SHOWN} frequent: verbs", "nouns"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in found.items():
        shares = (f"{one.shares[part]:.1%}" for part in PARTS)
        among = one.among_frequent
        table.add_row(name, *shares, str(one.different_words), str(among["verb"]), str(among["noun"]))
    Console().print(table)


def draw_wordings(found: dict[str, Wording]) -> "Image":
    """A chart a run, side by side: bars of the frequent words, below them the shares of all."""
    from PIL import Image, ImageDraw, ImageFont

    width, line, label, head = 330, 20, 110, 34
    sheet = Image.new("RGB", (width * len(found), head + line * (SHOWN + 3)), (250, 249, 246))
    draw, font, small = ImageDraw.Draw(sheet), ImageFont.load_default(17), ImageFont.load_default(13)
    for column, (name, one) in enumerate(found.items()):
        left = 10 + column * width
        draw.text((left, 6), name, font=font, fill=(40, 40, 44))
        most = max((count for _, _, count in one.frequent), default=1)
        for row, (word, part, count) in enumerate(one.frequent):
            top, length = head + row * line, (width - label - 70) * count / most
            draw.text((left + label - 8, top + 2), word[:14], font=small, fill=(40, 40, 44), anchor="ra")
            draw.rectangle((left + label, top + 2, left + label + length, top + line - 4), fill=COLOURS[part])
            draw.text((left + label + length + 6, top + 2), str(count), font=small, fill=(120, 120, 126))
        begin, top = float(left), head + line * (SHOWN + 1)
        for part in PARTS:
            end = begin + (width - 30) * one.shares[part]
            draw.rectangle((begin, top, end, top + line), fill=COLOURS[part])
            if one.shares[part] > 0.15:
                draw.text((begin + 4, top + 3), f"{part}s {one.shares[part]:.0%}", font=small, fill=(255, 255, 255))
            begin = end
    return sheet
