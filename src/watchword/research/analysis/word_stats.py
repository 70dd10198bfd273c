"""Words of captions: `watchword research vocab-stats`, `word-frequency`, and `pos-stats` (STaTS, Fig. 5).

The first two count the vocabulary, rare words and frequent words, the third verbs, nouns and adjectives.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from watchword.cli._shared import Json, wide_console
from watchword.errors import WatchwordError
from watchword.research.charts import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from watchword.text.vocabulary import WordCounts

HEADINGS = {
    "captions": "captions",
    "words": "words",
    "mean_length": "length",
    "rare_words": "rare words",
    "rare_share": "rare share",
    "rare_recall": "rare recall",
    "spread": "spread",
}


def vocab_stats(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.")],
    split: Annotated[str, typer.Option(help="The split to count.")] = "test",
    rare: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Rare words occur in at most this share of training videos.")
    ] = 0.02,
    as_json: Json = False,
) -> None:
    """Compare the vocabularies of runs: size, share of rare words, and recall of rare words.

    The last row is a person: the first reference of every video, compared with the others.

    watchword research vocab-stats runs/cross_entropy runs/information
    """
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.data.benchmarks import captions_path
    from watchword.metrics.files import read_hypotheses
    from watchword.text.ptb import tokenise
    from watchword.text.vocabulary import count_words
    from watchword.training.run import Run

    rows = {}
    captions = captions_path(Run(runs[0]).recipe.data)
    clips = read_annotations(captions)
    training = count_words({clip.video: clip.captions for clip in clips if clip.split == "train"})
    people = {clip.video: clip.captions for clip in clips if clip.split == split}
    for folder in runs:
        run = Run(folder)
        if captions_path(run.recipe.data).resolve() != captions.resolve():
            raise WatchwordError(
                f"{run.name} and {runs[0].name} were trained on different captions: compare them separately"
            )
        captions_of = read_hypotheses(folder / f"predictions-{split}.json")
        words = dict(zip(captions_of, tokenise(list(captions_of.values())), strict=True))
        rows[run.name] = run.scores(split)["scores"], measure(words, count_words(people), training, rare)
    first = dict(zip(people, tokenise([own[0] for own in people.values()], context="line"), strict=True))
    others = {video: own[1:] for video, own in people.items()}
    rows["a person"] = {}, measure(first, count_words(others), training, rare)
    if as_json:
        print(json.dumps({name: {**scores, **asdict(found)} for name, (scores, found) in rows.items()}))
        return
    table = Table("", "METEOR", "CIDEr", *HEADINGS.values(), title=f"{split}, rare: at most {rare:.1%} of videos")
    for name, (scores, found) in rows.items():
        shown = [f"{100 * scores[key]:.1f}" if key in scores else "-" for key in ("METEOR", "CIDEr")]
        for key in HEADINGS:
            value = getattr(found, key)
            percent = key in ("rare_share", "rare_recall")
            shown.append(f"{value:.1%}" if percent else f"{value:.2f}" if isinstance(value, float) else f"{value:,}")
        table.add_row(name, *shown)
    wide_console().print(table)


AGREED = 0.5  # share of a video's references with a word, from which on a caption should have it


@dataclass(frozen=True)
class VocabStats:
    """Shares are 0..1."""

    captions: int  # different ones
    words: int  # different ones
    mean_length: float  # words per caption
    rare_words: int  # different rare ones
    rare_share: float  # of all tokens
    rare_recall: float  # of the rare words that references agree on, those in the caption
    spread: float  # entropy of the word frequencies, bits


def measure(
    said: Mapping[str, Sequence[str]],
    references: Mapping[str, "WordCounts"],
    training: Mapping[str, "WordCounts"],
    rare: float,
) -> VocabStats:
    """Of one tokenised caption for each video. A rare word occurs for at most this share of training videos."""
    from watchword.text.vocabulary import videos_with

    if not said:
        raise WatchwordError("there are no captions to measure")
    videos = videos_with(training)
    rarities = {word for word, count in videos.items() if count <= rare * len(training)}
    counts = Counter(word for words in said.values() for word in words)
    total = max(counts.total(), 1)
    wanted = [
        (video, word)
        for video in said
        for word, captions in references[video].captions.items()
        if word in rarities and captions >= AGREED * references[video].num_captions
    ]
    return VocabStats(
        captions=len({tuple(words) for words in said.values()}),
        words=len(counts),
        mean_length=counts.total() / len(said),
        rare_words=len(rarities & counts.keys()),
        rare_share=sum(counts[word] for word in rarities) / total,
        rare_recall=sum(word in said[video] for video, word in wanted) / len(wanted) if wanted else 0.0,
        spread=-sum(count / total * log2(count / total) for count in counts.values()),
    )


# --- the words of a corpus (Fig. 1a of Dong et al. 2018) -------------------------------------------------------------


SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)
BARS = 16


def word_frequency(
    captions: Annotated[Path, typer.Argument(help="A file or folder of captions.")],
    split: Annotated[str, typer.Option(help="The splits to count, separated by commas.")] = "train",
    min_count: Annotated[int, typer.Option(min=1, help="Leave out words with a smaller count.")] = 1,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A figure, .png or .pdf.")] = None,
    as_json: Json = False,
) -> None:
    """Show the share of the most frequent words in a corpus, and the number of videos with a word.

    watchword research word-frequency data/shapes --output words.png
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.text.vocabulary import count_words

    clips = [clip for clip in read_annotations(captions) if clip.split in split.split(",")]
    if not clips:
        raise WatchwordError(f"{captions} has no {split} videos")
    found = frequencies(count_words({clip.video: clip.captions for clip in clips}), min_count)
    if output is not None:
        save_figure(draw_frequencies(found), output)
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

    from watchword.text.vocabulary import videos_with

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


def draw_frequencies(found: dict[str, Any]) -> "Figure":
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
    from rich.table import Table

    from watchword.text.ptb import tokenise
    from watchword.training.run import Run

    found = {}
    for folder in runs:
        captions = [str(row["caption"]) for row in Run(folder).predictions(split)]
        found[folder.name] = pos_stats_of(tokenise(captions, context="line"))
    if output:
        save_figure(draw_parts(found), output)
    if as_json:
        print(json.dumps({name: asdict(one) | {"among_frequent": one.among_frequent} for name, one in found.items()}))
        return
    table = Table(title=f"{split}: words by part of speech", title_justify="left")
    for heading in ("", *(f"{part}s" for part in PARTS), "different", "frequent: verbs", "nouns"):
        table.add_column(heading, justify="left" if not heading else "right")
    for name, one in found.items():
        shares = (f"{one.shares[part]:.1%}" for part in PARTS)
        among = one.among_frequent
        frequent = (f"{among[part]} of {len(one.frequent)}" for part in ("verb", "noun"))
        table.add_row(name, *shares, str(one.different_words), *frequent)
    wide_console().print(table)


def draw_parts(found: dict[str, PosStats]) -> "Figure":
    """A chart for each run: bars of the frequent words, the shares of the parts of speech in its title."""
    figure = new_figure(4 * len(found), 6)
    for axes, (name, one) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
        words, parts, counts = zip(*one.frequent, strict=True) if one.frequent else ((), (), ())
        axes.barh(range(len(words)), counts, color=[COLOURS[part] for part in parts])
        axes.set_yticks(range(len(words)), words)
        axes.invert_yaxis()
        axes.set_title(f"{name}\n" + ", ".join(f"{part}s {one.shares[part]:.0%}" for part in PARTS), fontsize="medium")
    return figure
