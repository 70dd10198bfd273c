"""The multi-sample lower bound, for a model that samples its attention.

Pu et al., Adaptive Feature Abstraction for Translating Video to Text, AAAI 2018, Eq. 10 to 16; the bound is Burda et
al. 2016, arXiv:1509.00519, its estimator Mnih and Rezende 2016 (VIMCO), arXiv:1602.06725.

| paper | line |
|---|---|
| Eq. 12: K samples m^1 ... m^K of every caption's choices, side by side on the S axis | `MultiSample.forward` |
| Eq. 13, 14: the gradient | `bound` |
| Eq. 15, 16: what each sample adds to the bound, against what the others would have | `advantages` |

Eq. 13 and 14 are printed with the gradient of p(Y|m); that of log p(Y|m) is meant, or the weights omega would stand
twice (`tests/test_multi_sample.py` holds the sum over all choices to the exact gradient of Eq. 12).
"""

from math import log
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from watchword.config import Settings
from watchword.decoding import expand_state
from watchword.errors import WatchwordError
from watchword.losses.objective import LogitModel, Loss, Material, Objective, ScheduledSampling, word_losses
from watchword.tensors import BOS, PAD, UNK, Batch, State


class MultiSampleSettings(Settings):
    samples: int = Field(10, ge=2)  # K, appendix
    baseline: Literal["others", "none"] = "others"  # Eq. 14; none: Eq. 13, for comparison


class MultiSample(Objective):
    """Minus the bound of log p(Y|A). The model's `Step.state` has `log_choice` (B, S): log p of what it drew."""

    Settings = MultiSampleSettings

    def __init__(self, settings: MultiSampleSettings, material: Material | None = None) -> None:
        super().__init__()
        self.samples = settings.samples
        self.against_others = settings.baseline == "others"

    def epoch_weight(self, material: Material) -> float:
        return material.num_words

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        likelihood, choice = self.draw(model, batch, sampling_rate)
        bounds = bound(likelihood, choice, self.against_others)  # (B, S)
        shown = {"effective_samples": effective_samples(likelihood)}
        return Loss(-bounds.sum(), self.count_words(batch).sum(), shown)

    def of_videos(self, model: LogitModel, batch: Batch, sampling_rate: float) -> tuple[Tensor, Tensor]:
        """Minus the bounds of each video's captions, (B,), and how many words they have, (B,)."""
        return -bound(*self.draw(model, batch, sampling_rate)).sum(1), self.count_words(batch)

    @staticmethod
    def count_words(batch: Batch) -> Tensor:
        words = batch.captions[:, :, 1:]
        return ((words != PAD) & (words != UNK)).sum((1, 2))

    def draw(self, model: LogitModel, batch: Batch, sampling_rate: float) -> tuple[Tensor, Tensor]:
        """log p(Y|m^k) and log p(m^k|A) of K samples, both (B, S, K)."""
        if not getattr(model, "chooses", False):
            raise WatchwordError(
                "the loss 'multi_sample' needs a model that draws what it looks at: model.name=dual_afr "
                "model.variant=hard"
            )
        captions = batch.captions[:, :, 1:].repeat_interleave(self.samples, 1)  # (B, S * K, T)
        likelihood, choice = draw_along(model, batch, captions, sampling_rate)
        return likelihood.view(len(captions), -1, self.samples), choice.view(len(captions), -1, self.samples)


def draw_along(model: LogitModel, batch: Batch, captions: Tensor, sampling_rate: float) -> tuple[Tensor, Tensor]:
    """Given captions (B, S, T) with freshly drawn choices m: log p(Y|m, A) and log p(m|A), both (B, S)."""
    memory, first = model.encode(batch.streams)
    state: State = expand_state(first, captions.shape[1])
    replace = ScheduledSampling(model, sampling_rate) if sampling_rate > 0 else None
    words = torch.full_like(captions[:, :, 0], BOS)
    outputs, choices = [], []
    for time in range(captions.shape[2]):
        step = model.step(words, memory, state)
        outputs.append(step.outputs)
        choices.append(step.state["log_choice"])
        state, words = step.state, captions[:, :, time]
        if replace is not None:
            words = replace(step.outputs, words)
    there = captions != PAD  # behind a caption's end nothing is chosen
    choice = (torch.stack(choices, 2) * there).sum(2)
    real = there & (captions != UNK)
    losses = torch.zeros(captions.shape, dtype=choice.dtype, device=choice.device)
    said = word_losses(model.logits(torch.stack(outputs, 2)[real]), captions[real])
    return -losses.masked_scatter(real, said.to(choice.dtype)).sum(2), choice


def bound(likelihood: Tensor, choice: Tensor, against_others: bool = True) -> Tensor:
    """Eq. 12 for log p(Y|m^k) and log p(m^k|A), both (..., K) -> (...,), with the gradient of Eq. 14 (or 13).

    Its value is the bound alone: what stands for the gradient of the choices is 0.
    """
    value = likelihood.logsumexp(-1) - log(likelihood.shape[-1])  # its own gradient is the sum of omega grad log p
    learned = advantages(likelihood) if against_others else value.unsqueeze(-1).expand_as(likelihood)
    return value + (learned.detach() * (choice - choice.detach())).sum(-1)


def advantages(likelihood: Tensor) -> Tensor:
    """Eq. 15: the bound, less what it would be if sample k were as likely as the others are in the mean: (..., K)."""
    samples = likelihood.shape[-1]
    others = (likelihood.sum(-1, keepdim=True) - likelihood) / (samples - 1)  # Eq. 16, log f
    instead = torch.where(
        torch.eye(samples, dtype=torch.bool, device=likelihood.device), others.unsqueeze(-1), likelihood.unsqueeze(-2)
    )  # (..., K, K): row k has log f in column k
    return likelihood.logsumexp(-1, keepdim=True) - instead.logsumexp(-1)


def effective_samples(likelihood: Tensor) -> Tensor:
    """How many of the K samples count, 1 ... K: 1 over the sum of omega squared, the mean of all captions."""
    return (1 / likelihood.detach().softmax(-1).square().sum(-1)).mean()
