"""Training for what is measured: REINFORCE over captions that the model draws itself.

Williams 1992; self-critical baseline: Rennie et al., Self-Critical Sequence Training for Image Captioning, CVPR 2017,
arXiv:1612.00563; leave-one-out baseline: Kool et al. 2019.

The gradient of the expected reward is E[(r(w) - b) grad log p(w)] for any baseline b that does not depend on w. A
rollout's log probability is summed over its words and its end, so where a caption stops is learned too. With `eos` the
end also counts as a word of the reward's n-grams (only of captions that came to one): otherwise a caption that stops
at "playing a" loses nothing by it.
"""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import torch
from pydantic import Field, field_validator
from torch import Tensor

from watchword.config import Settings
from watchword.decoding import Hypotheses, greedy, sample
from watchword.errors import WatchwordError
from watchword.losses.objective import CrossEntropy, CrossEntropySettings, LogitModel, Loss, Material, Objective
from watchword.metrics import NO_METEOR, ReferenceIndex, meteor_available
from watchword.tensors import EOS, PAD, Batch

REWARDS = ("CIDEr", "METEOR", "Bleu_4", "ROUGE_L")


class RewardSettings(Settings):
    rewards: dict[str, float] = Field({"CIDEr": 1.0})  # metric -> weight
    rollouts: int = Field(5, ge=1)  # S captions drawn for each video
    cross_entropy: float = Field(0.0, ge=0, le=1)  # its share beside the reward's
    label_smoothing: float = Field(0.0, ge=0, lt=1)
    eos: bool = True  # the end of a caption counts in CIDEr's n-grams

    @field_validator("rewards")
    @classmethod
    def known(cls, rewards: Mapping[str, float]) -> Mapping[str, float]:
        strange = [name for name in rewards if name not in REWARDS]
        if strange or not rewards:
            raise ValueError(f"rewards are weights of {', '.join(REWARDS)}")
        return rewards


class ReinforceSettings(RewardSettings):
    baseline: Literal["others", "moving"] = "others"  # the mean of the video's other rollouts; a moving mean of all
    momentum: float = Field(0.9, ge=0, lt=1)  # of the moving mean


class PolicyGradient(Objective):
    """What the two have in common: rollouts, rewards, a share of cross entropy."""

    once_a_video = True

    def __init__(self, settings: RewardSettings, material: Material) -> None:
        super().__init__()
        self.settings = settings
        self.vocabulary = material.vocabulary
        self.max_words = material.max_words
        self.mean_length = material.mean_length
        self.index = ReferenceIndex(material.references, context="line", eos=settings.eos)
        if "METEOR" in settings.rewards and not meteor_available():
            raise WatchwordError(NO_METEOR)
        self.cross_entropy = CrossEntropy(CrossEntropySettings(label_smoothing=settings.label_smoothing))

    def epoch_weight(self, material: Material) -> float:
        """A video counts as one caption of mean length, however many are drawn."""
        return len(material.references) * material.mean_length

    def baseline(self, model: LogitModel, batch: Batch, rewards: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        # with gradient: the very pass that drew the words is the one that learns
        found = sample(model, batch.streams, self.settings.rollouts, self.max_words + 1)
        rewards = self.reward(batch, found)
        baseline = self.baseline(model, batch, rewards)
        losses = -((rewards - baseline) * found.scores).mean(1)  # (B,)
        captions = (batch.captions != PAD).any(-1).sum(1)  # (B,)
        share = self.settings.cross_entropy
        if share:
            taught, _ = self.cross_entropy.of_videos(model, batch, sampling_rate)
            losses = (1 - share) * losses + share * taught / captions.clamp(min=1)
        mine = (captions > 0).to(losses.dtype)  # a video without captions only stands in for an empty share of a batch
        shown = {"reward": rewards.mean(), "baseline": baseline.mean()}
        return Loss((losses * mine).sum(), mine.sum() * self.mean_length, shown)

    def reward(self, batch: Batch, found: Hypotheses) -> Tensor:
        """(B, S)"""
        captions = [
            [" ".join(self.vocabulary.decode(caption)) for caption in captions] for captions in found.captions.tolist()
        ]
        ended = (found.captions == EOS).any(-1).tolist()
        rewards = self.index.reward(batch.videos, captions, self.settings.rewards, ended)
        return torch.from_numpy(np.asarray(rewards, np.float32)).to(found.scores.device)


class SelfCritical(PolicyGradient):
    """The baseline is the reward of the model's greedy caption."""

    Settings = RewardSettings

    def baseline(self, model: LogitModel, batch: Batch, rewards: Tensor) -> Tensor:
        was_training = model.training  # type: ignore[attr-defined]
        model.eval()  # type: ignore[attr-defined]
        with torch.no_grad():
            plain = self.reward(batch, greedy(model, batch.streams, self.max_words + 1))
        model.train(was_training)  # type: ignore[attr-defined]
        return plain  # (B, 1)


class Reinforce(PolicyGradient):
    """The baseline is the mean reward of the same video's other rollouts, or a moving mean over all videos."""

    Settings = ReinforceSettings
    mean: Tensor

    def __init__(self, settings: ReinforceSettings, material: Material) -> None:
        super().__init__(settings, material)
        self.moving, self.momentum = settings.baseline == "moving", settings.momentum
        self.register_buffer("mean", torch.tensor(float("nan")))

    def baseline(self, model: LogitModel, batch: Batch, rewards: Tensor) -> Tensor:
        if not self.moving:
            others = rewards.shape[1] - 1
            return (rewards.sum(1, keepdim=True) - rewards) / others if others else torch.zeros_like(rewards)
        now = rewards.mean()
        before = now if bool(self.mean.isnan()) else self.mean.clone()
        self.mean.copy_(self.momentum * before + (1 - self.momentum) * now)
        return before
