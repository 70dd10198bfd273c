"""Mean pooling: the whole video as one vector, an input of a two-layer LSTM at every word.

Venugopalan et al., Translating Videos to Natural Language Using Deep Recurrent Neural Networks, NAACL 2015,
arXiv:1412.4729, Sec. 3: mean over frames (3.2), two LSTM layers, the vector is an input at every word (Fig. 2).

Where we differ: the mean is projected to `hidden_size` first, where asked with a norm (`normalise`); dropout; several
streams stand side by side.
Attention is returned as what it is here: the same weight for every real location.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from watchword.layers.attention import flat_locations, masked_mean
from watchword.layers.projection import Projection
from watchword.layers.recurrent import LSTMCell
from watchword.models.model import Model, ModelConfig
from watchword.tensors import Memory, State, Step, Streams


class MeanPoolConfig(ModelConfig):
    normalise: bool = False  # ours: layer norm of the projected mean, before the ReLU


class MeanPool(Model):
    Config = MeanPoolConfig

    def __init__(self, config: MeanPoolConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        hidden = config.hidden_size
        self.project = Projection(sum(widths.values()), hidden, config.normalise)
        self.first_cell = LSTMCell(config.embedding_size + hidden, hidden)
        self.second_cell = LSTMCell(hidden, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        means = torch.cat([masked_mean(*flat_locations(streams[name])) for name in self.widths], -1)
        video = self.dropout(self.project(self.feature_dropout(means))).relu()  # (B, H)
        memory = {"video": video}
        for name in self.widths:
            weights = streams[name].mask.to(video.dtype)
            memory[f"{name}.weights"] = weights / weights.sum((1, 2), keepdim=True).clamp(min=1)
        nothing = video.new_zeros(video.shape[0], 1, self.config.hidden_size)
        return memory, dict.fromkeys(("hidden1", "cell1", "hidden2", "cell2"), nothing)

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        embedded = self.dropout(self.embedding(words))  # (B, S, E)
        video = memory["video"].unsqueeze(1).expand(-1, words.shape[1], -1)
        hidden1, cell1 = self.first_cell(torch.cat([embedded, video], -1), state["hidden1"], state["cell1"])
        hidden2, cell2 = self.second_cell(self.dropout(hidden1), state["hidden2"], state["cell2"])
        attention = {
            name: memory[f"{name}.weights"].unsqueeze(1).expand(-1, words.shape[1], -1, -1) for name in self.widths
        }
        new = {"hidden1": hidden1, "cell1": cell1, "hidden2": hidden2, "cell2": cell2}
        return Step(self.dropout(hidden2), new, attention)
