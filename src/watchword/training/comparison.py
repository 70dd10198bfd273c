"""Systems side by side: runs of one recipe under several seeds are one system.

Two kinds of noise stand between a difference and a claim. Other videos would give other scores: a 95 % bootstrap
interval over videos, of scores that are averaged over the seeds. Other seeds would too: the range of the runs' scores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from watchword.data.annotations import read_annotations
from watchword.data.benchmarks import captions_path
from watchword.errors import WatchwordError
from watchword.metrics import ReferenceIndex, Scores
from watchword.metrics.statistics import Floats, draw_videos, resampled
from watchword.training.run import Run

SAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A score, or a difference of two, and the middle 95 % of what resampled sets of videos give."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class System:
    """Runs that differ in nothing but their seed, each scored on the same videos."""

    name: str
    seeds: tuple[int, ...]
    scores: tuple[Scores, ...]  # one of each seed

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(self.scores[0].corpus)

    def of_seeds(self, metric: str) -> tuple[float, ...]:
        return tuple(scores.corpus[metric] for scores in self.scores)

    def mean(self, metric: str) -> float:
        return float(np.mean(self.of_seeds(metric)))

    @cached_property
    def samples(self) -> dict[str, Floats]:
        """Scores of resampled sets of videos, averaged over the seeds: name -> (SAMPLES,). Systems share the sets."""
        draws = draw_videos(len(self.scores[0].videos), SAMPLES, seed=0)
        of_seeds = [resampled(scores, draws) for scores in self.scores]
        return {metric: np.mean([totals[metric] for totals in of_seeds], axis=0) for metric in self.metrics}

    def estimate(self, metric: str) -> Estimate:
        return _estimate(self.mean(metric), self.samples[metric])

    def minus(self, other: "System", metric: str) -> Estimate:
        """The paired difference."""
        return _estimate(self.mean(metric) - other.mean(metric), self.samples[metric] - other.samples[metric])


def _estimate(value: float, samples: Floats) -> Estimate:
    low, high = np.percentile(samples, [2.5, 97.5])
    return Estimate(value, float(low), float(high))


def read_systems(runs: Sequence[Run], split: str) -> list[System]:
    """The runs' captions of a split scored again, grouped by recipe, in the order of the runs."""
    captions = [{str(row["image_id"]): str(row["caption"]) for row in run.predictions(split)} for run in runs]
    for run, said in zip(runs, captions, strict=True):
        if said.keys() != captions[0].keys():
            raise WatchwordError(
                f"{run.name} and {runs[0].name} were scored on other {split} videos ({len(said):,} and "
                f"{len(captions[0]):,}): evaluate them again on the same data"
            )
    references = {clip.video: clip.captions for clip in read_annotations(captions_path(runs[0].recipe.data))}
    unknown = [video for video in captions[0] if video not in references]
    if unknown:
        raise WatchwordError(f"{captions_path(runs[0].recipe.data)} has no captions of {unknown[0]}: put the file back")
    index = ReferenceIndex({video: references[video] for video in captions[0]})
    groups: dict[str, list[int]] = {}
    for row, run in enumerate(runs):
        groups.setdefault(_without_seed(run), []).append(row)
    return [
        _system([runs[row] for row in rows], [index.score(captions[row]) for row in rows]) for rows in groups.values()
    ]


def _without_seed(run: Run) -> str:
    """What two seeds of one system have in common: the recipe; an ensemble's folder stands alone."""
    if not (run.folder / "recipe.toml").exists():
        return f"folder {run.folder.resolve()}"
    recipe: dict[str, Any] = run.recipe.model_dump(mode="json", exclude={"seed", "about"})
    return repr(recipe)


def _system(runs: Sequence[Run], scores: Sequence[Scores]) -> System:
    seeds = tuple(run.recipe.seed for run in runs) if (runs[0].folder / "recipe.toml").exists() else ()
    return System(common_name([run.name for run in runs]), seeds, tuple(scores))


def common_name(names: Sequence[str]) -> str:
    """`clip_1` and `clip_s2` are seeds of `clip`; other names are joined."""
    if len(names) == 1:
        return names[0]
    parts = dict.fromkeys(re.sub(r"[_.-]?(seed|s)?\d+$", "", name) for name in names)
    return "+".join(names if "" in parts else parts)
