"""`watchword train`."""

from pathlib import Path
from typing import Annotated

import typer

from watchword.errors import WatchwordError


def train(
    recipe: Annotated[Path | None, typer.Argument(help="A recipe, for example recipes/shapes.toml")] = None,
    words: Annotated[list[str] | None, typer.Argument(help="key=value words over it: model.hidden_size=256")] = None,
    output: Annotated[Path | None, typer.Option(help="The run folder; runs/RECIPE if not given.")] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this folder, by its own recipe.")] = None,
    videos: Annotated[Path | None, typer.Option(help="Own data: the folder with your films, and ...")] = None,
    captions: Annotated[Path | None, typer.Option(help="... what is seen in them: a table video,caption.")] = None,
    start: Annotated[str | None, typer.Option(help="Own data: a captioner to begin with; none: nothing.")] = None,
    epochs: Annotated[int, typer.Option(min=1, help="Own data: at most so many passes over the captions.")] = 20,
) -> None:
    """Train a captioner: a recipe becomes a run folder, or films and captions of your own do.

    watchword train recipes/shapes.toml

    watchword train --videos videos/ --captions captions.csv

    Several processes or GPUs: accelerate launch -m watchword train RECIPE ...
    """
    if videos is not None or captions is not None:
        if videos is None or captions is None or recipe is not None or resume is not None:
            raise WatchwordError("own data are two things: watchword train --videos videos/ --captions captions.csv")
        return train_own_data(videos, captions, output or Path("runs") / "own", start, epochs)

    from watchword.cli._progress import console, training_bar
    from watchword.config import read_recipe
    from watchword.training import loop

    if (recipe is None) == (resume is None):
        raise WatchwordError(
            "say either a recipe, as in watchword train recipes/shapes.toml, --resume RUN, or --videos and --captions"
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
    from watchword.captioning.bundle import FOR_TRAINING, find_captioner, shipped
    from watchword.cli._progress import console
    from watchword.cli.evaluate import evaluate
    from watchword.cli.own_data import OwnData, train_own

    begin = None
    if start != "none" and (start or FOR_TRAINING in shipped()):
        begin = find_captioner(start or FOR_TRAINING)
        console.print(f"beginning with the captioner {begin.name}")
    run = train_own(OwnData(videos, captions, output, begin, epochs))
    split = "test" if run.seen["splits"].get("test") else "val"
    evaluate([run.folder], split=split)
    console.print(f"describe with it: watchword describe clip.mp4 --model {run.folder}")
