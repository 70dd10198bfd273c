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
) -> None:
    """Train a captioner: a recipe becomes a run folder.

    Several processes or GPUs: accelerate launch -m watchword train RECIPE ...
    """
    from watchword.app.progress import console, training_bar
    from watchword.config import read_recipe
    from watchword.training import loop

    if (recipe is None) == (resume is None):
        raise WatchwordError("say either a recipe, as in watchword train recipes/shapes.toml, or --resume RUN")
    with training_bar() as report:
        if resume is not None:
            run = loop.resume(resume, report)
        else:
            assert recipe is not None
            run = loop.train(read_recipe(recipe, words or ()), output or Path("runs") / recipe.stem, report)
    console.print(f"best weights in {run.folder}; next: watchword evaluate {run.folder} --split test")
