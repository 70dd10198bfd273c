"""Learning where to look again: cross entropy of two looks, and a reward for the key frame between them.

Shi et al., Watch It Twice, ACM MM 2019, arXiv:1907.12905, Sec. 3.4 and 4.2; docs/papers/refocus.md.

| paper | line |
|---|---|
| Sec. 4.2, the first five epochs: Eq. 17 alone | `FirstLook` |
| Eq. 17, 18: cross entropy of each look | `TwoLooks.of_captions` |
| Eq. 20: R_e, and R_e-1 kept for each caption | `Refocusing.reward`, the buffer `rewards` |
| Eq. 19, 21: L_R+ | `key_frame_loss` |
| Eq. 22 | `Refocusing.forward` |
| Sec. 4.2, saved key frames | `FixedFocus` |
"""

from itertools import accumulate
from typing import Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor

from watchword.config import Settings
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.losses.cross_entropy import CrossEntropy, ScheduledSampling, word_losses
from watchword.losses.objective import LogitModel, Loss, Material, Objective
from watchword.tensors import PAD, UNK, Batch, Memory, State, Step, Streams


class Refocuser(LogitModel, Protocol):
    """A captioner that looks twice."""

    def encode_passes(self, streams: Streams) -> tuple[Memory, State, Tensor, Tensor]:
        """Memory, states of both looks (B, 2, ...), log relevance of the frames (B, F), key frames (B,)."""

    def use_one_pass(self) -> None: ...
    def use_two_passes(self) -> None: ...
    def fix_key_frames(self, restart: bool) -> None: ...


class FirstLook(CrossEntropy):
    """Cross entropy of the first look; nothing else is learned, and validation sees nothing else."""

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).use_one_pass()


