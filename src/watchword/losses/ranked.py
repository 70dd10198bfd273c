"""The ranked loss: what an LSTM holds after all time steps must lie nearer to each time step than to the one before it.

Cherian et al., Spatio-Temporal Ranked-Attention Networks for Video Captioning, WACV 2020, Eq. 6 and 7:
sum over t of softplus(<x_ST, x_t-1> + beta - <x_ST, x_t>), which a rank-SVM (Eq. 4, 5) minimises over a free x_ST.

It stands beside a loss of words, whichever: `words = { name = "cross_entropy" }`, `{ name = "reinforce", ... }`. The
model ranks anew for every word, so ranking is collected in the passes over captions that the loss of words makes
(`RankedSteps`), and no pass is made for ranking alone. Only steps with a real word count, not those behind a caption's
end. Where scheduled sampling puts an early end into a caption, one step of it goes uncounted; an empty caption that
pads the batch counts with its first step, which is the same for all captions of a video.

The log shows the mean share of ST (Eq. 12) over all words of an epoch, `st_share STREAM`.

Where we differ: the mean over pairs of time steps instead of their sum, so that the weight means the same for 5 steps
and for 28; a pair counts if both time steps are real.
"""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import softplus

from watchword.config import Settings
from watchword.errors import WatchwordError
from watchword.losses.objective import LogitModel, Loss, Material, Objective
from watchword.tensors import EOS, PAD, Batch, Memory, State, Step, Streams


@runtime_checkable
class Ranker(Protocol):
    """A model that reads time steps in their order for every word."""

    def projections(self, state: State) -> Mapping[str, Tensor]:
        """Stream -> <x_ST, x_t> (B, S, F), of the word that led to this state."""
        ...

    def share_of_st(self, state: State) -> Mapping[str, Tensor]:
        """Stream -> the weight of what was read in order, (B, S); the rest is what was read otherwise."""
        ...


class RankedSettings(Settings):
    weight: float = Field(1.0, ge=0)  # ours: not stated; beside the loss of a word
    margin: float = Field(1.0, gt=0)  # beta; ours: not stated
    words: dict[str, Any] = Field({"name": "cross_entropy"})  # the loss that it stands beside


class Ranked(Objective):
    Settings = RankedSettings

    def __init__(self, settings: RankedSettings, material: Material) -> None:
        from watchword.losses import build_loss  # the table that this loss is itself in

        super().__init__()
        self.settings = settings
        self.words = build_loss(settings.words, material)
        self.once_a_video = self.words.once_a_video

    def epoch_weight(self, material: Material) -> float:
        return self.words.epoch_weight(material)

    def forward(self, model: LogitModel, batch: Batch, sampling_rate: float) -> Loss:
        steps = RankedSteps(model, self.settings.margin)
        loss: Loss = self.words(steps, batch, sampling_rate)
        ranked = steps.mean()
        total = loss.total + self.settings.weight * ranked * loss.weight  # a word weighs the same in both
        shown = {"words": (loss.total / loss.weight.clamp(min=1)).detach(), "ranked": ranked}
        shown |= {f"st_share {name}": share for name, share in steps.shares().items()}
        return Loss(total, loss.weight, loss.shown | shown)


class RankedSteps:
    """A model whose ranking loss is collected during teacher forcing."""

    def __init__(self, model: LogitModel, margin: float) -> None:
        if not isinstance(model, Ranker):
            raise WatchwordError("the loss 'ranked' needs a model that reads time steps in order: model.name=stats")
        self.model: Any = model
        self.margin = margin
        self.pairs: dict[str, Tensor] = {}
        self.total: Tensor | float = 0.0
        self.steps: Tensor | float = 0.0
        self.st: dict[str, Tensor] = {}  # sums of Eq. 12's weight of ST over words, by stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        for name, stream in streams.items():
            seen = stream.mask.any(-1)
            self.pairs[name] = seen[:, :-1] & seen[:, 1:]  # (B, F - 1)
        return self.model.encode(streams)

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        step: Step = self.model.step(words, memory, state)
        if torch.is_grad_enabled():  # a baseline's greedy caption teaches nothing
            projections = self.model.projections(step.state)
            if not projections:
                raise WatchwordError(
                    "the loss 'ranked' found nothing ranked: set model.pooling to ranked or mean_ranked and "
                    "model.variant to st or stats, or phases.0.loss.name=cross_entropy"
                )
            real = (words != PAD) & (words != EOS)  # (B, S)
            for name, projected in projections.items():
                losses = ranking_losses(projected, self.pairs[name], self.margin)
                self.total = self.total + (losses * real).sum()
            for name, share in self.model.share_of_st(step.state).items():
                self.st[name] = self.st.get(name, 0) + (share.detach() * real).sum()
            self.steps = self.steps + real.sum()
        return step

    def shares(self) -> dict[str, Tensor]:
        """The mean weight of ST over words, by stream."""
        return {name: total / torch.as_tensor(self.steps).clamp(min=1) for name, total in self.st.items()}

    def mean(self) -> Tensor:
        """Per word, summed over streams."""
        return torch.as_tensor(self.total) / torch.as_tensor(self.steps).clamp(min=1)


def ranking_losses(projections: Tensor, pairs: Tensor, margin: float) -> Tensor:
    """Eq. 6, 7: projections (B, S, F), real pairs of neighbours (B, F - 1) -> (B, S)."""
    zeta = projections[..., :-1] + margin - projections[..., 1:]  # Eq. 7
    counts = pairs.sum(-1, keepdim=True).clamp(min=1)  # (B, 1); one time step alone has nothing to be ranked by
    return (softplus(zeta) * pairs.unsqueeze(1)).sum(-1) / counts
