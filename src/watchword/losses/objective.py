"""The contract of a loss: a sum, so that batches can be split and added."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

from torch import Tensor, nn

from watchword.config import Settings
from watchword.decoding import StepModel
from watchword.tensors import Batch
from watchword.text.counts import WordCounts, count_words
from watchword.text.vocabulary import Vocabulary


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
