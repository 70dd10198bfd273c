"""Watchword watches a video and finds the words for it.

The public door. Importing it is quick: torch is loaded by the functions that need it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchword.metrics import Scores
    from watchword.training import Run
    from watchword.training.captioner import LoadedCaptioner

__version__ = "0.1.0"
__all__ = ["load", "score", "train"]


def train(recipe: str | Path, *words: str, output: str | Path | None = None) -> "Run":
    """Trains a recipe with `key=value` words over it; the run folder is runs/RECIPE if not given."""
    from watchword.config import read_recipe
    from watchword.training import train as train_recipe

    path = Path(recipe)
    return train_recipe(read_recipe(path, words), Path(output) if output else Path("runs") / path.stem)


def load(run: str | Path, store: str | Path | None = None) -> "LoadedCaptioner":
    """The best weights of a run, ready to describe videos whose features are in its store, or in another."""
    from watchword.training.captioner import LoadedCaptioner

    return LoadedCaptioner.load(Path(run), Path(store) if store else None)


def score(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> "Scores":
    """BLEU, METEOR (where its tables are), ROUGE-L and CIDEr-D, as coco-caption computes them."""
    from watchword.metrics import ReferenceIndex

    return ReferenceIndex(references).score(hypotheses)
