"""Hierarchical attention: one LSTM chooses objects from frame to frame, another generates words and chooses frames.

Dong et al., Not All Words are Equal: Video-specific Information Loss for Video Captioning, BMVC 2018, arXiv:1901.00097.
Its other half, the Information Loss, works for any model: `losses/information.py`.

| equation | line |
|---|---|
| 1, h^R_i = LSTM_R(phi_i, h^R_i-1), phi_i = sum_j alpha_ij v_ij | `_read_objects` |
| 2, e_ij = w' tanh(W h^R_i-1 + U v_ij + z), softmax over the k objects of a frame | `self.choose` |
| 3, h^F_t = LSTM_F(E y_t-1, phi_t(H^R), phi_t(V^F), phi_t(V^C), h^F_t-1) | `step` |
| 4, m_ti = w' tanh(W h^F_t-1 + U x_i + z), softmax over frames, one each for H^R, V^F, V^C | `self.attend` |
| y_t = softmax(U h^F_t) | `Model.logits` |

Variants (Table 1): `ha`; `ta_b2`, objects averaged within each frame, no LSTM_R; `ta_b1`, no objects; `na`, no
attention, the means over frames at every word.

**A stream may be absent.** `objects` names the stream of objects (V^R); every other stream is attended frame by frame
(V^F, V^C, or more: sound), averaged within a frame if it has locations. Without the stream of objects LSTM_R reads the
first stream there is: the locations of a grid are its objects, and the whole picture of a pooled stream is the only
object.

Where we differ: padding is masked (the paper pads short videos with zero frames and attends to them too); a frame
without any object is passed over by LSTM_R. Both LSTMs begin with zeros (not stated). `feature_size` puts a linear map
before everything, where asked with a layer norm (`normalise`); without it features are read raw, as in the paper.
"""

from collections.abc import Mapping
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.errors import WatchwordError
from watchword.layers.attention import AdditiveAttention
from watchword.layers.projection import Projection
from watchword.layers.recurrent import LSTMCell
from watchword.models.model import Model, ModelConfig
from watchword.tensors import Memory, State, Step, Stream, Streams

CHOSEN = "chosen objects"  # H^R among what LSTM_F attends to, beside the names of streams


class HierarchicalConfig(ModelConfig):
    variant: Literal["na", "ta_b1", "ta_b2", "ha"] = "ha"
    hidden_size: int = Field(512, ge=1)  # Sec. 4.2: "all the hidden units"
    embedding_size: int = Field(512, ge=1)  # Sec. 4.2, read so
    attention_size: int = Field(512, ge=1)  # Sec. 4.2, read so
    dropout: float = Field(0.5, ge=0, lt=1)  # Sec. 4.2: input and output of both LSTMs; ours: rate not stated
    feature_size: int | None = Field(None, ge=1)  # ours: streams are mapped to this width first; None: raw
    normalise: bool = False  # ours: with a layer norm
    objects: str = "regions"  # the stream whose locations LSTM_R chooses among


