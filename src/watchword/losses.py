"""What training makes small. A loss is a sum over words, so that batches can be split and added."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from watchword.config import Settings
from watchword.decoding import Speaker, follow
from watchword.errors import WatchwordError, unknown
from watchword.tensors import BOS, PAD, UNK, Batch


class Talker(Speaker, Protocol):
    """A speaker that also shows its logits."""

    def logits(self, outputs: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Loss:
    """`total` over `weight` is the loss that the log shows; the gradient is that of the total."""

    total: Tensor                # scalar with gradient
    weight: Tensor               # scalar: how many words (or sentences) it counts
    parts: dict[str, float] = field(default_factory=dict)  # more to show in the log


class Objective(Protocol):
    """A loss with its settings."""

    def __call__(self, model: Talker, batch: Batch, own_words: float) -> Loss:
        """`own_words` is the share of words in the model's ear that are its own (scheduled sampling)."""


class CrossEntropySettings(Settings):
    label_smoothing: float = 0.0


class CrossEntropy:
    """The mean negative log probability of a word. Only real words are computed; UNK is heard but never a target."""

    Settings = CrossEntropySettings

    def __init__(self, settings: CrossEntropySettings) -> None:
        self.smoothing = settings.label_smoothing

    def __call__(self, model: Talker, batch: Batch, own_words: float) -> Loss:
        targets = batch.sentences[:, :, 1:]  # (B, S, T)
        replace = OwnWords(model, own_words) if own_words > 0 else None
        outputs = follow(model, batch.streams, targets, replace=replace).outputs
        real = (targets != PAD) & (targets != UNK)
        total = word_losses(model.logits(outputs[real]), targets[real], self.smoothing).sum()
        return Loss(total, real.sum())


def word_losses(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    """(M, V), (M,) -> (M,): one vocabulary product for all words of all sentences."""
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    if smoothing:
        sayable = logits[0].isfinite()
        uniform = logits.logsumexp(-1) - logits[:, sayable].mean(-1)
        losses = (1 - smoothing) * losses + smoothing * uniform
    return losses


class OwnWords:
    """Scheduled sampling: now and then the next word in the model's ear is one it drew itself."""

    def __init__(self, model: Talker, share: float) -> None:
        self.model, self.share = model, share

    def __call__(self, outputs: Tensor, words: Tensor) -> Tensor:
        own = (torch.rand(words.shape, device=words.device) < self.share) & (words != PAD) & (words != BOS)
        if not bool(own.any()):
            return words
        with torch.no_grad():
            drawn = torch.multinomial(self.model.log_probabilities(outputs[own]).exp(), 1).squeeze(-1)
        return words.masked_scatter(own, drawn)


LOSSES: dict[str, type[CrossEntropy]] = {"cross_entropy": CrossEntropy}


def build_loss(settings: Mapping[str, Any]) -> Objective:
    """The `loss` table of a phase: its name, and the settings that this loss knows."""
    values = dict(settings)
    name = values.pop("name", None)
    if not isinstance(name, str):
        raise WatchwordError(f"a loss needs a name, one of {', '.join(LOSSES)}")
    if name not in LOSSES:
        raise unknown("loss", name, LOSSES)
    return LOSSES[name](LOSSES[name].Settings.read(values, f"loss {name}"))
