"""Global2Local (G2L): key frames first, key regions within them second.

Dai et al., Global2Local: A Joint-Hierarchical Attention for Video Captioning.

| equation | line |
|---|---|
| Eq. 1, 7, f' = sigma(W f + b), also of clips and regions | `encode`, `self.project` |
| Eq. 2, 3, bilinear attention | `layers/attention.py` |
| Eq. 4, x_G: attended frames, attended clips, aligned embedding | `_attend_globally` |
| Eq. 5, 6, Gumbel top-k sampler | `layers/attention.py` |
| Eq. 8, weights folded to the frames that have regions | `layers/attention.py: folding`, `_choose` |
| Eq. 9, x_L: regions of the chosen frames, one attention for all | `_attend_locally` |
| Eq. 10, 11, h = GRU([x_G, x_L], e, h), two layers | `step` |
| Eq. 12, 13, words and cross entropy | `Model.logits`, `losses/objective.py` |

How we read it, and where we differ (docs/papers/global2local.md has the reasons): frames and clips have the same
instants (`instants`; ours, where asked: every frame has the clip nearest in time); folding follows the times of the
streams instead of counting to three; phi is taken of each instant, once a video, and then weighed (for a rectifier
phi(a x) = a phi(x), the bias apart); folded weights are made to sum to 1 again; dropout is ours. The first state is 0;
ours, where asked, is a learned map of the mean features (`first_state`), which reaches the words without attention.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.errors import WatchwordError
from watchword.layers.attention import (
    NOT_SHOWN,
    BilinearAttention,
    BilinearAttentionWithin,
    folding,
    gumbel_top_k,
    masked_mean,
    nearest,
    time_step_means,
)
from watchword.layers.projection import Projection
from watchword.models.model import Model, ModelConfig
from watchword.tensors import BOS, Memory, State, Step, Stream, Streams, at_least_float32
from watchword.types import Diagnostics, Mark

SAME_INSTANT = 0.05  # seconds between a frame and its clip
LEAST_WEIGHT = 1e-8  # of a frame that has regions: every one can be chosen, however sure the attention is of another


class Global2LocalConfig(ModelConfig):
    variant: Literal["global", "aligned", "local"] = "local"  # rows 1, 2, 3 to 6 of Table 1
    frames: int = Field(2, ge=1)  # k key frames; 2 is the paper's best
    # how key frames are chosen in training: `gumbel` (Eq. 5, 6); ours: `straight_through`, one-hot rows with a gradient
    # of tempered ones; `softmax`, the tempered rows without noise; `argmax`, no gradient. Elsewhere: the largest.
    sampler: Literal["gumbel", "straight_through", "softmax", "argmax"] = "gumbel"
    scale: float = Field(10.0, gt=0)  # lambda
    temperature: float = Field(1e-4, gt=0)  # tau
    embedding_size: int = Field(300, ge=1)
    hidden_size: int = Field(768, ge=1)  # of both layers
    feature_size: int = Field(1024, ge=1)  # d' of frames, clips and regions
    aligned_size: int = Field(512, ge=1)  # d_al
    attention_size: int = Field(384, ge=1)  # d_a
    dropout: float = Field(0.5, ge=0, lt=1)  # ours: not stated
    first_state: Literal["zeros", "mean"] = "zeros"  # not stated; ours: `mean`, a map of the mean features
    instants: Literal["same", "nearest"] = "same"  # of frames and clips; ours: the clip nearest to each frame
    frame_stream: str = "appearance"  # 2D
    clip_stream: str = "motion"  # 3D
    region_stream: str = "regions"
    normalise: bool = False  # ours: projected features and the aligned embedding, before the ReLU


class Global2Local(Model):
    """Attention of a step: the frame and clip streams by their names, `aligned:` the frame stream for the aligned
    attention, `local:` the region stream for the regions of the chosen frames, each frame with the same share."""

    Config = Global2LocalConfig
    config: Global2LocalConfig

    def __init__(self, config: Global2LocalConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        self.aligned, self.local = config.variant != "global", config.variant == "local"
        roles = {"frames": config.frame_stream, "clips": config.clip_stream}
        if self.local:
            roles["regions"] = config.region_stream
        missing = [stream for stream in roles.values() if stream not in widths]
        if missing:
            raise WatchwordError(
                f"global2local ({config.variant}) reads {', '.join(roles.values())}; the recipe's data.streams lack "
                f"{missing[0]}: add it, or name another with model.frame_stream, clip_stream or region_stream"
            )
        size, hidden, attention = config.feature_size, config.hidden_size, config.attention_size
        self.roles = roles
        self.project = nn.ModuleDict(
            {role: Projection(widths[stream], size, config.normalise) for role, stream in roles.items()}
        )
        self.attend = nn.ModuleDict({role: BilinearAttention(hidden, size, attention) for role in ("frames", "clips")})
        if self.local:
            self.attend["regions"] = BilinearAttentionWithin(hidden, size, attention)
        context_size = len(roles) * size
        if self.aligned:
            self.attend["aligned"] = BilinearAttention(hidden, 2 * size, attention)
            self.embed_aligned = Projection(2 * size, config.aligned_size, config.normalise)
            context_size += config.aligned_size
        if config.first_state == "mean":
            self.first_state = nn.Linear(2 * size, 2 * hidden)
        self.first_layer = nn.GRUCell(context_size + config.embedding_size, hidden)
        self.second_layer = nn.GRUCell(hidden, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    # --- once a video ----------------------------------------------------------------------------------------------

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        frames, clips = streams[self.roles["frames"]], streams[self.roles["clips"]]
        memory: Memory = {}
        for role, stream in (("frames", frames), ("clips", clips)):
            values, mask = time_step_means(stream)
            memory[role] = self._project(role, values) * mask.unsqueeze(-1)  # Eq. 1: (B, F, D)
            memory[f"{role}.keys"] = self.attend[role].keys(memory[role])
            memory[f"{role}.mask"] = mask
            # where the weight of a time step sits in the picture: evenly on its real locations
            share = stream.mask.to(values.dtype)
            memory[f"{role}.locations"] = share / share.sum(-1, keepdim=True).clamp(min=1)  # (B, F, N)
        if self.aligned:
            if self.config.instants == "same":
                self._check_instants(frames, clips)
            clip = nearest(frames.times, clips.times, memory["clips.mask"])  # (B, F)
            same_instant = memory["clips"].gather(1, clip.unsqueeze(2).expand(-1, -1, memory["clips"].shape[2]))
            both = torch.cat([memory["frames"], same_instant], -1)  # [f', v']: (B, F, 2 D)
            memory["aligned"] = self.embed_aligned(both).relu()  # phi of Eq. 4: (B, F, d_al)
            memory["aligned.keys"] = self.attend["aligned"].keys(both)
        if self.local:
            regions = streams[self.roles["regions"]]
            memory["regions"] = self._project("regions", regions.values)  # Eq. 7: (B, G, N, D)
            memory["regions.keys"] = self.attend["regions"].keys(memory["regions"])
            memory["regions.mask"] = regions.mask
            fold = folding(frames.times, memory["frames.mask"], regions.times, regions.mask.any(-1))
            memory["folding"] = fold.to(at_least_float32(memory["frames"]).dtype)
        if self.config.first_state == "zeros":
            nothing = memory["frames"].new_zeros(len(memory["frames"]), 1, self.config.hidden_size)
            return memory, {"hidden1": nothing, "hidden2": nothing}
        means = [masked_mean(memory[role], memory[f"{role}.mask"]) for role in ("frames", "clips")]
        hidden1, hidden2 = self.first_state(torch.cat(means, -1)).tanh().unsqueeze(1).chunk(2, -1)
        return memory, {"hidden1": hidden1, "hidden2": hidden2}

    def _check_instants(self, frames: Stream, clips: Stream) -> None:
        """Refuses videos whose clips are not at the instants of their frames; a video without clips is none of them."""
        real, there = frames.mask.any(-1), clips.mask.any(-1)  # (B, F), (B, G)
        nearest_clip = nearest(frames.times, clips.times, there)
        distance = (frames.times - clips.times.gather(1, nearest_clip)).abs().masked_fill(~real, 0).amax(1)
        unlike = (real.sum(1) != there.sum(1)) | (distance > SAME_INSTANT)
        unlike &= there.any(1) & real.any(1)
        if unlike.any():
            row = int(unlike.nonzero()[0])
            frame_count, clip_count = int(real[row].sum()), int(there[row].sum())
            raise WatchwordError(
                f"a video has {frame_count} time steps of {self.roles['frames']} and {clip_count} of "
                f"{self.roles['clips']}, {float(distance[row]):.2f} s apart; alignment needs the same instants: "
                "extract both with the same time_steps, or set model.instants=nearest"
            )

    def _project(self, role: str, values: Tensor) -> Tensor:
        return self.dropout(self.project[role](self.feature_dropout(values))).relu()

    # --- once a word -----------------------------------------------------------------------------------------------

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        query = state["hidden2"]  # h_t-1, the decoder's output
        contexts, weights = self._attend_globally(query, memory)
        attention = {
            f"aligned:{self.roles['frames']}" if role == "aligned" else self.roles[role]: weights[role].unsqueeze(-1)
            * memory["clips.locations" if role == "clips" else "frames.locations"].unsqueeze(1)
            for role in weights
        }  # (B, S, F, N)
        if self.local:
            local, local_weights = self._attend_locally(query, self._choose(weights["aligned"], memory), memory)
            contexts.append(local)
            attention[f"local:{self.roles['regions']}"] = local_weights
        seen = torch.cat([*contexts, self.dropout(self.embedding(words))], -1)  # Eq. 11: (B, S, X + E)
        hidden1 = _one_step(self.first_layer, seen, state["hidden1"])  # Eq. 10
        hidden2 = _one_step(self.second_layer, self.dropout(hidden1), query)
        return Step(self.dropout(hidden2), {"hidden1": hidden1, "hidden2": hidden2}, attention)

    def _attend_globally(self, query: Tensor, memory: Memory) -> tuple[list[Tensor], dict[str, Tensor]]:
        """Eq. 4: the parts of x_G, and the weights over time steps that made them, (B, S, F)."""
        contexts, found = [], {}
        for role in ("frames", "clips", "aligned") if self.aligned else ("frames", "clips"):
            where = "clips" if role == "clips" else "frames"
            found[role] = self.attend[role](query, memory[f"{role}.keys"], memory[f"{where}.mask"])  # Eq. 2
            contexts.append(torch.bmm(found[role], memory[role]))
        return contexts, found

    def _choose(self, aligned: Tensor, memory: Memory) -> Tensor:
        """Which frames are key frames: aligned weights (B, S, F) -> rows (B, S, k, G), one-hot or, learning, nearly."""
        real = memory["regions.mask"].any(-1).unsqueeze(1)  # (B, 1, G)
        folded = (aligned.unsqueeze(3) * memory["folding"].unsqueeze(1)).sum(2)  # no product that autocast rounds
        weights = (folded + LEAST_WEIGHT) * real  # Eq. 8
        weights = weights / weights.sum(-1, keepdim=True).masked_fill(~real.any(-1, keepdim=True), 1.0)
        if self.training and self.config.sampler != "argmax":
            return gumbel_top_k(
                weights,
                self.config.frames,
                scale=self.config.scale,
                temperature=self.config.temperature,
                noise=self.config.sampler != "softmax",
                straight_through=self.config.sampler == "straight_through",
            )
        largest, chosen = weights.sort(dim=-1, descending=True, stable=True)  # of equal ones the first
        largest, chosen = largest[..., : self.config.frames], chosen[..., : self.config.frames]
        return nn.functional.one_hot(chosen, weights.shape[-1]) * (largest > 0).unsqueeze(-1).to(weights.dtype)

    def _attend_locally(self, query: Tensor, rows: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
        """Eq. 9: x_L (B, S, D) and its weights (B, S, G, N), a distribution.

        In training a row may be a mixture of frames. Each region is then mixed over the frames that have it: `shown` is
        their share of the row, and what is masked in a frame has no part in the mixture.
        """
        values, keys, mask = memory["regions"], memory["regions.keys"], memory["regions.mask"]
        if not rows.requires_grad:  # one-hot rows, or none
            chosen, video = rows.argmax(-1), torch.arange(len(rows), device=rows.device).view(-1, 1, 1)  # (B, S, k)
            shown = mask[video, chosen] * rows.amax(-1, keepdim=True)  # (B, S, k, N)
            weights = self.attend["regions"](query, keys[video, chosen], shown)
            local_weights = torch.einsum("bskg,bskn->bsgn", rows, weights)
            gathered = None if self.training else _gathered_sum(values, chosen, weights)
        else:  # multiplied, so that the choice itself can learn
            real = mask.to(rows.dtype)
            shown = torch.einsum("bskg,bgn->bskn", rows, real)
            least = shown.clamp(min=NOT_SHOWN)
            mixed = torch.bmm(rows.flatten(1, 2), (keys * real.unsqueeze(-1)).flatten(2)).view(*shown.shape, -1)
            weights = self.attend["regions"](query, mixed / least.unsqueeze(-1), shown)
            local_weights = torch.einsum("bskg,bskn->bsgn", rows, weights / least) * real.unsqueeze(1)
            gathered = None
        # in training the sum over j and i of Eq. 9 is one product
        context = torch.bmm(local_weights.flatten(2), values.flatten(1, 2)) if gathered is None else gathered
        return context, local_weights / local_weights.sum((-2, -1), keepdim=True).clamp(min=LEAST_WEIGHT)

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """The k frames selected for each word (Eq. 8); the regions of others have no weight."""
        if not self.local:
            return Diagnostics()
        regions = self.roles["regions"]
        memory, state = self.encode(streams)
        weights = []
        for words in (torch.full_like(caption[:, :, 0], BOS), *caption[:, :, :-1].unbind(2)):
            step = self.step(words, memory, state)
            weights.append(step.attention[f"local:{regions}"][0, 0].sum(-1))  # (F,)
            state = step.state
        times = streams[regions].times[0]
        chosen = torch.stack(weights).nonzero().tolist()
        return Diagnostics(tuple(Mark("chosen_frame", float(times[frame]), word) for word, frame in chosen))


def _gathered_sum(values: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """values (B, G, N, D) of the chosen frames (B, S, k), weighed (B, S, k, N): (B, S, D).

    Only the rows of the chosen frames are read, and no copy of them is made.
    """
    videos, time_steps, locations, _ = values.shape
    frame = chosen + time_steps * torch.arange(videos, device=chosen.device).view(-1, 1, 1)
    row = locations * frame.unsqueeze(-1) + torch.arange(locations, device=chosen.device)  # (B, S, k, N)
    row, weights = row.flatten(0, 1).flatten(1), weights.flatten(0, 1).flatten(1)  # (B S, k N)
    bags = nn.functional.embedding_bag(row, values.flatten(0, 2), mode="sum", per_sample_weights=weights)
    return bags.view(*chosen.shape[:2], -1)


def _one_step(cell: nn.GRUCell, inputs: Tensor, hidden: Tensor) -> Tensor:
    """A step of a GRU for (B, S) rows."""
    return cell(inputs.flatten(0, 1), hidden.flatten(0, 1)).unflatten(0, inputs.shape[:2])