class Hierarchical(Model):
    Config = HierarchicalConfig
    config: HierarchicalConfig

    def __init__(self, config: HierarchicalConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        hidden = config.hidden_size
        self.object_stream = config.objects if config.objects in widths else next(iter(widths))
        # what LSTM_F attends to -> the stream that it was made of
        self.sources = {name: name for name in widths if name != config.objects or config.variant in ("na", "ta_b2")}
        if config.variant == "ha":
            self.sources[CHOSEN] = self.object_stream  # last: where it stands in for objects its attention says more
        if not self.sources:
            raise WatchwordError(f"ta_b1 does not attend to {config.objects}: name another stream in data.streams")
        read = dict.fromkeys(self.sources.values())
        size = {name: config.feature_size or widths[name] for name in read}
        self.project = nn.ModuleDict(
            {
                name: Projection(widths[name], size[name], config.normalise) if config.feature_size else nn.Identity()
                for name in read
            }
        )
        size[CHOSEN] = hidden
        if config.variant == "ha":
            self.choose = AdditiveAttention(hidden, size[self.object_stream], config.attention_size)
            self.object_cell = LSTMCell(size[self.object_stream], hidden)
        if config.variant != "na":
            self.attend = nn.ModuleDict(
                {source: AdditiveAttention(hidden, size[source], config.attention_size) for source in self.sources}
            )
        self.cell = LSTMCell(config.embedding_size + sum(size[source] for source in self.sources), hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory: Memory = {}
        projected = {name: self.project[name](self.feature_dropout(streams[name].values)) for name in self.project}
        for source, name in self.sources.items():
            mask = streams[name].mask
            if source == CHOSEN:
                values, locations = self._read_objects(projected[name], mask)
            else:
                locations = even(mask)  # the mean of a frame's locations
                values = (locations.unsqueeze(2) @ projected[name]).squeeze(2)  # (B, F, D)
            memory[f"{source}.values"] = values
            memory[f"{source}.mask"] = mask.any(-1)  # (B, F)
            memory[f"{source}.locations"] = locations  # (B, F, N)
            if self.config.variant != "na":
                memory[f"{source}.keys"] = self.attend[source].keys(values)
        nothing = self.to_words.weight.new_zeros(mask.shape[0], 1, self.config.hidden_size)
        return memory, {"hidden": nothing, "cell": nothing}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        inputs, attention = [self.embedding(words)], {}  # (B, S, E)
        for source, name in self.sources.items():
            context, frames = self._look(source, memory, state["hidden"])  # (B, S, D), (B, S, F)
            inputs.append(context)
            attention[name] = frames.unsqueeze(-1) * memory[f"{source}.locations"].unsqueeze(1)  # (B, S, F, N)
        hidden, cell = self.cell(self.dropout(torch.cat(inputs, -1)), state["hidden"], state["cell"])  # Eq. 3
        return Step(self.dropout(hidden), {"hidden": hidden, "cell": cell}, attention)

    def object_attention(self, streams: Streams) -> Tensor:
        """alpha, (B, F, N): what LSTM_R attends to in each frame of `object_stream`, for every caption."""
        if self.config.variant != "ha":
            raise WatchwordError(f"variant {self.config.variant} does not choose objects: ha does")
        stream: Stream = streams[self.object_stream]
        return self._read_objects(self.project[self.object_stream](stream.values), stream.mask)[1]

    def _look(self, source: str, memory: Memory, hidden: Tensor) -> tuple[Tensor, Tensor]:
        values, mask = memory[f"{source}.values"], memory[f"{source}.mask"]
        if self.config.variant == "na":
            frames = even(mask).unsqueeze(1)  # (B, 1, F)
            captions = hidden.shape[1]
            return (frames @ values).expand(-1, captions, -1), frames.expand(-1, captions, -1)
        return self.attend[source](hidden, memory[f"{source}.keys"], values, mask)  # Eq. 4

    def _read_objects(self, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """H^R (B, F, H) and alpha (B, F, N). What is chosen in a frame depends on all frames before: a true loop."""
        keys = self.choose.keys(values)  # (B, F, N, A)
        some = mask.any(-1)  # (B, F)
        hidden = cell = values.new_zeros(values.shape[0], 1, self.config.hidden_size)
        outputs, chosen = [], []
        for frame in range(values.shape[1]):
            there = some[:, frame].view(-1, 1, 1)
            objects, weights = self.choose(hidden, keys[:, frame], values[:, frame], mask[:, frame])  # Eq. 2
            new_hidden, new_cell = self.object_cell(self.dropout(objects), hidden, cell)  # Eq. 1
            hidden, cell = torch.where(there, new_hidden, hidden), torch.where(there, new_cell, cell)
            outputs.append(hidden)
            chosen.append(weights)
        return self.dropout(torch.cat(outputs, 1)), torch.cat(chosen, 1)


def even(mask: Tensor) -> Tensor:
    """The same weight for all that is there, along the last axis; 0 where nothing is."""
    weights = mask.to(torch.get_default_dtype())
    return weights / weights.sum(-1, keepdim=True).clamp(min=1)
