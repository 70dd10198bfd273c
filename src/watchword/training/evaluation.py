"""Captions for the videos of a split, what they score, and systems side by side.

Runs of one recipe under several seeds are one system.

Two kinds of noise stand between a difference and a claim. Other videos would give other scores: a 95 % bootstrap
interval over videos, of scores that are averaged over the seeds. Other seeds would too: the range of the runs' scores.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import torch

from watchword.config import Data
from watchword.data.annotations import read_annotations
from watchword.data.benchmarks import ClipSet, captions_path, read_clips, store_path
from watchword.data.dataset import CaptionData, Features
from watchword.decoding import Ensemble, Hypotheses, StepModel, beam, greedy, mbr_decode, networks, teacher_force
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.layers.packed import packed
from watchword.losses import LogitModel
from watchword.losses.multi_sample import MultiSample, MultiSampleSettings
from watchword.losses.objective import CrossEntropy, CrossEntropySettings
from watchword.metrics import ReferenceIndex, Scores
from watchword.metrics.statistics import Floats, draw_videos, resampled
from watchword.models.dual_afr import DualAFR
from watchword.tensors import PAD, Batch
from watchword.text.vocabulary import Vocabulary
from watchword.training.run import Run
from watchword.types import Clip, FloatArray, Hypothesis

VIDEOS_AT_ONCE = 32
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Search:
    """How captions are looked for."""

    beam: int = 5
    length_power: float = 0.5  # score = log probability / words ** length_power
    max_words: int = 20  # and an end
    mbr_samples: int = 0  # so many captions that could be said elect one of the beam's (mbr_decode)
    precision: Literal["float32", "bfloat16"] = "float32"  # of the products; all else is float32

    def __call__(self, model: StepModel, batch: Batch, vocabulary: Vocabulary) -> Hypotheses:
        if self.mbr_samples:
            return mbr_decode(
                model,
                batch.streams,
                self.mbr_samples,
                self.max_words + 1,
                beams=self.beam,
                length_power=self.length_power,
                content=vocabulary.content,
            )
        if self.beam > 1:
            return beam(model, batch.streams, self.beam, self.max_words + 1, length_power=self.length_power)
        found = greedy(model, batch.streams, self.max_words + 1)
        lengths = (found.captions != PAD).sum(-1)
        return Hypotheses(found.captions, found.scores / lengths**self.length_power)


@torch.no_grad()
def caption_videos(
    model: StepModel,
    features: Features,
    videos: Sequence[str],
    vocabulary: Vocabulary,
    search: Search,
    *,
    device: torch.device | str = "cpu",
    keep_attention: bool = False,
    report: Callable[[int], None] = lambda done: None,
) -> list[Hypothesis]:
    """The best caption for every video, in order; `report` gets the number of finished videos."""
    captions: list[Hypothesis] = []
    with packed(networks(model), PRECISIONS[search.precision]):
        for batch in features.batches(videos, VIDEOS_AT_ONCE):
            batch = batch.to(device)
            found = search(model, batch, vocabulary)
            attention = {}
            if keep_attention:
                attention = teacher_force(model, batch.streams, found.captions, keep_attention=True).attention
            for row, video in enumerate(batch.videos):
                words = tuple(vocabulary.decode(found.captions[row, 0].tolist()))
                masks = {name: batch.streams[name.rpartition(":")[2]].mask[row] for name in attention}
                looked = {
                    name: _real_part(weights[row, 0, : len(words)], masks[name])
                    for name, weights in attention.items()
                    if masks[name].any()
                }
                captions.append(Hypothesis(video, words, float(found.scores[row, 0]), looked))
            report(len(captions))
    return captions


def _real_part(attention: torch.Tensor, mask: torch.Tensor) -> FloatArray:
    """(T, F, N) without the time steps and locations that only pad the batch."""
    time_steps, locations = int(mask.any(1).nonzero().max()) + 1, int(mask.any(0).nonzero().max()) + 1
    return np.asarray(attention[:, :time_steps, :locations].cpu())


def references_of(clips: Sequence[Clip]) -> dict[str, Sequence[str]]:
    return {clip.video: clip.captions for clip in clips}


def score_captions(captions: Sequence[Hypothesis], index: ReferenceIndex, metrics: Sequence[str] | None) -> Scores:
    hypotheses: Mapping[str, str] = {caption.video: caption.text for caption in captions}
    return index.score(hypotheses, metrics)


@torch.no_grad()
def mean_word_loss(model: LogitModel, data: CaptionData, device: torch.device | str) -> float:
    """Cross entropy per word on a split: it separates recipes where the scores of few videos are noise."""
    measure = CrossEntropy(CrossEntropySettings())
    total = weight = 0.0
    for slot in data.plan(seed=(0,)):
        loss = measure(model, data.batch(slot).to(device), sampling_rate=0.0)
        total, weight = total + float(loss.total), weight + float(loss.weight)
    return total / max(weight, 1.0)  # a split of unknown words alone has no targets


@torch.no_grad()
def video_losses(run: Run, clips: Sequence[Clip]) -> tuple[FloatArray, FloatArray]:
    """The cross entropy of all words that people said about each video, (videos,), and how many words, (videos,).

    Of a model that draws what it attends to, minus the multi-sample bound of their log likelihood.
    """
    data = CaptionData(clips, Store(store_path(run.recipe.data)), run.vocabulary, run.recipe.data)
    model = run.model().eval()
    measure: CrossEntropy | MultiSample = CrossEntropy(CrossEntropySettings())
    if isinstance(model, DualAFR) and model.chooses:
        measure = MultiSample(MultiSampleSettings())
        model.draw.train()  # draws; dropout stays off
    row_of = {clip.video: row for row, clip in enumerate(clips)}
    losses, words = np.zeros(len(clips)), np.zeros(len(clips))
    for slot in data.plan(seed=(0,)):
        batch = data.batch(slot)
        found, counted = measure.of_videos(model, batch, sampling_rate=0.0)
        rows = [row_of[video] for video in batch.videos]
        np.add.at(losses, rows, found.double().numpy())
        np.add.at(words, rows, counted.numpy())
    return losses, words


@dataclass(frozen=True)
class Evaluation:
    """What one run, or an ensemble of several, said about a split."""

    split: str
    search: Search
    runs: tuple[str, ...]
    captions: tuple[Hypothesis, ...]
    scores: Scores
    data: dict[str, Any]  # videos, of how many, sha256 of their ids and captions; trained_on: of training

    def predictions_json(self) -> str:
        """COCO results, as `watchword score` and everybody else reads them."""
        rows = [
            {"image_id": caption.video, "caption": caption.text, "score": caption.score} for caption in self.captions
        ]
        return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"

    def scores_json(self) -> str:
        row = {"split": self.split, "runs": self.runs, **asdict(self.search), "data": self.data}
        row |= {"scores": self.scores.corpus, "signature": self.scores.signature}
        return json.dumps(row, indent=2) + "\n"


def open_split(runs: Sequence[Run], split: str) -> tuple[ClipSet, Features]:
    """The clips of the first run's data, and features of this split; refused where the runs do not fit them."""
    first = runs[0]
    vocabulary = first.vocabulary
    for run in runs[1:]:
        if run.vocabulary.checksum != vocabulary.checksum:
            raise WatchwordError(
                f"{run.name} and {first.name} do not share a vocabulary: train them on one data set, or one of them "
                "with vocabulary=vocabulary.txt of the other"
            )
    settings = _joined([run.recipe.data for run in runs])
    clips = read_clips(settings)
    features = Features(Store(store_path(settings)), settings)
    described = features.described()
    for run in runs:
        if run.training_data["splits"] != clips.checksums:
            raise WatchwordError(
                f"{captions_path(settings)} is not what {run.name} was trained on (captions or splits changed): "
                "a score on it could count training videos; put the file back"
            )
        changed = [stream for stream, what in run.training_data["streams"].items() if described[stream] != what]
        if changed:
            raise WatchwordError(
                f"{run.name} was trained on {changed[0]} of {run.training_data['streams'][changed[0]]}; "
                f"{store_path(settings)} has {described[changed[0]]}: name the run's own store"
            )
    features.check([clip.video for clip in clips.split(split)])
    return clips, features


