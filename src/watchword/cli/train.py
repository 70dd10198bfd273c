"""`watchword train`."""

from pathlib import Path
from typing import Annotated

import typer

from watchword.errors import WatchwordError


def train(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe, for example recipes/shapes.toml")] = None,
    words: Annotated[list[str] | None, typer.Argument(help="key=value words over it: model.hidden_size=256")] = None,
    output: Annotated[Path | None, typer.Option(help="The run folder; default: runs/RECIPE.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Continue the run in this folder.")] = None,
    videos: Annotated[Path | None, typer.Option(help="Own data: the folder of your videos, and ...")] = None,
    captions: Annotated[Path | None, typer.Option(help="... their captions: a table video,caption.")] = None,
    start: Annotated[
        str | None, typer.Option(help="Own data: the captioner to fine-tune; none: train from scratch.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Own data: the maximum number of epochs.")] = 20,
) -> None:
    """Train a captioner from a recipe, or on your own videos.

    watchword train recipes/shapes.toml

    watchword train --videos videos/ --captions captions.csv

    Several processes or GPUs: accelerate launch -m watchword train RECIPE ...
    """
    if videos is not None or captions is not None:
        if videos is None or captions is None or recipe is not None or resume is not None:
            raise WatchwordError("own data needs two options: watchword train --videos videos/ --captions captions.csv")
        return train_own_data(videos, captions, output or Path("runs") / "own", start, epochs)

    from watchword.cli._progress import console, training_bar
    from watchword.config import read_recipe
    from watchword.training import loop

    if (recipe is None) == (resume is None):
        raise WatchwordError(
            "name a recipe, as in watchword train recipes/shapes.toml, or --resume RUN, or --videos and --captions"
        )
    with training_bar() as report:
        if resume is not None:
            run = loop.resume(resume, report)
        else:
            assert recipe is not None
            run = loop.train(read_recipe(recipe, words or ()), output or Path("runs") / recipe.stem, report)
    console.print(f"best weights in {run.folder}; next: watchword evaluate {run.folder} --split test")


def train_own_data(videos: Path, captions: Path, output: Path, start: str | None, epochs: int) -> None:
    """Extract, split, fine-tune, evaluate."""
    from watchword.captioning.bundle import FOR_TRAINING, find_bundle, shipped
    from watchword.cli._progress import console
    from watchword.cli.evaluate import evaluate
    from watchword.cli.own_data import OwnData, train_own

    begin = None
    if start != "none" and (start or FOR_TRAINING in shipped()):
        begin = find_bundle(start or FOR_TRAINING)
        console.print(f"starting from the captioner {begin.name}")
    run = train_own(OwnData(videos, captions, output, begin, epochs))
    split = "test" if run.seen["splits"].get("test") else "val"
    evaluate([run.folder], split=split)
    console.print(f"try it: watchword describe clip.mp4 --model {run.folder}")
