"""Losses of refocus: cross entropy of two passes over the video, and a reward for the key frame between them.

Shi et al., Watch It Twice, ACM MM 2019, arXiv:1907.12905, Sec. 3.4 and 4.2; docs/papers/refocus.md.

| paper | line |
|---|---|
| Sec. 4.2, the first five epochs: Eq. 17 alone | `FirstPass` |
| Eq. 17, 18: cross entropy of each pass | `TwoPasses.of_captions` |
| Eq. 20: R_e, and R_e-1 kept for each caption | `Refocusing.reward`, the buffer `rewards` |
| Eq. 19, 21: L_R+ | `key_frame_loss` |
| Eq. 22 | `Refocusing.forward` |
| Sec. 4.2, saved key frames | `FixedFocus` |

The gradient of L_R+ on the energy of the key frame is (1 - alpha) |gain| upwards where it did better, alpha |gain|
downwards where it did worse: noise as reward raises the chosen frame. That of L_R is (1 - alpha) gain: its mean is 0
under noise.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import accumulate
from typing import Any, Literal, Protocol

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.config import Settings
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.losses.objective import (
    CrossEntropy,
    LogitModel,
    Loss,
    Material,
    Objective,
    ScheduledSampling,
    word_losses,
)
from watchword.tensors import PAD, UNK, Batch, Memory, State, Step, Streams

Worse = Literal["lowers", "as_printed", "eq_19"]


class Refocuser(LogitModel, Protocol):
    """A model with two passes over the video."""

    def encode_passes(self, streams: Streams) -> tuple[Memory, State, Tensor, Tensor]:
        """Memory, states of both passes (B, 2, ...), log relevance of the frames (B, F), key frames (B,)."""

    def use_one_pass(self) -> None: ...
    def use_two_passes(self) -> None: ...
    def fix_key_frames(self, restart: bool) -> None: ...
    def shared_dropout(self, groups: int) -> AbstractContextManager[None]: ...


class FirstPass(CrossEntropy):
    """Cross entropy of the first pass; only it is trained and validated."""

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).use_one_pass()


class TwoPasses(Objective):
    """Cross entropy of both passes, computed side by side."""

    whole_videos = True  # a key frame is one of all frames, at every visit
    shared_noise = False  # the same dropout masks and scheduled-sampling words for both passes

    def epoch_weight(self, material: Material) -> float:
        return material.num_words

    def of_captions(
        self, model: LogitModel, batch: Batch, sampling_rate: float
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """L_xe (B, 2, S) of both passes, real words (B, S), log relevance (B, F), key frames (B,)."""
        passes = SideBySide(_refocuser(model), batch.captions.shape[1])
        targets = batch.captions[:, :, 1:].repeat(1, 2, 1)  # (B, 2*S, T)
        replace: Callable[[Tensor, Tensor], Tensor] | None = None
        if sampling_rate > 0:
            sampling = ScheduledSampling(model, sampling_rate)
            replace = SecondPassSampling(sampling) if self.shared_noise else sampling
        with _refocuser(model).shared_dropout(2 if self.shared_noise else 1):
            outputs = teacher_force(passes, batch.streams, targets, replace=replace).outputs
        real = (targets != PAD) & (targets != UNK)
        losses = word_losses(model.logits(outputs[real]), targets[real])
        words = losses.new_zeros(targets.shape).masked_scatter(real, losses)
        first, second = words.sum(-1).chunk(2, 1)  # Eq. 17, 18
        return torch.stack([first, second], 1), real.sum(-1).chunk(2, 1)[0], passes.relevance, passes.key

    @staticmethod
    def shown(losses: Tensor, words: Tensor) -> dict[str, Tensor]:
        """The loss of each pass per word, for the log."""
        first, second = losses.detach().sum((0, 2)) / words.sum().clamp(min=1)
        return {"first_pass": first, "second_pass": second}


class SecondPassSampling:
    """Scheduled sampling for both passes side by side: both read the words that the second one samples."""

    def __init__(self, sampling: ScheduledSampling) -> None:
        self.sampling = sampling

    def __call__(self, outputs: Tensor, words: Tensor) -> Tensor:
        """outputs (B, 2*S, H), words (B, 2*S), of which both halves are the same."""
        return self.sampling(outputs.chunk(2, 1)[1], words.chunk(2, 1)[1]).repeat(1, 2)


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
    # What a key frame that did worse than in the epoch before costs. `lowers`: Eq. 21 by its text, its probability
    # falls; `as_printed`: Eq. 21 by its sign, it rises; `eq_19`: Eq. 19, it falls by the gradient of log alpha.
    worse: Worse = "lowers"
    # ours: both passes have the same dropout masks and scheduled-sampling words, so that their difference, the reward,
    # is that of the key frames; `independent`: each draws its own
    noise: Literal["shared", "independent"] = "shared"
    # ours, as controls: rewards of other captions of the batch, or Gaussian noise in the place of R_e - R_e-1
    reward: Literal["own", "shuffled", "random"] = "own"
    step_size: float = Field(1.0, gt=0)  # ours: of the refocusing module, times the learning rate


class Refocusing(TwoPasses):
    """Eq. 22. The reward of each caption is kept from epoch to epoch, as a buffer: it is saved and resumed.

    L_R+ is all that reaches the refocusing module, and Adam divides a gradient by its size: beta hardly changes how far
    the module moves, `step_size` does.
    """

    Settings = RefocusingSettings
    rewards: Tensor

    def __init__(self, settings: RefocusingSettings, material: Material) -> None:
        super().__init__()
        self.settings = settings
        self.shared_noise = settings.noise == "shared"
        ends = accumulate(len(captions) for captions in material.references.values())
        self.first_row = dict(zip(material.references, [0, *ends], strict=False))
        num_captions = sum(len(captions) for captions in material.references.values())
        self.register_buffer("rewards", torch.full((num_captions,), float("nan")))  # R_e-1; nan: not seen yet

    def parameter_groups(self, model: nn.Module) -> list[dict[str, Any]]:
        own = list(model.encoder.refocusing.parameters())  # type: ignore[union-attr]
        names = {id(parameter) for parameter in own}
        others = [parameter for parameter in model.parameters() if id(parameter) not in names]
        return [{"params": others, "scale": 1.0}, {"params": own, "scale": self.settings.step_size}]

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).use_two_passes()

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        losses, words, relevance, key = self.of_captions(model, batch, sampling_rate)
        reward, gain = self.reward(batch, losses.detach())
        focus = key_frame_loss(self._controlled(gain), relevance, key, self.settings.worse)
        total = losses.sum() + self.settings.beta * focus.sum()  # Eq. 22
        said = words > 0
        chosen = relevance.detach().gather(1, key.unsqueeze(1)).exp()
        shown = self.shown(losses, words) | {
            "reward": reward[said].mean(),
            "better": (gain[said] > 0).float().mean(),
            "gain_deviation": gain[said].std(),
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
        gain = torch.zeros_like(reward)
        gain[mine] = (reward[mine] - self.rewards[positions]).nan_to_num()
        self._keep(positions, reward[mine])
        return reward, gain

    def _controlled(self, gain: Tensor) -> Tensor:
        """The gains, or what a control puts in their place: other captions' gains, or noise of the same size."""
        if self.settings.reward == "own":
            return gain
        real = gain != 0
        values = gain[real]
        if self.settings.reward == "shuffled":
            values = values[torch.randperm(len(values), device=values.device)]
        else:
            values = torch.randn_like(values) * values.square().mean().sqrt()
        return gain.masked_scatter(real, values)

    def _keep(self, positions: Tensor, rewards: Tensor) -> None:
        """Captions of a batch may be shared between processes; all of them remember all rewards."""
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            news = torch.zeros(2, len(self.rewards), device=rewards.device)
            news[0, positions], news[1, positions] = rewards.float(), 1.0
            torch.distributed.all_reduce(news)
            self.rewards.copy_(torch.where(news[1] > 0, news[0], self.rewards))
        else:
            self.rewards[positions] = rewards.to(self.rewards.dtype)


