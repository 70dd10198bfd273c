"""`watchword research vocab-stats`: the vocabulary of captions, and rare words in it."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import log2
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Json
from watchword.errors import WatchwordError
from watchword.text.counts import WordCounts, count_words, videos_with

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
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.data.benchmarks import captions_path
    from watchword.metrics.files import read_hypotheses
    from watchword.text.ptb import tokenise
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
    Console().print(table)


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
    references: Mapping[str, WordCounts],
    training: Mapping[str, WordCounts],
    rare: float,
) -> VocabStats:
    """Of one tokenised caption for each video. A rare word occurs for at most this share of training videos."""
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
