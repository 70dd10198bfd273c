"""`watchword diction`: which words runs dare to say."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

HEADINGS = {
    "sentences": "sentences", "words": "words", "mean_length": "length", "rare_words": "rare words",
    "rare_share": "rare share", "rare_recall": "rare recall", "spread": "spread",
}  # fmt: skip


def diction(
    runs: Annotated[list[Path], typer.Argument(help="Run folders that watchword evaluate has been over.")],
    split: Annotated[str, typer.Option(help="The split that was described.")] = "test",
    rare: Annotated[float, typer.Option(min=0.0, max=1.0, help="Rare: of at most this share of train videos.")] = 0.02,
    as_json: Annotated[bool, typer.Option("--json", help="Print the table for a program.")] = False,
) -> None:
    """Put the words of runs side by side: how many there are, how many of them rare, and whether in the right place.

    The last row is a person: the first caption of every video, held against the others.

    watchword diction runs/cross_entropy runs/information
    """
    from rich.console import Console
    from rich.table import Table

    from watchword.data.annotations import read_annotations
    from watchword.data.benchmarks import captions_path
    from watchword.errors import WatchwordError
    from watchword.metrics.files import read_hypotheses
    from watchword.research.analysis.vocab_counts import diction as measure
    from watchword.text.counts import count_words
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
            raise WatchwordError(f"{run.name} and {runs[0].name} were trained on other captions: compare them apart")
        said = read_hypotheses(folder / f"predictions-{split}.json")
        words = dict(zip(said, tokenise(list(said.values())), strict=True))
        rows[run.name] = run.scores(split)["scores"], measure(words, count_words(people), training, rare)
    first = dict(zip(people, tokenise([own[0] for own in people.values()], context="line"), strict=True))
    others = {video: own[1:] for video, own in people.items()}
    rows["a person"] = {}, measure(first, count_words(others), training, rare)
    if as_json:
        print(json.dumps({name: {**scores, **asdict(found)} for name, (scores, found) in rows.items()}))
        return
    table = Table("", "METEOR", "CIDEr", *HEADINGS.values(), title=f"{split}, rare: {rare:.1%} of videos at most")
    for name, (scores, found) in rows.items():
        shown = [f"{100 * scores[key]:.1f}" if key in scores else "-" for key in ("METEOR", "CIDEr")]
        for key in HEADINGS:
            value = getattr(found, key)
            percent = key in ("rare_share", "rare_recall")
            shown.append(f"{value:.1%}" if percent else f"{value:.2f}" if isinstance(value, float) else f"{value:,}")
        table.add_row(name, *shown)
    Console().print(table)
