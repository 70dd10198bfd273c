"""Temporal attention (SA-LSTM).

Yao et al., Describing Videos by Exploiting Temporal Structure, ICCV 2015, arXiv:1502.08029.

| equation | line |
|---|---|
| Sec. 3.2, e = w' tanh(W h + U v + b), softmax over time | `AdditiveAttention` |
| Sec. 2.2, LSTM of [E[y_t-1], h_t-1, phi_t(V)] | `self.cell` |
| Sec. 2.2, p = softmax(U_p tanh(W_p [h_t, phi_t(V), E[y_t-1]] + b_p) + d) | `self.deep_output` |

Where we differ: features are first projected to `hidden_size` (one product per video; the paper attends to raw
features), where asked with a norm (`normalise`); with several streams each has an attention of its own and the contexts
stand side by side; dropout on words, features and output; the first state is a learned map of the mean feature (the
paper: unstated).
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.decoding import TeacherForced, stack_attention
from watchword.layers.attention import AdditiveAttention, flat_locations, masked_mean
from watchword.layers.projection import Projection
from watchword.layers.recurrent import LSTMCell, next_state
from watchword.models.model import Model, ModelConfig
from watchword.tensors import Memory, State, Step, Streams


class SoftAttentionConfig(ModelConfig):
    attention_size: int = Field(256, ge=1)
    normalise: bool = False  # ours: layer norm of projected features, before the ReLU


class SoftAttention(Model):
    Config = SoftAttentionConfig

    def __init__(self, config: SoftAttentionConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        hidden, streams = config.hidden_size, len(widths)
        self.project = nn.ModuleDict(
            {name: Projection(width, hidden, config.normalise) for name, width in widths.items()}
        )
        self.attend = nn.ModuleDict({name: AdditiveAttention(hidden, hidden, config.attention_size) for name in widths})
        self.first_state = nn.Linear(streams * hidden, 2 * hidden)
        self.cell = LSTMCell(config.embedding_size + streams * hidden, hidden)
        self.deep_output = nn.Linear(hidden + streams * hidden + config.embedding_size, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        memory: Memory = {}
        means = []
        for name in self.widths:
            values, mask = flat_locations(streams[name])
            values = self.dropout(self.project[name](self.feature_dropout(values))).relu()  # (B, L, H)
            memory[f"{name}.values"] = values
            memory[f"{name}.keys"] = self.attend[name].keys(values)
            memory[f"{name}.mask"] = streams[name].mask
            means.append(masked_mean(values, mask))
        hidden, cell = self.first_state(torch.cat(means, -1)).tanh().unsqueeze(1).chunk(2, -1)
        return memory, {"hidden": hidden, "cell": cell}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        embedded = self.dropout(self.embedding(words))  # (B, S, E)
        contexts, attention = self._attend(state["hidden"], memory)
        hidden, cell = self.cell(torch.cat([embedded, contexts], -1), state["hidden"], state["cell"])
        outputs = self._outputs(hidden, contexts, embedded)
        return Step(outputs, {"hidden": hidden, "cell": cell}, attention)

    def unroll(self, words: Tensor, memory: Memory, state: State, keep_attention: bool) -> TeacherForced:
        """What `step` gives for each of the words (B, S, T). Only attention and the recurrent part of the gates wait
        for the word before; all else is one product for all words, and its weights get one gradient."""
        embedded = self.dropout(self.embedding(words))  # (B, S, T, E)
        gates, weight = self.cell.split(embedded)
        hidden, cell = state["hidden"], state["cell"]
        all_hidden, all_contexts, all_attention = [], [], []
        for of_word in gates.unbind(2):
            contexts, attention = self._attend(hidden, memory)
            recurrent = nn.functional.linear(torch.cat([contexts, hidden], -1), weight)
            hidden, cell = next_state(of_word + recurrent, cell)
            all_hidden.append(hidden)
            all_contexts.append(contexts)
            all_attention.append(attention if keep_attention else {})
        outputs = self._outputs(torch.stack(all_hidden, 2), torch.stack(all_contexts, 2), embedded)
        return TeacherForced(outputs, stack_attention(all_attention))

    def _attend(self, hidden: Tensor, memory: Memory) -> tuple[Tensor, dict[str, Tensor]]:
        """The contexts of all streams side by side, (B, S, streams * H), and the attention to each."""
        contexts, attention = [], {}
        for name in self.widths:
            keys, values, mask = (memory[f"{name}.{part}"] for part in ("keys", "values", "mask"))
            context, weights = self.attend[name](hidden, keys, values, mask.flatten(1))
            contexts.append(context)
            attention[name] = weights.unflatten(-1, mask.shape[1:])  # (B, S, F, N)
        return torch.cat(contexts, -1), attention

    def _outputs(self, hidden: Tensor, contexts: Tensor, embedded: Tensor) -> Tensor:
        outputs: Tensor = self.dropout(self.deep_output(torch.cat([hidden, contexts, embedded], -1)).tanh())
        return outputs