def _joined(settings: Sequence[Data]) -> Data:
    """The first run's data with the streams of all runs; a stream that one of them requires is required."""
    streams = tuple(dict.fromkeys(stream for data in settings for stream in data.streams))
    required = {stream for data in settings for stream in data.required_streams}
    optional = tuple(stream for stream in streams if stream not in required)
    return settings[0].model_copy(update={"streams": streams, "optional_streams": optional})


def evaluate(
    runs: Sequence[Run],
    split: str,
    search: Search,
    metrics: Sequence[str] | None = None,
    report: Callable[[int, int], None] = lambda done, total: None,
) -> Evaluation:
    """One run, or an ensemble of runs that share a vocabulary, on a split of the first run's data.

    `metrics` None: all that can be computed here.
    """
    clips, features = open_split(runs, split)
    chosen = clips.split(split)
    videos = [clip.video for clip in chosen]
    models = [run.model() for run in runs]
    model: StepModel = models[0] if len(models) == 1 else Ensemble(models)
    captions = caption_videos(
        model, features, videos, runs[0].vocabulary, search, report=lambda done: report(done, len(videos))
    )
    scores = score_captions(captions, ReferenceIndex(references_of(chosen)), metrics)
    data = clips.used()[split] | {"trained_on": "+".join(run.trained_on for run in runs)}
    return Evaluation(split, search, tuple(run.name for run in runs), tuple(captions), scores, data)


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
