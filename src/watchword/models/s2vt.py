"""S2VT: one stack of two LSTMs reads the frames, then writes the words.

Venugopalan et al., Sequence to Sequence - Video to Text, ICCV 2015, arXiv:1505.00487.

| paper | line |
|---|---|
| Sec. 3.2, Fig. 2: first LSTM reads frames, second reads [first's hidden, <pad>] | `encode` |
| Sec. 3.2, Fig. 2: first LSTM reads <pad>, second reads [first's hidden, word] | `step` |
| Sec. 3.3: frames embedded to 500, LSTMs of 1000 | `S2VTConfig` |

In the writing stage the first LSTM reads no words, so its state is the same for all captions of a video: it is
computed once per video (the first of the S equal rows) and shown to all of them.

Where we differ: streams that share their time steps are concatenated (the paper fuses RGB and flow late, by
averaging two models: `watchword evaluate RUN RUN` does that); dropout; videos shorter than the batch's longest are read
to their own last frame. No attention.
"""

from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from watchword.errors import WatchwordError
from watchword.layers.attention import num_time_steps, time_step_means
from watchword.layers.recurrent import remember_at_first
from watchword.models.model import Model, ModelConfig
from watchword.tensors import Memory, State, Step, Streams


class S2VTConfig(ModelConfig):
    embedding_size: int = Field(500, ge=1)  # Sec. 3.3
    hidden_size: int = Field(1000, ge=1)  # Sec. 3.3
    frame_size: int = Field(500, ge=1)  # Sec. 3.3


class S2VT(Model):
    Config = S2VTConfig

    def __init__(self, config: S2VTConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        hidden = config.hidden_size
        self.project = nn.Linear(sum(widths.values()), config.frame_size)
        self.first = nn.LSTM(config.frame_size, hidden, batch_first=True)
        self.second = nn.LSTM(hidden + config.embedding_size, hidden, batch_first=True)
        remember_at_first(self.first)
        remember_at_first(self.second)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        frames, lengths = self._frames(streams)
        frames = self.dropout(self.project(self.feature_dropout(frames)))  # (B, F, frame_size)
        seen, (hidden1, cell1) = self._read(self.first, frames, lengths)
        padding = seen.new_zeros(*seen.shape[:2], self.config.embedding_size)
        _, (hidden2, cell2) = self._read(self.second, torch.cat([self.dropout(seen), padding], -1), lengths)
        new = {"hidden1": hidden1, "cell1": cell1, "hidden2": hidden2, "cell2": cell2}
        return {}, {name: tensor[0].unsqueeze(1) for name, tensor in new.items()}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        batch, captions = words.shape
        nothing = state["hidden1"].new_zeros(batch, 1, self.first.input_size)
        hidden1, cell1 = _one_step(self.first, nothing, state["hidden1"][:, :1], state["cell1"][:, :1])
        hidden1, cell1 = hidden1.expand(-1, captions, -1), cell1.expand(-1, captions, -1)
        embedded = self.dropout(self.embedding(words))
        inputs = torch.cat([self.dropout(hidden1), embedded], -1)  # (B, S, H + E)
        hidden2, cell2 = _one_step(self.second, inputs, state["hidden2"], state["cell2"])
        new = {"hidden1": hidden1, "cell1": cell1, "hidden2": hidden2, "cell2": cell2}
        return Step(self.dropout(hidden2), new)

    def _frames(self, streams: Streams) -> tuple[Tensor, Tensor]:
        """All streams side by side, locations averaged: (B, F, D); how many time steps are real: (B,)."""
        lengths = torch.stack([num_time_steps(streams[name].mask.any(-1)) for name in self.widths])  # (streams, B)
        longest = lengths.amax(0).clamp(min=1)
        unlike = ((lengths != longest) & (lengths > 0)).any(0)  # (B,)
        if unlike.any():
            counts = ", ".join(f"{name} {int(own[unlike][0])}" for name, own in zip(self.widths, lengths, strict=True))
            raise WatchwordError(
                f"s2vt reads streams that share their time steps, here a video has {counts}: train one run a stream"
            )
        most = int(longest.max())
        frames = [time_step_means(streams[name])[0][:, :most] for name in self.widths]
        frames = [nn.functional.pad(some, (0, 0, 0, most - some.shape[1])) for some in frames]
        return torch.cat(frames, -1), longest

    @staticmethod
    def _read(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, last = lstm(packed)
        return pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])[0], last


def _one_step(lstm: nn.LSTM, inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """A step of a one-layer LSTM for (B, S) rows."""
    weights: Any = (lstm.weight_ih_l0, lstm.weight_hh_l0, lstm.bias_ih_l0, lstm.bias_hh_l0)
    rows = (hidden.flatten(0, 1), cell.flatten(0, 1))
    new_hidden, new_cell = torch.lstm_cell(inputs.flatten(0, 1), rows, *weights)
    shape = (*inputs.shape[:2], -1)
    return new_hidden.view(shape), new_cell.view(shape)
