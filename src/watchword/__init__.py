"""Watchword watches a video and finds the words for it.

The public door. Importing it is quick: torch is loaded by the functions that need it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchword.captioning.captioner import Describer
    from watchword.captioning.description import Description
    from watchword.metrics import Scores
    from watchword.training import Run

__version__ = "0.1.0"
__all__ = ["describe", "load", "score", "train"]


def train(recipe: str | Path, *words: str, output: str | Path | None = None) -> "Run":
    """Trains a recipe with `key=value` words over it; the run folder is runs/RECIPE if not given."""
    from watchword.config import read_recipe
    from watchword.training import train as train_recipe

    path = Path(recipe)
    return train_recipe(read_recipe(path, words), Path(output) if output else Path("runs") / path.stem)


def describe(
    film: str | Path,
    captioner: "str | Path | Describer | None" = None,
    *,
    top: int = 1,
    beam: int = 5,
    at_least: float = 0.0,
    timeline: bool | None = None,
) -> "Description":
    """What is to be seen in a film: its sentence, confidence, alternatives, shots, and where each word looked.

    `captioner` is a run, a shipped captioner's name, or what `load` returned; without one, the best that can work here.
    A film of more than 40 seconds becomes a timeline unless `timeline` says otherwise. `top` sentences for each shot;
    a shot whose best is less sure than `at_least` is left out.
    """
    from watchword.captioning.captioner import Describer

    describer = captioner if isinstance(captioner, Describer) else Describer.open(captioner)
    return describer.describe(film, top=top, beam=beam, at_least=at_least, timeline=timeline)


def load(captioner: str | Path | None = None, store: str | Path | None = None) -> "Describer":
    """A captioner, ready to describe films: a run, a shipped captioner's name, or the best that can work here.

    Of a run it also describes videos whose features are in the run's store, or in another `store`.
    """
    from watchword.captioning.captioner import Describer

    return Describer.open(captioner, Path(store) if store else None)


def score(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> "Scores":
    """BLEU, METEOR (where its tables are), ROUGE-L and CIDEr-D, as coco-caption computes them."""
    from watchword.metrics import ReferenceIndex

    return ReferenceIndex(references).score(hypotheses)
