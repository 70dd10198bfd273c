"""Cross entropy, label smoothing, scheduled sampling."""

import torch
from pydantic import Field
from torch import Tensor

from watchword.config import Settings
from watchword.decoding import teacher_force
from watchword.losses.objective import LogitModel, Loss, Material, Objective
from watchword.tensors import BOS, PAD, UNK, Batch


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
