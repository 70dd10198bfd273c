"""Watchword describes what happens in a video.

Importing the package is fast: torch is loaded by the functions that need it.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from watchword.errors import VideoMissing, VideoUnreadable, WatchwordError, WeightsMissing

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.captioning.description import Description
    from watchword.library import Hit
    from watchword.metrics import Scores
    from watchword.training import Run

__version__ = "0.1.0"
__all__ = [
    "VideoMissing",
    "VideoUnreadable",
    "WatchwordError",
    "WeightsMissing",
    "describe",
    "load",
    "score",
    "search",
    "train",
]

# Threads of torch sleep while they wait for each other: spinning is hardly faster on idle cores, and on busy ones it
# costs several times the CPU seconds. Read when torch is loaded; whoever sets the variable decides.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def train(recipe: str | Path, *words: str, output: str | Path | None = None) -> "Run":
    """Trains a recipe, with `key=value` settings over it. The default run folder is runs/RECIPE."""
    from watchword.config import read_recipe
    from watchword.training import train as train_recipe

    path = Path(recipe)
    return train_recipe(read_recipe(path, words), Path(output) if output else Path("runs") / path.stem)


def describe(
    video: str | Path,
    captioner: "str | Path | Captioner | None" = None,
    *,
    top: int = 1,
    beam: int = 5,
    min_confidence: float = 0.0,
    timeline: bool | None = None,
    speech: bool = False,
    text: bool = False,
    sounds: bool = False,
    speech_model: str = "",
    language: str = "",
) -> "Description":
    """Captions a video: its caption, confidence, alternatives, segments, and the attention of each word.

    `captioner` is a run, a shipped captioner's name, or the result of `load`; by default the best one whose backbones
    are installed. A video of more than 40 seconds becomes a timeline, unless `timeline` says otherwise. `top` captions
    for each segment; segments whose best caption has less than `min_confidence` are left out. `speech`, `text` and
    `sounds` also read what is said, written on screen and heard; `speech_model` and `language` are for the speech.
    """
    from watchword.captioning.captioner import Captioner
    from watchword.lanes import LaneOptions

    loaded = captioner if isinstance(captioner, Captioner) else Captioner.load(captioner)
    lanes = LaneOptions(speech, text, sounds, speech_model, language)
    return loaded.describe(video, top=top, beam=beam, min_confidence=min_confidence, timeline=timeline, lanes=lanes)


def load(captioner: str | Path | None = None, store: str | Path | None = None) -> "Captioner":
    """A captioner: a run, a shipped captioner's name, or the best one whose backbones are installed.

    Of a run, `caption_stored` captions videos whose features are in the run's store, or in another `store`.
    """
    from watchword.captioning.captioner import Captioner

    return Captioner.load(captioner, Path(store) if store else None)


def score(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> "Scores":
    """BLEU, METEOR (where its tables are), ROUGE-L and CIDEr-D, as coco-caption computes them."""
    from watchword.metrics import ReferenceIndex

    return ReferenceIndex(references).score(hypotheses)


def search(words: str, *, limit: int = 20, library: str | Path | None = None) -> "list[Hit]":
    """Segments of the library whose captions match, the best first, as `watchword search` finds them."""
    from watchword.library import Library, default_path

    return Library(Path(library) if library else default_path()).search(words, limit=limit)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
