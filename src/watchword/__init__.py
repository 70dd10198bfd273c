"""Watchword describes what happens in a video.

Importing the package is fast: torch is loaded by the functions that need it.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from watchword.errors import DiskFull, VideoMissing, VideoUnreadable, WatchwordError, WeightsMissing

if TYPE_CHECKING:
    from watchword.captioning.captioner import Captioner
    from watchword.captioning.description import Description
    from watchword.library import Hit, Library
    from watchword.metrics import Scores
    from watchword.training import Run
    from watchword.video.inputs import VideoInput

__version__ = "0.1.0"
__all__ = [
    "DiskFull",
    "Library",
    "VideoMissing",
    "VideoUnreadable",
    "WatchwordError",
    "WeightsMissing",
    "describe",
    "describe_many",
    "load",
    "score",
    "search",
    "train",
]

# Threads of torch sleep while they wait for each other: spinning is hardly faster on idle cores, and on busy ones it
# costs several times the CPU seconds. Read when torch is loaded; a value that the user sets is kept.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")


def train(recipe: str | Path, *words: str, output: str | Path | None = None) -> "Run":
    """Trains a recipe, shipped or your own file, with `key=value` settings over it, into runs/RECIPE or `output`."""
    from watchword.config import find_recipe, read_recipe, recipe_name
    from watchword.training import train as train_recipe

    path = find_recipe(recipe)
    return train_recipe(read_recipe(path, words), Path(output) if output else Path("runs") / recipe_name(path))


def describe(
    video: "VideoInput",
    captioner: "str | Path | Captioner | None" = None,
    *,
    top: int = 1,
    beam: int = 5,
    min_confidence: float = 0.0,
    timeline: bool | None = None,
    rate: float | None = None,
    device: str = "cpu",
    speech: bool = False,
    text: bool = False,
    sounds: bool = False,
    speech_model: str = "",
    language: str = "",
) -> "Description":
    """Captions a video: its caption, confidence, alternatives, segments, and the attention of each word.

    `video` is a path, bytes, a file object, or an array of frames (F, H, W, 3) with their `rate` a second. `captioner`
    is a run, a shipped captioner's name, or the result of `load`; by default the best one. A video of more than 40
    seconds becomes a timeline, unless `timeline` says otherwise. `top` captions for each segment; segments whose best
    caption has less than `min_confidence` are left out. `device`: `cpu`, `cuda`, `cuda:1`, or `auto`. `speech`, `text`
    and `sounds` also read what is said, written on screen and heard; `speech_model` and `language` are for the speech.
    """
    from watchword.captioning.pipeline import DescribeOptions

    options = DescribeOptions.of(
        top=top,
        beam=beam,
        timeline=timeline,
        min_confidence=min_confidence,
        speech=speech,
        text=text,
        sounds=sounds,
        speech_model=speech_model,
        language=language,
    )
    return _loaded(captioner, device).describe_input(video, options, rate)


@overload
def describe_many(
    videos: "Iterable[VideoInput]",
    captioner: "str | Path | Captioner | None" = None,
    *,
    workers: int = 1,
    device: str = "cpu",
    return_errors: Literal[False] = False,
    **options: Any,
) -> "Iterator[Description]": ...


@overload
def describe_many(
    videos: "Iterable[VideoInput]",
    captioner: "str | Path | Captioner | None" = None,
    *,
    workers: int = 1,
    device: str = "cpu",
    return_errors: Literal[True],
    **options: Any,
) -> "Iterator[Description | WatchwordError]": ...


def describe_many(
    videos: "Iterable[VideoInput]",
    captioner: "str | Path | Captioner | None" = None,
    *,
    workers: int = 1,
    device: str = "cpu",
    return_errors: bool = False,
    rate: float | None = None,
    **options: Any,
) -> "Iterator[Description | WatchwordError]":
    """Descriptions of many videos, in their order, each as soon as it and those before it are done.

    `workers` processes share the work. An error ends the iteration, unless `return_errors`: then it takes the place of
    the video's description. `options`: `top`, `beam`, `min_confidence`, `timeline` and those of the lanes, as
    `describe` has them.
    """
    from watchword.captioning.many import describe_many as describe_all
    from watchword.captioning.pipeline import DescribeOptions

    for found in describe_all(videos, _loaded(captioner, device), DescribeOptions.of(**options), workers, rate):
        if isinstance(found, WatchwordError) and not return_errors:
            raise found
        yield found


def _loaded(captioner: "str | Path | Captioner | None", device: str) -> "Captioner":
    from watchword.captioning.captioner import Captioner

    return captioner if isinstance(captioner, Captioner) else Captioner.load(captioner, device=device)


def load(captioner: str | Path | None = None, store: str | Path | None = None, *, device: str = "cpu") -> "Captioner":
    """A captioner: a run, a shipped captioner's name, or the default one, whose backbone is downloaded once.

    Of a run, `caption_stored` captions videos whose features are in the run's store, or in another `store`.
    """
    from watchword.captioning.captioner import Captioner

    return Captioner.load(captioner, Path(store) if store else None, device)


def score(references: Mapping[str, Sequence[str]], hypotheses: Mapping[str, str]) -> "Scores":
    """BLEU, METEOR (where its tables are), ROUGE-L and CIDEr-D, as coco-caption computes them."""
    from watchword.metrics import ReferenceIndex

    return ReferenceIndex(references).score(hypotheses)


def search(words: str, *, limit: int = 20, library: str | Path | None = None) -> "list[Hit]":
    """Segments of the library whose captions match, the best first, as `watchword search` finds them."""
    from watchword.library import Library

    return Library(library).search(words, limit=limit)


def __getattr__(name: str) -> Any:
    """`watchword.Library`, imported when it is first used."""
    if name == "Library":
        from watchword.library import Library

        return Library
    raise AttributeError(f"module 'watchword' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
