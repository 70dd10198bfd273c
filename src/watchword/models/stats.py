"""STaTS: two attentions a word, over locations then time (ST) and over time then locations (TS), and their fusion.

Cherian, Wang, Hori, Marks, Spatio-Temporal Ranked-Attention Networks for Video Captioning, WACV 2020,
doi:10.1109/WACV45572.2020.9093291.

| paper | line |
|---|---|
| Eq. 1, 2: e = softmax(w' tanh(W_h h + W_x x + b)) | `AdditiveAttention` |
| Eq. 3, Sec. 3.1.1: locations, by their mean over time (a grid) or in each step (regions) | `location_weights` |
| Eq. 8: x_ST is what an LSTM holds after all time steps | `SpatioTemporal.pool` |
| Eq. 6, 7: the ranked loss over <x_ST, x_t> | `losses/ranked.py`, fed by `Stats.projections` |
| Eq. 9 to 11: one time step by a softmax of low temperature, then its locations | `TemporoSpatial` |
| Eq. 12: fusion by the language state | `Fusion` |
| Sec. 4.1: self-attention over the words so far, beside the LSTM's state | `Stats.step`, `query` |
| Table 1, Table 2 | `variant`, `pooling` |

`ranked` and `lstm` are one network; `ranked` is trained with the loss `ranked`. The two rows of Table 2 with temporal
attention have no spatial attention: `attention` is over all locations of all time steps, `mean_attention` over time
steps whose locations are averaged (Sec. 4.2, iv and v).

Where we differ: the paper does not say how the mean stands beside the LSTM (here: side by side, one matrix back to the
features' width), what the language LSTM reads and shows (here as in `soft_attention`: word and features; a deep
output), how it begins (a map of the mean feature), how streams are combined (each has its own attention, contexts stand
side by side), nor the temperature. A region may be present in some time steps only: attention is over the real ones.

Speed: everything of a video that no word changes is computed once in `encode`: embedded features, keys, and the keys of
every location, so that the keys of TS' chosen time step are a mixture of keys, not a new product. The LSTM over time
steps reads all (B, S) captions as its rows in one fused call. A stream with one location has no spatial attention: its
x_ST is the same for every word and is computed once a video.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.errors import WatchwordError
from watchword.layers.attention import AdditiveAttention, never_empty
from watchword.layers.projection import Projection
from watchword.layers.recurrent import LSTMCell, remember_at_first
from watchword.models.model import Model, ModelConfig
from watchword.tensors import BOS, CATEGORY, Memory, State, Step, Streams
from watchword.types import Bars, Diagnostics, StreamName

Pooling = Literal["mean", "lstm", "mean_lstm", "attention", "mean_attention", "ranked", "mean_ranked"]
TINY = 1e-12  # a location that the chosen time step does not show


class StatsConfig(ModelConfig):
    variant: Literal["st", "ts", "stats"] = "stats"  # Table 1
    pooling: Pooling = "mean_ranked"  # Table 2
    embedding_size: int = Field(256, ge=1)  # Sec. 4.1
    feature_size: int = Field(512, ge=1)  # Sec. 4.1
    attention_size: int = Field(128, ge=1)  # Sec. 4.1
    hidden_size: int = Field(512, ge=1)  # ours: not stated
    temperature: float = Field(0.1, gt=0)  # ours: "low"
    # ours: `straight_through` reads the time step with the largest weight alone, with the gradient of the soft choice
    choice: Literal["soft", "straight_through"] = "soft"
    normalise: bool = False  # ours: embedded features, before the ReLU
    without_grid: tuple[str, ...] = ("regions",)  # streams whose locations differ between time steps (Eq. 3)


@dataclass(frozen=True)
class Attended:
    """What one branch attends to."""

    features: Tensor  # (B, S, D)
    weights: Tensor  # (B, S, F, N)
    projections: Tensor | None = None  # (B, S, F) <x_ST, x_t>, where an LSTM reads the time steps
    time_steps: Tensor | None = None  # (B, S, F) the weights of Eq. 9, where TS chooses


class SpatioTemporal(nn.Module):
    """Sec. 3.1: locations first, the same in all time steps of a grid; then the time steps, in their order."""

    def __init__(self, query_size: int, size: int, attention_size: int, pooling: Pooling, has_grid: bool) -> None:
        super().__init__()
        self.has_grid = has_grid
        self.attend = AdditiveAttention(query_size, size, attention_size)
        self.reader = None if pooling == "mean" else nn.LSTM(size, size)
        if self.reader is not None:
            remember_at_first(self.reader)
        self.join = nn.Linear(2 * size, size) if pooling in ("mean_lstm", "mean_ranked") else None

    def encode(self, values: Tensor, mask: Tensor) -> Memory:
        """values (B, F, N, D), 0 where the mask (B, F, N) is."""
        memory = {"values": values, "mask": mask}
        if mask.shape[2] == 1:  # nothing to choose from: the same for every word
            memory["pooled"], projections = self.pool(values, mask)
            return memory if projections is None else memory | {"projections": projections}
        if self.has_grid:
            cells = values.sum(1) / mask.sum(1).clamp(min=1).unsqueeze(-1)  # Sec. 3.1.1, x~_j: (B, N, D)
            return memory | {"keys": self.attend.keys(cells).unsqueeze(1)}  # (B, 1, N, A)
        return memory | {"keys": self.attend.keys(values.flatten(1, 2)).unsqueeze(1)}  # (B, 1, F*N, A)

    def forward(self, query: Tensor, memory: Memory) -> Attended:
        values, mask = memory["values"], memory["mask"]
        time_steps = time_step_weights(mask, values.dtype)[
            :, None, :, None
        ]  # what is read in order is attended to evenly
        if mask.shape[2] == 1:
            captions = query.shape[1]
            projections = memory["projections"].expand(-1, captions, -1) if "projections" in memory else None
            weights = time_steps.expand(-1, captions, -1, -1)
            return Attended(memory["pooled"].expand(-1, captions, -1), weights, projections)
        locations = self.location_weights(query, memory["keys"], mask)
        features, projections = self.pool(locations.transpose(1, 2) @ values, mask)
        return Attended(features, locations * time_steps, projections)

    def location_weights(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """Eq. 3: a distribution over the locations of each time step, (B, S, F, N). A grid has one for all steps."""
        energies = self.attend.energies(query, keys)  # (B, S, N) or (B, S, F*N)
        energies = energies.unsqueeze(2) if self.has_grid else energies.view(*query.shape[:2], *mask.shape[1:])
        shown = never_empty(mask).unsqueeze(1)  # a time step that shows nothing: its zeros, anyhow weighed
        return energies.masked_fill(~shown, float("-inf")).softmax(-1)

    def pool(self, time_steps: Tensor, mask: Tensor) -> tuple[Tensor, Tensor | None]:
        """x^_t (B, F, S, D) -> x_ST (B, S, D), <x_ST, x^_t> (B, S, F). Rows of the LSTM are all (B, S) captions."""
        mean = torch.einsum("bf,bfsd->bsd", time_step_weights(mask, time_steps.dtype), time_steps)
        if self.reader is None:
            return mean, None
        batch, _, captions, _ = time_steps.shape
        outputs, _ = self.reader(time_steps.transpose(0, 1).flatten(1, 2))  # (F, B*S, D)
        seen = mask.any(-1)
        last = (seen * torch.arange(seen.shape[1], device=seen.device)).amax(1)  # (B,) time steps after it only pad
        rows = torch.arange(batch, device=seen.device)
        ordered = outputs.unflatten(1, (batch, captions))[last, rows]  # Eq. 8: (B, S, D)
        projections = torch.einsum("bsd,bfsd->bsf", ordered, time_steps)
        if self.join is None:
            return ordered, projections
        return self.join(torch.cat([mean, ordered], -1)), projections


class TemporalAttention(nn.Module):
    """Table 2, the rows without spatial attention: over all locations, or over time steps with averaged locations."""

    def __init__(self, query_size: int, size: int, attention_size: int, pooling: Pooling) -> None:
        super().__init__()
        self.averaged = pooling == "mean_attention"
        self.attend = AdditiveAttention(query_size, size, attention_size)

    def encode(self, values: Tensor, mask: Tensor) -> Memory:
        rows = average_locations(values, mask) if self.averaged else values.flatten(1, 2)  # (B, L, D)
        return {"values": rows, "keys": self.attend.keys(rows), "mask": mask}

    def forward(self, query: Tensor, memory: Memory) -> Attended:
        mask = memory["mask"]
        real = mask.any(-1) if self.averaged else mask.flatten(1)  # (B, L)
        features, weights = self.attend(query, memory["keys"], memory["values"], real)
        if self.averaged:
            return Attended(features, weights.unsqueeze(-1) * location_weights(mask, weights.dtype).unsqueeze(1))
        return Attended(features, weights.unflatten(2, mask.shape[1:]))


class TemporoSpatial(nn.Module):
    """Sec. 3.2: first one time step, then its locations."""

    def __init__(
        self, query_size: int, size: int, attention_size: int, temperature: float, straight_through: bool = False
    ) -> None:
        super().__init__()
        self.temperature, self.straight_through = temperature, straight_through
        self.choose = AdditiveAttention(query_size, size, attention_size)
        self.attend = AdditiveAttention(query_size, size, attention_size)

    def encode(self, values: Tensor, mask: Tensor) -> Memory:
        return {
            "values": values,
            "mask": mask,
            "time_step_keys": self.choose.keys(average_locations(values, mask)).unsqueeze(1),  # (B, 1, F, A)
            "location_keys": self.attend.keys(values) * mask.unsqueeze(-1),  # (B, F, N, A)
        }

    def forward(self, query: Tensor, memory: Memory) -> Attended:
        values, mask, location_keys = memory["values"], memory["mask"], memory["location_keys"]
        energies = self.choose.energies(query, memory["time_step_keys"]) / self.temperature
        soft = self.choose.softmax(energies, mask.any(-1))  # Eq. 9: (B, S, F)
        time_steps = one_hot_of(soft) if self.straight_through else soft
        # W_x is linear, so the keys of the chosen time step are a mixture of keys. Each location is mixed over the time
        # steps in which it is real; `shown` is their share of the choice: 1 in a grid, 0 or 1 of a region at last.
        shown = torch.bmm(time_steps, mask.to(time_steps.dtype)).clamp(min=TINY)  # (B, S, N)
        keys = torch.bmm(time_steps, location_keys.flatten(2)).view(*shown.shape, -1) / shown.unsqueeze(-1)
        locations = (self.attend.energies(query, keys) + shown.log()).softmax(-1)  # Eq. 10: (B, S, N)
        weights = time_steps.unsqueeze(-1) * (locations / shown).unsqueeze(2) * mask.unsqueeze(1)  # (B, S, F, N)
        return Attended(torch.bmm(weights.flatten(2), values.flatten(1, 2)), weights, time_steps=soft)  # Eq. 11


class Fusion(nn.Module):
    """Eq. 12: how much of x_ST, how much of x_TS, by the next word."""

    def __init__(self, query_size: int, size: int, attention_size: int) -> None:
        super().__init__()
        self.from_st = nn.Linear(size, attention_size)
        self.from_ts = nn.Linear(size, attention_size)
        self.from_query = nn.Linear(query_size, attention_size, bias=False)  # W_h, one for both
        self.st_energy = nn.Linear(attention_size, 1, bias=False)
        self.ts_energy = nn.Linear(attention_size, 1, bias=False)

    def forward(self, query: Tensor, st: Tensor, ts: Tensor) -> Tensor:
        """The share of ST, (B, S, 1); the rest is TS'."""
        asked = self.from_query(query)
        beta1 = self.st_energy((self.from_st(st) + asked).tanh())
        beta2 = self.ts_energy((self.from_ts(ts) + asked).tanh())
        return (beta1 - beta2).sigmoid()


