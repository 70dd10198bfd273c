"""`watchword research word-frequency`: how skewed the words of a corpus are (Fig. 1a of Dong et al. 2018)."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._shared import Json
from watchword.errors import WatchwordError
from watchword.research.charts import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BARS = 16


def word_frequency(
    captions: Annotated[Path, typer.Argument(help="A file or folder of captions.")],
    split: Annotated[str, typer.Option(help="The split to count.")] = "train",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words with a smaller count.")] = 1,
    output: Annotated[Path | None, typer.Option(help="A figure, .png or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Show the share of the most frequent words in a corpus, and the number of videos with a word.

    watchword research word-frequency data/shapes --output words.png
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.text.counts import count_words

    clips = [clip for clip in read_annotations(captions) if clip.split == split]
    if not clips:
        raise WatchwordError(f"{captions} has no {split} videos")
    found = frequencies(count_words({clip.video: clip.captions for clip in clips}), min_count)
    if output is not None:
        save_figure(draw(found), output)
    if as_json:
        print(json.dumps(found))
        return
    title = f"{split}: {found['words']:,} distinct words, {found['tokens']:,} tokens, {found['videos']:,} videos"
    table = Table("most frequent words", "count", "share of all tokens", title=title, title_justify="left")
    for row in found["shares"]:
        table.add_row(f"{row['of_words']:.0%}", f"{row['words']:,}", f"{row['of_tokens']:.1%}")
    Console().print(table)
    table = Table("rank", "word", "count", "videos")
    for row in found["bars"]:
        table.add_row(f"{row['rank']:,}", row["word"], f"{row['count']:,}", f"{row['videos']:,}")
    Console().print(table)


def frequencies(counts: Any, min_count: int) -> dict[str, Any]:
    """The numbers of the figure; words in order of their counts."""
    from collections import Counter

    import numpy as np

    from watchword.text.counts import videos_with

    times: Counter[str] = Counter()
    for own in counts.values():
        times.update(own.times)
    videos = videos_with(counts)
    words = sorted((word for word in times if times[word] >= min_count), key=lambda word: (-times[word], word))
    if not words:
        raise WatchwordError(f"no word occurs {min_count} times: lower --min-count")
    total = sum(times[word] for word in words)
    shares = []
    for share in SHARES:
        most = max(1, round(share * len(words)))
        shares.append(
            {"of_words": share, "words": most, "of_tokens": sum(times[word] for word in words[:most]) / total}
        )
    ranks = np.unique(np.geomspace(1, len(words), BARS).round().astype(int)).tolist()
    bars = [
        {"rank": rank, "word": words[rank - 1], "count": times[words[rank - 1]], "videos": videos[words[rank - 1]]}
        for rank in ranks
    ]
    return {"words": len(words), "tokens": total, "videos": len(counts), "shares": shares, "bars": bars}


def draw(found: dict[str, Any]) -> "Figure":
    """Two pies, the 5 % most frequent words and their share of the corpus; bars, the videos with a word."""
    top = next(row for row in found["shares"] if row["of_words"] == 0.05)
    figure = new_figure(9, 7)
    rows: Any = figure.subfigures(2, 1)
    pies = ((f"{found['words']:,} distinct words", 0.05), (f"{found['tokens']:,} tokens", top["of_tokens"]))
    for axes, (title, share) in zip(rows[0].subplots(1, 2), pies, strict=True):
        axes.pie([share, 1 - share], colors=["tab:blue", "lightgrey"], startangle=90, counterclock=False)
        axes.set_title(f"{title}\ntop 5 % of words: {share:.1%}")
    axes = rows[1].subplots()
    names = [f"{row['word']}\n#{row['rank']:,}" for row in found["bars"]]
    axes.bar_label(axes.bar(range(len(names)), [row["videos"] for row in found["bars"]]))
    axes.set_xticks(range(len(names)), names, fontsize="small")
    axes.set_title(f"videos with a word, of {found['videos']:,}")
    return figure