class TwoLooks(Objective):
    """Cross entropy of both looks, one walk over the words for the two."""

    def epoch_weight(self, material: Material) -> float:
        return material.num_words

    def of_captions(
        self, model: LogitModel, batch: Batch, sampling_rate: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """L_xe (B, 2, S) of both looks, real words (B, S), log relevance (B, F), key frames (B,)."""
        looks = SideBySide(_refocuser(model), batch.captions.shape[1])
        targets = batch.captions[:, :, 1:].repeat(1, 2, 1)  # (B, 2*S, T)
        replace = ScheduledSampling(model, sampling_rate) if sampling_rate > 0 else None
        outputs = teacher_force(looks, batch.streams, targets, replace=replace).outputs
        real = (targets != PAD) & (targets != UNK)
        words = torch.zeros_like(outputs[..., 0]).masked_scatter(
            real, word_losses(model.logits(outputs[real]), targets[real]).to(outputs.dtype)
        )
        first, second = words.sum(-1).chunk(2, 1)  # Eq. 17, 18
        return torch.stack([first, second], 1), real.sum(-1).chunk(2, 1)[0], looks.relevance, looks.key

    @staticmethod
    def shown(losses: Tensor, words: Tensor) -> dict[str, Tensor]:
        """Each look's loss per word, for the log."""
        first, second = losses.detach().sum((0, 2)) / words.sum().clamp(min=1)
        return {"first_look": first, "second_look": second}


class SideBySide:
    """Both passes of S captions as one step model of 2*S captions: the first S read the first pass."""

    def __init__(self, model: Refocuser, num_captions: int) -> None:
        self.model, self.num_captions = model, num_captions
        self.relevance, self.key = torch.empty(0), torch.empty(0)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory, states, self.relevance, self.key = self.model.encode_passes(streams)
        return memory, {name: tensor.repeat_interleave(self.num_captions, 1) for name, tensor in states.items()}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        return self.model.step(words, memory, state)

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return self.model.log_probabilities(outputs)


class RefocusingSettings(Settings):
    beta: float = Field(0.03, ge=0)  # Eq. 22
    # Eq. 21 as printed raises the probability of a key frame that got worse; the text says that it must lower it
    worse: Literal["lowers", "as_printed"] = "lowers"


class Refocusing(TwoLooks):
    """Eq. 22. The reward of each caption is kept from epoch to epoch, as a buffer: it is saved and resumed."""

    Settings = RefocusingSettings
    rewards: Tensor

    def __init__(self, settings: RefocusingSettings, material: Material) -> None:
        super().__init__()
        self.beta = settings.beta
        self.as_printed = settings.worse == "as_printed"
        ends = accumulate(len(captions) for captions in material.references.values())
        self.first_row = dict(zip(material.references, [0, *ends], strict=False))
        num_captions = sum(len(captions) for captions in material.references.values())
        self.register_buffer("rewards", torch.full((num_captions,), float("nan")))  # R_e-1; nan: not seen yet

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).use_two_passes()

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        losses, words, relevance, key = self.of_captions(model, batch, sampling_rate)
        reward, better = self.reward(batch, losses.detach())
        focus = key_frame_loss(better, relevance, key, self.as_printed)
        total = losses.sum() + self.beta * focus.sum()  # Eq. 22
        said = words > 0
        chosen = relevance.detach().gather(1, key.unsqueeze(1)).exp()
        shown = self.shown(losses, words) | {
            "reward": reward[said].mean(),
            "better": (better[said] > 0).float().mean(),
            "relevance": chosen.mean(),
        }
        return Loss(total, words.sum(), {name: value.nan_to_num() for name, value in shown.items()})

    def reward(self, batch: Batch, losses: Tensor) -> tuple[Tensor, Tensor]:
        """R_e (B, S), which is kept, and R_e - R_e-1: 0 for a caption that is seen for the first time."""
        if batch.rows is None:
            raise WatchwordError("the refocusing reward needs to know which caption a caption is: Batch.rows")
        first, second = losses.unbind(1)
        reward = first - second  # Eq. 20
        starts = torch.tensor([self.first_row[video] for video in batch.videos], device=reward.device)
        mine = batch.rows >= 0
        positions = (starts.unsqueeze(1) + batch.rows)[mine]
        better = torch.zeros_like(reward)
        better[mine] = (reward[mine] - self.rewards[positions]).nan_to_num()
        self._keep(positions, reward[mine])
        return reward, better

    def _keep(self, positions: Tensor, rewards: Tensor) -> None:
        """Captions of a batch may be shared between processes; all of them remember all rewards."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            news = torch.zeros(2, len(self.rewards), device=rewards.device)
            news[0, positions], news[1, positions] = rewards.float(), 1.0
            torch.distributed.all_reduce(news)
            self.rewards.copy_(torch.where(news[1] > 0, news[0], self.rewards))
        else:
            self.rewards[positions] = rewards.to(self.rewards.dtype)


def key_frame_loss(better: Tensor, relevance: Tensor, key: Tensor, as_printed: bool = False) -> Tensor:
    """L_R+ (Eq. 21) of each caption, (B, S): better (B, S) is R_e - R_e-1, relevance (B, F) is log alpha, key (B,).

    A key frame that did better becomes likelier, one that did worse less likely. log(1 - alpha) is summed up from the
    other frames, so its gradient is exact however close to 1 alpha is; where there is one frame there is no choice.
    """
    is_key = torch.zeros_like(relevance, dtype=torch.bool).scatter(1, key.unsqueeze(1), True)
    chosen = relevance.gather(1, key.unsqueeze(1))  # log alpha, (B, 1)
    others = relevance.masked_fill(is_key, float("-inf"))
    alone = others.isneginf().all(1, keepdim=True)
    others = others.masked_fill(alone, 0.0).logsumexp(1, keepdim=True).masked_fill(alone, 0.0)  # log(1 - alpha), (B, 1)
    worse = better if as_printed else -better
    return torch.where(better > 0, -better * chosen, torch.where(better < 0, -worse * others, 0.0))


class FixedFocusSettings(Settings):
    restart: bool = True  # the captioner begins anew; no: only its key frames stop moving


class FixedFocus(TwoLooks):
    """Cross entropy of both looks with the key frames that the weights at the beginning of the phase choose."""

    Settings = FixedFocusSettings

    def __init__(self, settings: FixedFocusSettings, material: Material) -> None:
        super().__init__()
        self.restart = settings.restart

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).fix_key_frames(self.restart)

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        losses, words, _, _ = self.of_captions(model, batch, sampling_rate)
        return Loss(losses.sum(), words.sum(), self.shown(losses, words))


def _refocuser(model: LogitModel) -> Refocuser:
    if not hasattr(model, "use_two_passes"):
        raise WatchwordError("this loss is for a model that looks twice: model.name=refocus model.variant=vre")
    return model  # type: ignore[return-value]
