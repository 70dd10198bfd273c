"""`watchword score`, `evaluate` and `compare`: captions against references, of files and of runs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from watchword.cli._shared import SCORES, Json, LengthPower, print_message, print_warning, score_table
from watchword.errors import WatchwordError

if TYPE_CHECKING:
    from watchword.metrics import Scores
    from watchword.metrics.statistics import Comparison, Diversity, Interval
    from watchword.training.evaluation import System
    from watchword.training.run import Run


def score(
    references: Annotated[Path, typer.Argument(help="captions.jsonl, COCO annotations or {id: \\[captions]}")],
    hypotheses: Annotated[Path, typer.Argument(help="COCO results, {id: caption} or JSON lines of video, caption")],
    split: Annotated[str | None, typer.Option(help="The split of captions.jsonl to score against.")] = None,
    allow_missing: Annotated[
        bool, typer.Option("--allow-missing", help="Score only the videos of both files.")
    ] = False,
    per_video: Annotated[Path | None, typer.Option(help="Write the scores of every video here, .json or .csv.")] = None,
    train: Annotated[Path | None, typer.Option(help="Training captions, to count new captions.")] = None,
    train_frequencies: Annotated[
        bool, typer.Option("--train-frequencies", help="Take CIDEr's document frequencies from --train.")
    ] = False,
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
    training = frequencies = None
    if train is not None:
        training = {video: tokenise(captions, "line") for video, captions in read_training(train).items()}
        frequencies = document_frequencies(training, train.name) if train_frequencies else None
    index = ReferenceIndex(known, frequencies)
    scores = index.score(said)
    old = [tokens for captions in training.values() for tokens in captions] if training is not None else None
    report = ScoreReport(scores, diversity(tokenise(list(said.values())), old))
    if bootstrap:
        report.intervals = intervals_of(scores, bootstrap)
    if against is not None:
        _, others = match(known, read_hypotheses(against), allow_missing=allow_missing)
        if len(others) < len(known):
            raise WatchwordError(f"{against} misses some of the {len(known)} videos: a paired test needs all of them")
        report.comparison = compare(scores, index.score(others), bootstrap or 1000)
    if per_video is not None:
        _write(per_video, scores)
    if not meteor_available():
        Console(stderr=True, highlight=False).print(f"[yellow]watchword:[/] {escape(NO_METEOR)}", soft_wrap=True)
    if as_json:
        print(json.dumps(report.values()))
        Console(stderr=True, highlight=False).print(report.signature, soft_wrap=True, markup=False)
    else:
        report.print()


@dataclass
class ScoreReport:
    """What `watchword score` prints."""

    scores: "Scores"
    diversity: "Diversity"
    intervals: "Mapping[str, Interval]" = field(default_factory=dict)  # by metric, with --bootstrap
    comparison: "Mapping[str, Comparison]" = field(default_factory=dict)  # by metric, with --against

    @property
    def signature(self) -> str:
        return "; ".join(f"{name}: {value}" for name, value in self.scores.signature.items())

    def values(self) -> dict[str, Any]:
        """For JSON."""
        values: dict[str, Any] = dict(self.scores.corpus)
        if self.intervals:
            values["intervals"] = {name: [each.low, each.high] for name, each in self.intervals.items()}
        if self.comparison:
            values["against"] = {name: asdict(each) for name, each in self.comparison.items()}
        if self.diversity.novel is not None:
            values["diversity"] = asdict(self.diversity)
        return values

    def print(self) -> None:
        console = Console(highlight=False)
        console.print(self._table())
        words = self.diversity
        novel = f", new to the training set {words.novel:.1%}" if words.novel is not None else ""
        console.print(
            f"words per caption {words.mean_length:.1f}, vocabulary {words.vocabulary}, "
            f"distinct-1 {words.distinct_1:.3f}, distinct-2 {words.distinct_2:.3f}, "
            f"distinct captions {words.different:.1%}{novel}",
            soft_wrap=True,
        )
        if self.comparison:
            console.print("difference to --against: paired bootstrap; p: approximate randomisation", soft_wrap=True)
        console.print(self.signature, soft_wrap=True, markup=False)

    def _table(self) -> Table:
        headings = ["95 % interval"] if self.intervals else []
        headings += ["difference", "95 % interval", "p"] if self.comparison else []
        table = Table("metric (x100)", "score", *headings)
        for name, value in self.scores.corpus.items():
            cells = [SCORES[name], f"{100 * value:.1f}"]
            if self.intervals:
                cells.append(f"{100 * self.intervals[name].low:.1f} to {100 * self.intervals[name].high:.1f}")
            if self.comparison:
                paired = self.comparison[name]
                cells.append(f"{100 * paired.difference:+.1f}")
                cells += [f"{100 * paired.low:+.1f} to {100 * paired.high:+.1f}", f"{paired.p_value:.3f}"]
            table.add_row(*cells)
        return table


def _write(path: Path, scores: "Scores") -> None:
    """One row for each video: JSON by id, or CSV when the file is called so."""
    import csv
    import io

    from watchword.atomic_io import write_whole
    from watchword.captioning.writers import plain_cell

    names = list(scores.per_video)
    rows = [(video, [float(scores.per_video[name][row]) for name in names]) for row, video in enumerate(scores.videos)]
    if path.suffix == ".csv":
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(
            [["video", *names], *([plain_cell(video), *row] for video, row in rows)]
        )
        content = text.getvalue()
    else:
        content = json.dumps({video: dict(zip(names, row, strict=True)) for video, row in rows}, indent=1)
    write_whole(path, content.encode("utf-8", "backslashreplace"))


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="A run folder; several form an ensemble.")],
    split: Annotated[str, typer.Option(help="The split to caption and score.")] = "val",
    beam: Annotated[int, typer.Option(min=1, help="Beam size; 1 is greedy decoding.")] = 5,
    length_power: LengthPower = 0.5,
    mbr_samples: Annotated[int, typer.Option(min=0, help="Samples of MBR decoding; 0: beam search alone.")] = 0,
    precision: Annotated[
        Literal["float32", "bfloat16"],
        typer.Option(help="Of products on the CPU; bfloat16 is faster on one that has it."),
    ] = "float32",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Folder of the results; default: the first run.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Caption the videos of a split and score the captions.

    Captions and scores are written into the run folder.

    watchword evaluate runs/shapes --split test

    watchword evaluate runs/a runs/b --split test --output runs/a+b
    """
    from rich.console import Console

    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar
    from watchword.data.benchmarks import share_text
    from watchword.precision import choose_precision
    from watchword.training.evaluation import Search
    from watchword.training.evaluation import evaluate as evaluate_runs
    from watchword.training.run import Run

    choose_precision(precision)  # refuses what this processor does not have
    loaded = [Run(folder) for folder in runs]
    for run in loaded:
        if place := run.unfinished():
            print_warning(f"the training of {run.folder} is not finished ({place}): its best weights so far are scored")
    search = Search(beam, length_power, loaded[0].recipe.data.max_words, mbr_samples, precision)
    with bar(transient=True) as progress:
        task = progress.add_task(f"captioning {split}", total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        result = evaluate_runs(loaded, split, search, report=report)
    folder = output or runs[0]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise WatchwordError(f"cannot write into {folder}: {error.strerror}; is it a folder?") from error
    write_whole(folder / f"predictions-{split}.json", result.predictions_json())
    write_whole(folder / f"scores-{split}.json", result.scores_json())
    if as_json:
        print(json.dumps(result.scores.corpus))
    else:
        how = f"beam {beam}" + (f", {mbr_samples} MBR samples" if mbr_samples else "")
        console = Console(highlight=False)
        console.print(score_table({"+".join(result.runs): result.scores.corpus}, f"{split}, {how}"))
        console.print(f"{split} {share_text(result.data)} videos, data {result.data['sha256']}")
        console.print(f"captions in {folder / f'predictions-{split}.json'}")


SHOWN = ("Bleu_4", "METEOR", "ROUGE_L", "CIDEr")


def compare(
    runs: Annotated[list[Path], typer.Argument(help="Evaluated run folders.")],
    split: Annotated[str, typer.Option(help="The split to compare.")] = "test",
    intervals: Annotated[
        bool,
        typer.Option(
            "--intervals", help="Average runs that differ in seed only; 95 % intervals; differences to the first."
        ),
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    as_json: Json = False,
) -> None:
    """Compare the scores of runs, and those of the papers.

    watchword compare runs/mean_pool runs/soft_attention --split test

    watchword compare runs/a_1 runs/a_2 runs/b_1 runs/b_2 --intervals
    """
    from watchword.training.run import Run

    rows: Any
    found = [Run(folder) for folder in runs]
    _warn_of_data(found, split)
    if intervals:
        from watchword.training.evaluation import read_systems

        systems = read_systems(found, split)
        table, rows = _system_table(systems, split), [_system_json(each, systems[0]) for each in systems]
    else:
        scores = _scores(found, split)
        table, rows = score_table(scores, split), scores
    if as_json:
        print(json.dumps(rows))
    else:
        _print_table(table, markdown)
        for line in _data_lines(found, split):
            typer.echo(line)


def _print_table(table: "Table", markdown: bool) -> None:
    from rich.box import MARKDOWN
    from rich.console import Console

    if not markdown:
        Console().print(table)
        return
    table.title, table.box = None, MARKDOWN
    Console(width=400, highlight=False).print(table)


def _scores(runs: Sequence["Run"], split: str) -> dict[str, dict[str, float]]:
    rows: dict[str, dict[str, float]] = {}
    for run in runs:
        kept = run.scores(split)
        rows[f"{run.name} (beam {kept.get('beam', '?')})"] = kept["scores"]
        if (run.folder / "recipe.toml").exists() and run.recipe.published:
            rows[f"{run.name}: published"] = run.recipe.published
    return rows


def _system_table(systems: Sequence["System"], split: str) -> "Table":
    from rich.table import Table

    table = Table(title=f"{split} (x100); intervals and differences are CIDEr's", title_justify="left")
    for heading in ("", "seeds", *(SCORES[metric] for metric in SHOWN), "95 % interval", "by seed", "difference"):
        table.add_column(heading, justify="left" if not heading else "right")
    first, by = systems[0], "CIDEr"
    for system in systems:
        own = system.estimate(by)
        cells = [f"{100 * system.mean(metric):.1f}" if metric in system.metrics else "-" for metric in SHOWN]
        cells += [f"{100 * own.low:.1f} to {100 * own.high:.1f}"]
        cells += [", ".join(f"{100 * value:.1f}" for value in system.of_seeds(by))]
        paired = system.minus(first, by)
        against = f"{100 * paired.value:+.1f} ({100 * paired.low:+.1f} to {100 * paired.high:+.1f})"
        table.add_row(system.name, _listed(system.seeds), *cells, "" if system is first else against)
    return table


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _system_json(system: "System", first: "System") -> dict[str, Any]:
    return {
        "system": system.name,
        "seeds": system.seeds,
        "scores": {metric: asdict(system.estimate(metric)) for metric in system.metrics},
        "by_seed": {metric: system.of_seeds(metric) for metric in system.metrics},
        "difference": {metric: asdict(system.minus(first, metric)) for metric in system.metrics},
    }


def _warn_of_data(runs: Sequence["Run"], split: str) -> None:
    """Warnings where the runs' test or training data differ."""
    if len(set(_data_of(runs, split).values())) > 1:
        print_message("warning: scored on different data, the figures do not compare")
    elif len({run.scores(split)["data"]["trained_on"] for run in runs if "data" in run.scores(split)}) > 1:
        print_message("warning: trained on different data")


def _data_lines(runs: Sequence["Run"], split: str) -> list[str]:
    """What the scores stand on: one line where it is the same data, else one of each run."""
    lines = _data_of(runs, split)
    if len(set(lines.values())) > 1:
        return [f"{name}: {line}" for name, line in lines.items()]
    return sorted(set(lines.values()))


def _data_of(runs: Sequence["Run"], split: str) -> dict[str, str]:
    from watchword.data.benchmarks import share_text

    kept = {run.name: run.scores(split).get("data") for run in runs}
    return {name: f"{split} {share_text(data)} videos, data {data['sha256']}" for name, data in kept.items() if data}
