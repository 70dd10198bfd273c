"""The contract of a loss (a sum, so that batches can be split and added), and the plain one: cross entropy with label
smoothing and scheduled sampling.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.config import Settings
from watchword.decoding import StepModel, teacher_force
from watchword.tensors import BOS, PAD, UNK, Batch
from watchword.text.vocabulary import Vocabulary, WordCounts, count_words


class LogitModel(StepModel, Protocol):
    """A step model that also gives its logits."""

    def logits(self, outputs: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Material:
    """What a loss gets of the training data before the first batch."""

    vocabulary: Vocabulary
    references: Mapping[str, Sequence[str]]  # video -> captions
    num_words: int  # of all captions, ends among them
    max_words: int

    @property
    def mean_length(self) -> float:
        return self.num_words / sum(len(captions) for captions in self.references.values())

    @cached_property
    def word_counts(self) -> Mapping[str, WordCounts]:
        """Video -> the words of its captions; counted once for all phases of a run."""
        return count_words(self.references)


@dataclass(frozen=True)
class Loss:
    """`total` over `weight` is the loss that the log shows; the gradient is that of the total."""

    total: Tensor  # scalar with gradient
    weight: Tensor  # scalar: how many words (or captions) it counts
    shown: dict[str, Tensor] = field(default_factory=dict)  # more for the log, means of the batch


class Objective(nn.Module, ABC):
    """A loss with its settings. Buffers, such as a moving baseline, are saved and resumed with the weights."""

    Settings: type[Settings]
    once_a_video = False  # an epoch visits every video once, not every caption
    whole_videos = False  # needs all frames of a video at every visit: data.frame_keep_rate must be 1
    starts_anew = False  # `begin` draws new weights: the best so far are forgotten, word vectors are set again

    def begin(self, model: LogitModel) -> None:
        """Prepares the model at the start of a phase; not called when a phase is resumed."""

    def parameter_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        """What the optimiser trains: `params`, and by `scale` how many times the learning rate they move."""
        return [{"params": list(model.parameters()), "scale": 1.0}]

    @abstractmethod
    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        """`sampling_rate` is that of scheduled sampling."""

    @abstractmethod
    def epoch_weight(self, material: Material) -> float:
        """What the totals of a whole epoch are divided by: a constant, so that every word weighs the same."""


class CrossEntropySettings(Settings):
    label_smoothing: float = Field(0.0, ge=0, lt=1)


class CrossEntropy(Objective):
    """The mean negative log probability of a word. Only real words are computed; UNK is an input but never a target."""

    Settings = CrossEntropySettings

    def __init__(self, settings: CrossEntropySettings, material: Material | None = None) -> None:
        super().__init__()
        self.smoothing = settings.label_smoothing

    def epoch_weight(self, material: Material) -> float:
        return material.num_words

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        totals, words = self.of_videos(model, batch, sampling_rate)
        return Loss(totals.sum(), words.sum())

    def of_videos(self, model: LogitModel, batch: Batch, sampling_rate: float) -> tuple[Tensor, Tensor]:
        """The sum of the losses of each video's words, (B,), and how many there are, (B,)."""
        targets = batch.captions[:, :, 1:]  # (B, S, T)
        replace = ScheduledSampling(model, sampling_rate) if sampling_rate > 0 else None
        outputs = teacher_force(model, batch.streams, targets, replace=replace).outputs
        real = (targets != PAD) & (targets != UNK)
        losses = word_losses(model.logits(outputs[real]), targets[real], self.smoothing)
        video = real.nonzero()[:, 0]
        losses = self.weighed(losses, targets[real], video, batch)
        return losses.new_zeros(len(targets)).index_add(0, video, losses), real.sum((1, 2))

    def weighed(self, losses: Tensor, words: Tensor, video: Tensor, batch: Batch) -> Tensor:
        """The losses of real words, (M,), each said of this video of the batch, (M,). Here all weigh the same."""
        return losses


def word_losses(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """(M, V), (M,) -> (M,): one vocabulary product for all words of all captions."""
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    if smoothing and len(logits):
        sayable = logits[0].isfinite()
        uniform = logits.logsumexp(-1) - logits[:, sayable].mean(-1)
        losses = (1 - smoothing) * losses + smoothing * uniform
    return losses


class ScheduledSampling:
    """Scheduled sampling: some of the words that the model reads are sampled from it."""

    def __init__(self, model: LogitModel, share: float) -> None:
        self.model, self.share = model, share

    def __call__(self, outputs: Tensor, words: Tensor) -> Tensor:
        own = (torch.rand(words.shape, device=words.device) < self.share) & (words != PAD) & (words != BOS)
        if not bool(own.any()):
            return words
        with torch.no_grad():
            drawn = torch.multinomial(self.model.log_probabilities(outputs[own]).exp(), 1).squeeze(-1)
        return words.masked_scatter(own, drawn)
