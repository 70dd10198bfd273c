"""`watchword evaluate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.errors import WatchwordError


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="A run folder; several are averaged as an ensemble.")],
    split: Annotated[str, typer.Option(help="The split that is described and scored.")] = "val",
    beam: Annotated[int, typer.Option(min=1, help="Sentences kept in the search; 1 is greedy.")] = 5,
    length_power: Annotated[float, typer.Option(min=0.0, max=5.0, help="Scores are divided by words ** this.")] = 0.5,
    votes: Annotated[int, typer.Option(min=0, help="So many possible sentences elect one; 0: the beam's best.")] = 0,
    output: Annotated[Path | None, typer.Option(help="Where results go; the (first) run folder if not given.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores for a program.")] = False,
) -> None:
    """Describe every video of a split and score it: predictions and scores into the run folder.

    watchword evaluate runs/shapes --split test

    watchword evaluate runs/a runs/b --split test --output runs/a+b
    """
    from watchword.atomic_io import write_whole
    from watchword.cli._progress import bar, console
    from watchword.cli._tables import score_table
    from watchword.data.benchmarks import share_text
    from watchword.training.evaluation import Search
    from watchword.training.evaluation import evaluate as evaluate_runs
    from watchword.training.run import Run

    loaded = [Run(folder) for folder in runs]
    search = Search(beam, length_power, loaded[0].recipe.data.max_words, votes)
    with bar(transient=True) as progress:
        task = progress.add_task(f"describing {split}", total=None)

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
        how = f"beam {beam}" + (f", {votes} votes" if votes else "")
        console.print(score_table({"+".join(result.runs): result.scores.corpus}, f"{split}, {how}"))
        console.print(f"{split} {share_text(result.data)} videos, data {result.data['sha256']}")
        console.print(f"captions in {folder / f'predictions-{split}.json'}")