class Stats(Model):
    Config = StatsConfig
    config: StatsConfig

    def __init__(self, config: StatsConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        self.looked_at = tuple(name for name in widths if name != CATEGORY)
        if not self.looked_at:
            raise WatchwordError(f"stats needs a stream to attend to beside {CATEGORY}: add one to data.streams")
        hidden, words, size, width = (
            config.hidden_size,
            config.embedding_size,
            config.feature_size,
            config.attention_size,
        )
        query, seen = hidden + words, len(widths) * size
        self.project = nn.ModuleList(Projection(own, size, config.normalise) for own in widths.values())
        self.st, self.ts, self.fuse = nn.ModuleList(), nn.ModuleList(), nn.ModuleList()
        for name in self.looked_at:
            if config.variant != "ts":
                if config.pooling in ("attention", "mean_attention"):
                    self.st.append(TemporalAttention(query, size, width, config.pooling))
                else:
                    has_grid = StreamName.parse(name).base not in config.without_grid
                    self.st.append(SpatioTemporal(query, size, width, config.pooling, has_grid))
            if config.variant != "st":
                straight = config.choice == "straight_through"
                self.ts.append(TemporoSpatial(query, size, width, config.temperature, straight))
            if config.variant == "stats":
                self.fuse.append(Fusion(query, size, width))
        self.word_query = nn.Linear(words, words, bias=False)
        self.word_key_value = nn.Linear(words, 2 * words, bias=False)
        self.first_state = nn.Linear(seen, 2 * hidden)
        self.cell = LSTMCell(words + seen, hidden)
        self.deep_output = nn.Linear(hidden + seen + words, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory: Memory = {}
        means = []
        for project, name in zip(self.project, self.widths, strict=True):
            mask = streams[name].mask
            embedded = self.dropout(project(self.feature_dropout(streams[name].values))).relu()
            embedded = embedded * mask.unsqueeze(-1)  # (B, F, N, D)
            means.append(embedded.sum((1, 2)) / mask.sum((1, 2)).clamp(min=1).unsqueeze(-1))
            memory[f"{name}.present"] = mask.flatten(1).any(1)[:, None, None]
            if name == CATEGORY:
                memory[CATEGORY] = means[-1].unsqueeze(1)  # (B, 1, D)
                continue
            row = self.looked_at.index(name)
            for part, branches in (("st", self.st), ("ts", self.ts)):
                if branches:
                    kept = branches[row].encode(embedded, mask)
                    memory |= {f"{name}.{part}.{key}": tensor for key, tensor in kept.items()}
        hidden, cell = self.first_state(torch.cat(means, -1)).tanh().unsqueeze(1).chunk(2, -1)
        nothing = hidden.new_zeros(len(hidden), 1, 0, 2 * self.config.embedding_size)
        return memory, {"hidden": hidden, "cell": cell, "words": nothing}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        embedded = self.dropout(self.embedding(words))  # (B, S, E)
        word_states = torch.cat(
            [state["words"], self.word_key_value(embedded).unsqueeze(2)], 2
        )  # (B, S, words so far, 2E)
        keys, values = word_states.chunk(2, -1)
        recalled = nn.functional.scaled_dot_product_attention(self.word_query(embedded).unsqueeze(2), keys, values)
        query = torch.cat([state["hidden"], recalled.squeeze(2)], -1)  # Sec. 4.1
        contexts, attention, facts = [], {}, {}
        for row, name in enumerate(self.looked_at):
            seen, share = self._attend(row, query, memory)
            contexts.append(seen.features.tanh() * memory[f"{name}.present"])
            attention[name] = seen.weights
            facts[f"{name}.share"] = share
            if seen.projections is not None:
                facts[f"{name}.projections"] = seen.projections
            if seen.time_steps is not None:
                facts[f"{name}.time_steps"] = seen.time_steps
        if CATEGORY in memory:
            contexts.append(memory[CATEGORY].expand(-1, words.shape[1], -1))
        hidden, cell = self.cell(torch.cat([embedded, *contexts], -1), state["hidden"], state["cell"])
        outputs = self.deep_output(torch.cat([hidden, *contexts, embedded], -1)).tanh()
        return Step(self.dropout(outputs), {"hidden": hidden, "cell": cell, "words": word_states, **facts}, attention)

    def retrace(self, streams: Streams, captions: Tensor) -> list[State]:
        """The states after which each word of given captions (B, S, T) is generated: what the next two methods read."""
        memory, state = self.encode(streams)
        state = {name: tensor.expand(-1, captions.shape[1], *tensor.shape[2:]) for name, tensor in state.items()}
        states = []
        for words in (torch.full_like(captions[:, :, 0], BOS), *captions[:, :, :-1].unbind(2)):
            state = self.step(words, memory, state).state
            states.append(state)
        return states

    def projections(self, state: State) -> dict[str, Tensor]:
        """Of the last word, by stream: <x_ST, x_t> (B, S, F). What the ranked loss reads."""
        return {name: state[f"{name}.projections"] for name in self.looked_at if f"{name}.projections" in state}

    def share_of_st(self, state: State) -> dict[str, Tensor]:
        """Of the last word, by stream: how much Eq. 12 gave to ST, (B, S)."""
        return {name: state[f"{name}.share"].squeeze(-1) for name in self.looked_at}

    def chosen_time_steps(self, state: State) -> dict[str, Tensor]:
        """Of the last word, by stream: TS' weights of Eq. 9, (B, S, F)."""
        return {name: state[f"{name}.time_steps"] for name in self.looked_at if f"{name}.time_steps" in state}

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """The weights of Eq. 12 for each word and stream: ST against TS."""
        if self.config.variant != "stats":
            return Diagnostics()
        shares = [self.share_of_st(state) for state in self.retrace(streams, caption)]
        bars = []
        for stream in self.looked_at:
            share = torch.stack([one[stream][0, 0] for one in shares])  # (T,)
            weights = torch.stack([share, 1 - share], 1).cpu().numpy()
            bars.append(Bars(f"branches over {stream}", ("ST", "TS"), weights))
        return Diagnostics(bars=tuple(bars))

    def _attend(self, row: int, query: Tensor, memory: Memory) -> tuple[Attended, Tensor]:
        """One stream: what is attended to, before Eq. 12's tanh, and the share of ST (B, S, 1)."""
        name = self.looked_at[row]
        certain = query.new_ones(*query.shape[:2], 1)
        if not self.ts:
            return self.st[row](query, _part(memory, f"{name}.st.")), certain
        ts = self.ts[row](query, _part(memory, f"{name}.ts."))
        if not self.st:
            return ts, 0 * certain
        st = self.st[row](query, _part(memory, f"{name}.st."))
        share = self.fuse[row](query, st.features, ts.features)
        features = share * st.features + (1 - share) * ts.features  # Eq. 12
        weights = share.unsqueeze(-1) * st.weights + (1 - share).unsqueeze(-1) * ts.weights
        return Attended(features, weights, st.projections, ts.time_steps), share


def _part(memory: Memory, prefix: str) -> Memory:
    return {name.removeprefix(prefix): tensor for name, tensor in memory.items() if name.startswith(prefix)}


def one_hot_of(weights: Tensor) -> Tensor:
    """1 at the largest of the weights along the last axis (nowhere if all are 0), with the gradient of the weights."""
    largest = nn.functional.one_hot(weights.argmax(-1), weights.shape[-1]).to(weights.dtype)
    largest = largest * (weights > 0).any(-1, keepdim=True)
    return largest + weights - weights.detach()


def time_step_weights(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The same for every time step at which there is something to see: (B, F, N) -> (B, F)."""
    seen = mask.any(-1).to(dtype)
    return seen / seen.sum(1, keepdim=True).clamp(min=1)


def location_weights(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Within each time step the same for every real location: (B, F, N)."""
    weights = mask.to(dtype)
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)


def average_locations(values: Tensor, mask: Tensor) -> Tensor:
    """Sec. 3.2, x-_t: (B, F, N, D) -> (B, F, D)."""
    return torch.einsum("bfn,bfnd->bfd", location_weights(mask, values.dtype), values)
