"""`watchword evaluate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from watchword.cli._shared import Json, LengthPower, print_warning, score_table
from watchword.errors import WatchwordError


def evaluate(
    runs: Annotated[list[Path], typer.Argument(help="A run folder; several form an ensemble.")],
    split: Annotated[str, typer.Option(help="The split to caption and score.")] = "val",
    beam: Annotated[int, typer.Option(min=1, help="Beam size; 1 is greedy decoding.")] = 5,
    length_power: LengthPower = 0.5,
    mbr_samples: Annotated[int, typer.Option(min=0, help="Samples of MBR decoding; 0: beam search alone.")] = 0,
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
    from watchword.training.evaluation import Search
    from watchword.training.evaluation import evaluate as evaluate_runs
    from watchword.training.run import Run

    loaded = [Run(folder) for folder in runs]
    for run in loaded:
        if place := run.unfinished():
            print_warning(f"the training of {run.folder} is not finished ({place}): its best weights so far are scored")
    search = Search(beam, length_power, loaded[0].recipe.data.max_words, mbr_samples)
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
