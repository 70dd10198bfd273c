"""Model conditioned on a sentence embedding. Ours.

A sentence encoder puts sentences of the same meaning near each other. The target of a video is the mean embedding of
its captions (MiniLM: 384 numbers). Kernel regression predicts it from pooled features (`KernelRegression`), and an LSTM
generates a caption from it. The two halves train apart: the regression needs videos, of which there are few; the LSTM
needs captions and their embeddings, of which there are many, because they need no video.

So the model reads either of two inputs. If the stream `sentence_embedding` is among its streams, it is the condition:
the LSTM trains on it, with embeddings as wrong as predicted ones (`recipes/captioner_embeddings.py`). Otherwise
the embedding is predicted from the other streams. `recipes/captioner_join.py` joins the halves.

For small data sets, after captioners that train on text alone (CapDec, Nukrai et al. 2022, arXiv:2211.00575; DeCap, Li
et al. 2023, arXiv:2303.03032). These use CLIP's joint space of images and text; ours uses a regression.

Every word also attends to the `attended_streams` by additive attention as in `soft_attention`; their context is added
to the condition; it is zero where a video lacks the stream. Without attended streams there is no attention.
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.layers.attention import AdditiveAttention, flat_locations, masked_mean
from watchword.layers.kernel_regression import KernelRegression
from watchword.layers.projection import Projection, accept_old_names
from watchword.layers.recurrent import LSTMCell
from watchword.models.model import Model, ModelConfig
from watchword.tensors import Memory, State, Step, Streams

EMBEDDING_STREAMS = ("sentence_embedding", "meaning")  # the second is the name in stores made before 0.2
RENAMED = {"guess": "regression", "see": "project_stream"}  # modules in checkpoints written before 0.2


class EmbeddingConditionedConfig(ModelConfig):
    sentence_embedding_size: int = Field(384, ge=1)  # MiniLM's
    examples: int = Field(64, ge=1)  # videos that the regression is fitted on
    gamma: float = Field(1.0, gt=0)  # of the Gaussian kernel
    rank: int = Field(256, ge=1)  # principal directions of each stream that the kernel compares
    attended_streams: tuple[str, ...] = ()  # streams that every word attends to
    attention_size: int = Field(128, ge=1)


class EmbeddingConditioned(Model):
    Config = EmbeddingConditionedConfig

    def __init__(self, config: EmbeddingConditionedConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        self.given = next((name for name in EMBEDDING_STREAMS if name in widths), None)
        hidden, size = config.hidden_size, widths[self.given] if self.given else config.sentence_embedding_size
        if self.given is None:
            self.regression = KernelRegression(widths, config.examples, size, config.gamma, config.rank)
        self.project = Projection(size, hidden, normalise=True)
        self.project_stream = nn.ModuleDict(
            {name: Projection(widths[name], hidden, normalise=True) for name in config.attended_streams}
        )
        self.attend = nn.ModuleDict(
            {name: AdditiveAttention(hidden, hidden, config.attention_size) for name in config.attended_streams}
        )
        self.first_state = nn.Linear(hidden, 2 * hidden)
        self.cell = LSTMCell(config.embedding_size + hidden, hidden)
        self.deep_output = nn.Linear(2 * hidden + config.embedding_size, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)
        accept_old_names(self, RENAMED)

    def sentence_embedding(self, streams: Streams) -> Tensor:
        """(B, 384): given, or predicted."""
        if self.given is not None:
            return masked_mean(*flat_locations(streams[self.given]))
        predicted: Tensor = self.regression(streams)
        return predicted

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        embedding = self.sentence_embedding(streams)
        condition = self.dropout(self.project(self.feature_dropout(embedding))).relu()  # (B, H)
        hidden, cell = self.first_state(condition).tanh().unsqueeze(1).chunk(2, -1)
        memory = {"condition": condition}
        for name in self.project_stream:
            values, _ = flat_locations(streams[name])
            values = self.dropout(self.project_stream[name](self.feature_dropout(values))).relu()  # (B, L, H)
            memory |= {f"{name}.values": values, f"{name}.keys": self.attend[name].keys(values)}
            memory[f"{name}.mask"] = streams[name].mask
        return memory, {"hidden": hidden, "cell": cell}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        embedded = self.dropout(self.embedding(words))  # (B, S, E)
        condition = memory["condition"].unsqueeze(1).expand(-1, words.shape[1], -1)
        attention = {}
        for name in self.project_stream:
            keys, values, mask = (memory[f"{name}.{part}"] for part in ("keys", "values", "mask"))
            context, weights = self.attend[name](state["hidden"], keys, values, mask.flatten(1))
            condition = condition + context
            attention[name] = weights.unflatten(-1, mask.shape[1:])  # (B, S, F, N)
        hidden, cell = self.cell(torch.cat([embedded, condition], -1), state["hidden"], state["cell"])
        outputs = self.deep_output(torch.cat([hidden, condition, embedded], -1)).tanh()
        return Step(self.dropout(outputs), {"hidden": hidden, "cell": cell}, attention)
