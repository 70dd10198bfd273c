"""Attention over locations, over times, and over the layers of a network (dualAFR).

Pu et al., Adaptive Feature Abstraction for Translating Video to Text, AAAI 2018, arXiv:1611.07837.

| paper | line |
|---|---|
| Eq. 1, 2: the first word from h_1 = tanh(C a_L+1), the others from an LSTM | `DualAFR.encode`, `DualAFR.step` |
| Eq. 3: each lower layer brought to the deepest one's grid and features | `layers/alignment.py` |
| Eq. 4, 5: one attention over locations and times for all layers | `DualAFR.attend`, `over_locations` |
| Eq. 6, 7: attention over layers | `DualAFR.attend`, `over_layers` |
| Eq. 8: soft | `DualAFR.attend` |
| Eq. 9: hard | `Draw` |
| Eq. 10 to 16 | `losses/multi_sample.py` |
| Eq. 17, 18 and Table 1: other ways to bring layers together | `layers/alignment.py` |
| appendix: initialisation | `DualAFR.initialise` |

The rows of Tables 1 and 2 are the variants. `single` attends to one layer as it comes, at all of its own locations.

Where we differ: the deepest layer may be projected first (`feature_size`; 0 as in the paper: as it comes); what is hard
when videos are described is the likeliest choice, not a drawn one; the LSTM's first cell is 0 (not stated); where asked
(`normalise`) layers, keys and h_1 have a layer norm, without which their tanh is soon 1 or -1 everywhere.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.errors import WatchwordError
from watchword.layers.alignment import (
    ConvolutionAlignment,
    HypercolumnAlignment,
    Kernel,
    LocationAlignment,
    PoolingAlignment,
    StackingAlignment,
    Triple,
    perceptron,
    ratio_of,
)
from watchword.layers.attention import AdditiveAttention, flat_locations, masked_mean, never_empty
from watchword.layers.projection import Projection, accept_old_names
from watchword.layers.recurrent import LSTMCell
from watchword.models.model import Model, ModelConfig
from watchword.tensors import BOS, PAD, Memory, State, Step, Stream, Streams
from watchword.types import Bars, Diagnostics

Variant = Literal["top_only", "single", "mlp", "max_pool", "average_pool", "hypercolumn", "soft", "hard"]


class DualAFRConfig(ModelConfig):
    variant: Variant = "soft"  # Tables 1, 2
    embedding_size: int = Field(300, ge=1)  # appendix
    hidden_size: int = Field(512, ge=1)  # appendix
    dropout: float = Field(0.5, ge=0, lt=1)  # ours: rate and locations not stated; on words and outputs
    attention_size: int = Field(256, ge=1)  # ours: not stated
    feature_size: int = Field(0, ge=0)  # ours: how wide aligned layers are; 0: as the deepest, a_L
    top: str = ""  # the stream of a_L+1; "": the last
    layers: tuple[str, ...] = ()  # of a_1 to a_L; (): all others, in their order
    layer: int = Field(0, ge=0)  # of `single`: which, counted from 1; 0: the deepest
    shapes: tuple[Triple, ...] = ()  # time steps, rows, columns of each layer; (): equal, square
    kernel: Kernel = "appendix"  # of Eq. 3's filters, see layers/alignment.py
    hard: Literal["both", "layers", "locations"] = "both"  # what is drawn in variant `hard`
    uniform_layers: bool = False  # ours, as a control: beta of Eq. 7 is 1 / L
    initial_range: float = Field(0.01, ge=0)  # appendix: weights that are not recurrent; 0: torch's own
    normalise: bool = False  # ours: of layers, keys and h_1, docs/papers/dual_afr.md


@dataclass(frozen=True)
class Attended:
    """What is attended to for one word of each caption."""

    context: Tensor  # z_t, (B, S, D)
    locations: Tensor  # alpha, (B, S, P)
    layers: Tensor  # beta, (B, S, L)
    log_choice: Tensor  # log probability of what was drawn, (B, S); 0 where nothing is


class DualAFR(Model):
    Config = DualAFRConfig

    def __init__(self, config: DualAFRConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        self.settings = config
        self.top, self.layers, self.shapes = roles(config, widths)
        self.first = Projection(widths[self.top], config.hidden_size, config.normalise)  # C
        size = 0
        if self.layers:
            size = config.feature_size or widths[self.layers[-1]]
            self.align = alignments(config, [widths[layer] for layer in self.layers], size, self.shapes)
            stacked = len(self.layers) * size
            sizes = (config.attention_size, config.normalise)
            self.over_locations = AdditiveAttention(config.hidden_size, stacked, *sizes)
            if len(self.layers) > 1:
                self.over_layers = AdditiveAttention(config.hidden_size, size, *sizes)
        self.draw = Draw()
        accept_old_names(self, {"over_places": "over_locations"})
        self.cell = LSTMCell(config.embedding_size + size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        if config.initial_range:
            self.initialise(config.initial_range)

    @property
    def chooses(self) -> bool:
        """Whether training draws what is attended to: then `Step.state` has its `log_choice`."""
        return self.settings.variant == "hard"

    @torch.no_grad()
    def initialise(self, bound: float) -> None:
        """Appendix: recurrent matrices orthogonal, other weights uniform within +-bound, biases 0."""
        for parameter in self.parameters():
            if parameter.dim() > 1:
                parameter.uniform_(-bound, bound)
            else:
                parameter.zero_()
        for module in self.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.fill_(1)
        self.embedding.weight[PAD] = 0
        for gate in self.cell.gates.weight.chunk(4):
            recurrent = gate[:, -self.settings.hidden_size :]
            recurrent.copy_(nn.init.orthogonal_(torch.empty_like(recurrent)))

    # --- the contract ------------------------------------------------------------------------------------------------

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        whole = masked_mean(*flat_locations(streams[self.top]))  # appendix: a_L+1 is the mean over windows of the video
        hidden = self.first(self.feature_dropout(whole)).tanh().unsqueeze(1)  # h_1
        state = {"hidden": hidden, "cell": torch.zeros_like(hidden)}
        if not self.layers:
            return {}, state
        streams = self.with_absent(streams)
        self.check_locations(streams)
        aligned = [
            align(*self.maps_of(streams[layer], shape))
            for align, layer, shape in zip(self.align, self.layers, self.shapes, strict=True)
        ]  # L of (B, T, h, w, D)
        if self.settings.normalise:
            aligned = [nn.functional.layer_norm(layer, layer.shape[-1:]) for layer in aligned]
        self.check_grids({tuple(layer.shape[1:4]) for layer in aligned}, streams)
        values = torch.stack(aligned, -2).flatten(1, 3).flatten(2)  # a^_i, all layers of a location: (B, P, L * D)
        mask = streams[self.layers[-1]].mask
        there = mask[:, :, : self.locations_of(mask.shape[2], self.shapes[-1])[0]]
        memory = {
            "values": values * there.flatten(1).unsqueeze(-1),
            "keys": self.over_locations.keys(values),
            "mask": there.flatten(1),
            "locations": mask,
            "layers": torch.stack([streams[layer].mask.flatten(1).any(1) for layer in self.layers], 1),  # (B, L)
        }
        return memory, state

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        begins = (words == BOS).unsqueeze(-1)
        embedded = self.dropout(self.embedding(words))  # w_t-1
        facts, attention = {}, {}
        inputs = [embedded]
        if self.layers:
            attended = self.attend(state["hidden"], memory)
            inputs.append(attended.context)
            facts["layer_weights"] = attended.layers.masked_fill(begins, 0)  # the first word attends to no layer
            if self.chooses:
                facts["log_choice"] = attended.log_choice.masked_fill(begins.squeeze(-1), 0)
            attention[self.layers[-1]] = self.in_full(attended.locations, begins, memory)
        hidden, cell = self.cell(torch.cat(inputs, -1), state["hidden"], state["cell"])
        hidden = torch.where(begins, state["hidden"], hidden)  # Eq. 1: the first word comes from h_1
        cell = torch.where(begins, state["cell"], cell)
        return Step(self.dropout(hidden), {"hidden": hidden, "cell": cell, **facts}, attention)

    def attend(self, hidden: Tensor, memory: Memory) -> Attended:
        """Where and how deep, for the state h_t-1 (B, S, H)."""
        drawn = self.settings.hard if self.chooses else "nothing"
        energies = self.over_locations.energies(hidden, memory["keys"].unsqueeze(1))  # Eq. 4: (B, S, P)
        locations = self.over_locations.softmax(energies, memory["mask"])  # Eq. 5
        log_choice = hidden.new_zeros(hidden.shape[:2])
        if drawn in ("both", "locations"):
            location, log_choice = self.draw(locations)
            attended = memory["values"].gather(1, location.unsqueeze(-1).expand(-1, -1, memory["values"].shape[-1]))
        else:
            attended = torch.bmm(locations, memory["values"])  # s_t: (B, S, L * D)
        attended = attended.view(*hidden.shape[:2], len(self.layers), -1)  # s_tl: (B, S, L, D)
        if len(self.layers) == 1:
            return Attended(attended.squeeze(2), locations, locations.new_ones(*locations.shape[:2], 1), log_choice)
        energies = self.over_layers.energies(hidden, self.over_layers.keys(attended))
        if self.settings.uniform_layers:
            energies = torch.zeros_like(energies)
        energies = energies.masked_fill(~never_empty(memory["layers"]).unsqueeze(1), float("-inf"))
        layers = energies.softmax(-1)  # Eq. 6, 7: (B, S, L)
        if drawn in ("both", "layers"):
            layer, log_layer = self.draw(layers)
            context = attended.take_along_dim(layer[..., None, None], 2).squeeze(2)  # Eq. 9
            log_choice = log_choice + log_layer
        else:
            context = (layers.unsqueeze(-1) * attended).sum(2)  # Eq. 8
        return Attended(context, locations, layers, log_choice)

    # --- for pictures ------------------------------------------------------------------------------------------------

    def layer_weights(self, streams: Streams, captions: Tensor) -> Tensor:
        """beta for each word of given captions (B, S, T): (B, S, T, L), 0 for the first word, which attends to none."""
        memory, state = self.encode(streams)
        state = {name: tensor.expand(-1, captions.shape[1], *tensor.shape[2:]) for name, tensor in state.items()}
        found = []
        for words in (torch.full_like(captions[:, :, 0], BOS), *captions[:, :, :-1].unbind(2)):
            state = self.step(words, memory, state).state
            found.append(state["layer_weights"])
        return torch.stack(found, 2)

    def diagnostics(self, streams: Streams, caption: Tensor) -> Diagnostics:
        """beta of Eq. 7 for each word, the lowest layer first."""
        if len(self.layers) < 2:
            return Diagnostics()
        weights = self.layer_weights(streams, caption)[0, 0].cpu().numpy()  # (T, L)
        return Diagnostics(bars=(Bars("layers", tuple(self.layers), weights),))

    def in_full(self, locations: Tensor, begins: Tensor, memory: Memory) -> Tensor:
        """alpha on the stream's own axes, (B, S, F, N); uniform for the first word (h_1 is a mean)."""
        alike = memory["mask"] / memory["mask"].sum(1, keepdim=True).clamp(min=1)
        weights = torch.where(begins, alike.unsqueeze(1), locations)
        weights = weights.reshape(*weights.shape[:2], memory["locations"].shape[1], -1)
        return nn.functional.pad(weights, (0, memory["locations"].shape[2] - weights.shape[-1]))

    # --- shapes ------------------------------------------------------------------------------------------------------

    def with_absent(self, streams: Streams) -> dict[str, Stream]:
        """Layers that no video of the batch has get zeros, as many as the other layers ask for."""
        present = {
            layer: shape for layer, shape in zip(self.layers, self.shapes, strict=True) if streams[layer].mask.any()
        }
        windows, locations = 1, 1
        for layer, shape in present.items():
            windows, locations = -(-streams[layer].mask.shape[1] // shape[0]), streams[layer].mask.shape[2]
        found = dict(streams)
        for layer, (time, rows, columns) in zip(self.layers, self.shapes, strict=True):
            if layer not in present:
                size = (windows * time, rows * columns if self.settings.shapes else locations)
                found[layer] = absent_like(streams[layer], *size)
        return found

    def maps_of(self, stream: Stream, shape: Triple) -> tuple[Tensor, Tensor]:
        """A layer's stream, (B, F, N, D), as maps (B, D, F, h, w) and what of them is real, (B, 1, F, h, w)."""
        locations, rows, columns = self.locations_of(stream.values.shape[2], shape)
        grid = (*stream.mask.shape[:2], rows, columns)
        values = self.feature_dropout(stream.values[:, :, :locations]).reshape(*grid, -1).movedim(-1, 1)
        return values, stream.mask[:, :, :locations].reshape(grid).unsqueeze(1).to(values.dtype)

    def locations_of(self, number: int, shape: Triple) -> tuple[int, int, int]:
        """The number of locations, rows and columns of a layer; locations beyond `shape` only pad the batch."""
        rows, columns = shape[1:] if self.settings.shapes else (isqrt(number),) * 2
        return rows * columns, rows, columns

    def check_locations(self, streams: Streams) -> None:
        """Each layer has as many locations as its shape, or without shapes a square of them."""
        for layer, shape in zip(self.layers, self.shapes, strict=True):
            number = streams[layer].values.shape[2]
            count, rows, columns = self.locations_of(number, shape)
            if count > number or (not self.settings.shapes and count != number):
                raise WatchwordError(
                    f"{layer} has {number} locations a time step, not {rows} rows of {columns}: give the shape "
                    f"of {', '.join(self.layers)}{self.shapes_of(streams)}"
                )

    def check_grids(self, grids: set[tuple[int, ...]], streams: Streams) -> None:
        """Aligned layers have the same time steps, rows and columns, or their shapes are not as given."""
        if len(grids) > 1:
            found = ", ".join("{} {} x {}".format(layer, *streams[layer].values.shape[1:3]) for layer in self.layers)
            raise WatchwordError(
                f"the layers' time steps x locations do not match ({found}): give the shape of each"
                f"{self.shapes_of(streams)}, and leave data.max_time_steps and data.frame_keep_rate at their defaults"
            )

    def shapes_of(self, streams: Streams) -> str:
        """The setting for these streams, where grids are square; time steps relative to the deepest."""
        sizes = [streams[layer].values.shape[1:3] for layer in self.layers]
        if any(isqrt(number) ** 2 != number for _, number in sizes):
            return ""
        shapes = [f"[{ratio_of(steps, sizes[-1][0])},{isqrt(number)},{isqrt(number)}]" for steps, number in sizes]
        return f": model.shapes=[{','.join(shapes)}]"


class Draw(nn.Module):
    """Eq. 9: one of several by its probability; when videos are described, the likeliest."""

    def forward(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """weights (B, S, X) -> which (B, S), and its log probability (B, S); 0 and 0 where all weights are 0."""
        weights = torch.where(weights.sum(-1, keepdim=True) > 0, weights, torch.ones_like(weights))
        if self.training:
            chosen = torch.multinomial(weights.detach().flatten(0, 1), 1).view(weights.shape[:2])
        else:
            chosen = weights.argmax(-1)
        likely = weights.take_along_dim(chosen.unsqueeze(-1), -1).squeeze(-1)
        return chosen, likely.clamp(min=torch.finfo(weights.dtype).tiny).log()


def absent_like(stream: Stream, time_steps: int, locations: int) -> Stream:
    """A stream that no video has, of another number of time steps and locations."""
    size = (len(stream.mask), time_steps, locations)
    values = stream.values.new_zeros(*size, stream.values.shape[-1])
    mask, times = stream.mask.new_zeros(size), stream.times.new_zeros(size[:2])
    return Stream(values, mask, times, stream.boxes.new_zeros(*size, 4))


def roles(config: DualAFRConfig, widths: Mapping[str, int]) -> tuple[str, tuple[str, ...], tuple[Triple, ...]]:
    """The stream of a_L+1, those of the layers that are attended to, and these layers' shapes."""
    top = config.top or list(widths)[-1]
    layers = config.layers or tuple(name for name in widths if name != top)
    for name in (top, *layers):
        if name not in widths:
            raise WatchwordError(f"dual_afr is to read {name!r}, the data's streams are {', '.join(widths)}")
    shapes = config.shapes or ((1, 1, 1),) * len(layers)
    if len(shapes) != len(layers):
        names = ", ".join(layers)
        raise WatchwordError(f"model.shapes has {len(shapes)} layers, there are {len(layers)}: {names}")
    if config.variant == "top_only":
        return top, (), ()
    if not layers:
        raise WatchwordError("dual_afr needs layers beside the top vector: add them to data.streams, the lowest first")
    if config.variant == "single":
        if config.layer > len(layers):
            raise WatchwordError(f"model.layer={config.layer}, there are {len(layers)} layers: {', '.join(layers)}")
        return top, (layers[config.layer - 1],), (shapes[config.layer - 1],)  # 0: the last
    return top, layers, shapes


def alignments(config: DualAFRConfig, widths: list[int], size: int, shapes: tuple[Triple, ...]) -> nn.ModuleList:
    """What brings each layer, the lowest first, to the deepest one's grid and to `size` features."""
    *_, (time, rows, columns) = shapes
    found = nn.ModuleList()
    for width, shape in zip(widths[:-1], shapes[:-1], strict=True):
        ratios = (ratio_of(shape[0], time), ratio_of(shape[1], rows), ratio_of(shape[2], columns))
        meets = tuple(-(-fine // ratio) for fine, ratio in zip(shape, ratios, strict=True))
        if meets != (time, rows, columns):
            raise WatchwordError(
                f"a layer of {shape} cannot be halved to {(time, rows, columns)}, only to {meets}: model.shapes counts "
                "time steps, rows and columns of each layer, the deepest last"
            )
        match config.variant:
            case "mlp":
                found.append(StackingAlignment(width, size, ratios))
            case "max_pool" | "average_pool":
                found.append(PoolingAlignment(width, size, ratios, largest=config.variant == "max_pool"))
            case "hypercolumn":
                found.append(HypercolumnAlignment(width, size, ratios))
            case _:
                found.append(ConvolutionAlignment(width, size, ratios, config.kernel))
    if config.variant in ("mlp", "max_pool", "average_pool", "hypercolumn"):
        found.append(LocationAlignment(perceptron(widths[-1], size)))  # Eq. 18 for all of a_1 to a_L
    elif config.feature_size:
        found.append(LocationAlignment(nn.Sequential(nn.Linear(widths[-1], size), nn.ReLU())))
    else:
        found.append(LocationAlignment(nn.Identity()))  # a^_L = a_L
    return found
