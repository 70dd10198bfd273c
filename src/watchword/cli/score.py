"""`watchword score`: captions against references."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from watchword.cli._shared import SCORES, Json
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.metrics import Scores


def score(
    references: Annotated[Path, typer.Argument(help="captions.jsonl, COCO annotations or {id: \\[captions]}")],
    hypotheses: Annotated[Path, typer.Argument(help="COCO results, {id: caption} or JSON lines of video, caption")],
    split: Annotated[str | None, typer.Option(help="The split of captions.jsonl to score against.")] = None,
    allow_missing: Annotated[bool, typer.Option(help="Score only the videos of both files.")] = False,
    per_video: Annotated[Path | None, typer.Option(help="Write the scores of every video here, .json or .csv.")] = None,
    train: Annotated[Path | None, typer.Option(help="Training captions, to count new captions.")] = None,
    train_frequencies: Annotated[bool, typer.Option(help="Take CIDEr's document frequencies from --train.")] = False,
    bootstrap: Annotated[int, typer.Option(help="Bootstrap samples for 95 % intervals.")] = 0,
    against: Annotated[Path | None, typer.Option(help="Other hypotheses, for a paired test.")] = None,
    as_json: Json = False,
) -> None:
    """Score captions by BLEU, METEOR, ROUGE-L and CIDEr-D.

    The scores are those of coco-caption; Java is not needed.

    watchword score captions.jsonl predictions.json --split test
    """
    from watchword.atomic_io import check_outputs
    from watchword.metrics import NO_METEOR, ReferenceIndex, document_frequencies, meteor_available, tokenise
    from watchword.metrics.files import match, read_hypotheses, read_references, read_training
    from watchword.metrics.statistics import bootstrap as intervals_of
    from watchword.metrics.statistics import compare, diversity

    if train_frequencies and train is None:
        raise WatchwordError("--train-frequencies needs the training captions: add --train FILE")
    if bootstrap < 0:
        raise WatchwordError(f"--bootstrap {bootstrap}: expected a number of samples such as 1000")
    if per_video is not None:
        check_outputs([per_video], [path for path in (references, hypotheses, train, against) if path])
    known, said = match(read_references(references, split), read_hypotheses(hypotheses), allow_missing=allow_missing)
    training = None
    frequencies = None
    if train is not None:
        captions = read_training(train)
        training = {video: tokenise(sentences, "line") for video, sentences in captions.items()}
        if train_frequencies:
            frequencies = document_frequencies(training, str(train.name))
    index = ReferenceIndex(known, frequencies)
    scores = index.score(said)
    language = diversity(
        tokenise(list(said.values())),
        [tokens for sentences in training.values() for tokens in sentences] if training is not None else None,
    )
    intervals = intervals_of(scores, bootstrap) if bootstrap else {}
    comparison = {}
    if against is not None:
        _, others = match(known, read_hypotheses(against), allow_missing=allow_missing)
        if len(others) < len(known):
            raise WatchwordError(f"{against} misses some of the {len(known)} videos: a paired test needs all of them")
        comparison = compare(scores, index.score(others), bootstrap or 1000)
    if per_video is not None:
        _write(per_video, scores)
    if not meteor_available():
        Console(stderr=True, highlight=False).print(f"[yellow]watchword:[/] {escape(NO_METEOR)}", soft_wrap=True)
    if as_json:
        answer: dict[str, Any] = dict(scores.corpus)
        if bootstrap:
            answer["intervals"] = {name: [each.low, each.high] for name, each in intervals.items()}
        if comparison:
            answer["against"] = {name: asdict(each) for name, each in comparison.items()}
        if train is not None:
            answer["diversity"] = asdict(language)
        print(json.dumps(answer))
        signature = "; ".join(f"{name}: {value}" for name, value in scores.signature.items())
        Console(stderr=True, highlight=False).print(signature, soft_wrap=True, markup=False)
        return
    table = Table(
        "metric (x100)",
        "score",
        *(["95 % interval"] if intervals else []),
        *(["difference", "95 % interval", "p"] if comparison else []),
    )
    for name, value in scores.corpus.items():
        cells = [SCORES[name], f"{100 * value:.1f}"]
        if intervals:
            cells.append(f"{100 * intervals[name].low:.1f} to {100 * intervals[name].high:.1f}")
        if comparison:
            paired = comparison[name]
            cells.append(f"{100 * paired.difference:+.1f}")
            cells += [f"{100 * paired.low:+.1f} to {100 * paired.high:+.1f}", f"{paired.p_value:.3f}"]
        table.add_row(*cells)
    console = Console(highlight=False)
    console.print(table)
    console.print(
        f"words per caption {language.mean_length:.1f}, vocabulary {language.vocabulary}, "
        f"distinct-1 {language.distinct_1:.3f}, distinct-2 {language.distinct_2:.3f}, "
        f"distinct captions {language.different:.1%}"
        + (f", new to the training set {language.novel:.1%}" if language.novel is not None else ""),
        soft_wrap=True,
    )
    if comparison:
        console.print("difference to --against: paired bootstrap; p: approximate randomisation", soft_wrap=True)
    signature = "; ".join(f"{name}: {value}" for name, value in scores.signature.items())
    console.print(signature, soft_wrap=True, markup=False)


def _write(path: Path, scores: "Scores") -> None:
    """One row for each video: JSON by id, or CSV when the file is called so."""
    import csv
    import io

    names = list(scores.per_video)
    rows = [(video, [float(scores.per_video[name][row]) for name in names]) for row, video in enumerate(scores.videos)]
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows([["video", *names], *([video, *row] for video, row in rows)])
        content = text.getvalue()
    else:
        content = json.dumps({video: dict(zip(names, row, strict=True)) for video, row in rows}, indent=1)
    try:
        path.write_text(content, "utf-8", errors="backslashreplace")
    except OSError as error:
        raise WatchwordError(f"cannot write {path}: {error.strerror or error}") from error