def key_frame_loss(gain: Tensor, relevance: Tensor, key: Tensor, worse: Worse = "lowers") -> Tensor:
    """L_R+ (Eq. 21), or L_R (Eq. 19), of each caption, (B, S).

    gain (B, S) is R_e - R_e-1, relevance (B, F) is log alpha, key is (B,). A key frame that did better gets likelier,
    one that did worse less likely. log(1 - alpha) is summed up from the other frames, so its gradient is exact however
    close to 1 alpha is; where there is one frame there is no choice.
    """
    chosen = relevance.gather(1, key.unsqueeze(1))  # log alpha, (B, 1)
    if worse == "eq_19":
        return -gain * chosen
    is_key = torch.zeros_like(relevance, dtype=torch.bool).scatter(1, key.unsqueeze(1), True)
    others = relevance.masked_fill(is_key, float("-inf"))
    alone = others.isneginf().all(1, keepdim=True)
    others = others.masked_fill(alone, 0.0).logsumexp(1, keepdim=True).masked_fill(alone, 0.0)  # log(1 - alpha), (B, 1)
    blame = -gain * others if worse == "as_printed" else gain * others
    return torch.where(gain > 0, -gain * chosen, torch.where(gain < 0, blame, 0.0))


class FixedFocusSettings(Settings):
    restart: bool = True  # the captioner begins anew; no: only its key frames stop moving


class FixedFocus(TwoPasses):
    """Cross entropy of both passes with the key frames that the weights at the beginning of the phase choose."""

    Settings = FixedFocusSettings

    def __init__(self, settings: FixedFocusSettings, material: Material) -> None:
        super().__init__()
        self.restart = self.starts_anew = settings.restart

    def begin(self, model: LogitModel) -> None:
        _refocuser(model).fix_key_frames(self.restart)

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        losses, words, _, _ = self.of_captions(model, batch, sampling_rate)
        return Loss(losses.sum(), words.sum(), self.shown(losses, words))


def _refocuser(model: LogitModel) -> Refocuser:
    if not hasattr(model, "use_two_passes"):
        raise WatchwordError("this loss is for a model with two passes: model.name=refocus model.variant=vre")
    return model  # type: ignore[return-value]
