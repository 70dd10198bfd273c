"""The gist of a film first, words from it alone. Ours.

A sentence encoder puts sentences that mean the same near each other. The *meaning* of a film is the mean over its
sentences, as an encoder has them (MiniLM: 384 numbers); how a film looks and sounds is enough for a rough guess at it
(`Likeness`), and an LSTM says what has that meaning. The two halves learn apart: guessing takes films, and there are
few; speaking takes sentences whose meaning is known, and those are many, for they need no film.

So the model reads either of two things. Stream `meaning`, where it is among the streams, is taken as it is: that is how
the second half learns, from meanings that are made as wrong as guesses are (`recipes/captioner_meaning.py`). Without it
the meaning is guessed from the other streams. `recipes/captioner_gist.py` puts the halves together.

Meant for little data, in the way of captioners that learn from text alone (CapDec, Nukrai et al. 2022,
arXiv:2211.00575; DeCap, Li et al. 2023, arXiv:2303.03032); theirs stand on CLIP, which has pictures and sentences in
one space, ours on a regression.

Where streams are named in `looks`, every word may look at them besides, by additive attention as in `soft_attention`:
what it sees there is added to the gist; for a video without the stream nothing is added. Without them a film is looked
at once, as a whole, and there is no attention to return.
"""

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from watchword.layers.attention import AdditiveAttention, flat_places, masked_mean
from watchword.layers.likeness import Likeness
from watchword.layers.projection import Projection
from watchword.layers.recurrent import LSTMCell
from watchword.models.captioner import Captioner, CaptionerConfig
from watchword.tensors import Memory, State, Step, Streams

MEANING = "meaning"


class GistConfig(CaptionerConfig):
    meaning_size: int = Field(384, ge=1)             # MiniLM's
    examples: int = Field(64, ge=1)                  # films that a film is compared with
    sharpness: float = Field(1.0, gt=0)              # of the comparison
    rank: int = Field(256, ge=1)                     # directions of each stream in which films are compared
    looks: tuple[str, ...] = ()                      # streams that every word may look at
    attention_size: int = Field(128, ge=1)


class Gist(Captioner):
    Config = GistConfig

    def __init__(self, config: GistConfig, widths: Mapping[str, int], num_words: int) -> None:
        super().__init__(config, widths, num_words, output_size=config.hidden_size)
        hidden, size = config.hidden_size, widths.get(MEANING, config.meaning_size)
        if MEANING not in widths:
            self.guess = Likeness(widths, config.examples, size, config.sharpness, config.rank)
        self.project = Projection(size, hidden, normalise=True)
        self.see = nn.ModuleDict({name: Projection(widths[name], hidden, normalise=True) for name in config.looks})
        self.attend = nn.ModuleDict({
            name: AdditiveAttention(hidden, hidden, config.attention_size) for name in config.looks
        })
        self.first_state = nn.Linear(hidden, 2 * hidden)
        self.cell = LSTMCell(config.embedding_size + hidden, hidden)
        self.deep_output = nn.Linear(2 * hidden + config.embedding_size, hidden)
        self.dropout = nn.Dropout(config.dropout)
        self.feature_dropout = nn.Dropout(config.feature_dropout)

    def meaning(self, streams: Streams) -> Tensor:
        """(B, 384): given, or guessed."""
        if MEANING in self.widths:
            return masked_mean(*flat_places(streams[MEANING]))
        guessed: Tensor = self.guess(streams)
        return guessed

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        film = self.dropout(self.project(self.feature_dropout(self.meaning(streams)))).relu()  # (B, H)
        hidden, cell = self.first_state(film).tanh().unsqueeze(1).chunk(2, -1)
        memory = {"film": film}
        for name in self.see:
            values, _ = flat_places(streams[name])
            values = self.dropout(self.see[name](self.feature_dropout(values))).relu()  # (B, L, H)
            memory |= {f"{name}.values": values, f"{name}.keys": self.attend[name].keys(values)}
            memory[f"{name}.mask"] = streams[name].mask
        return memory, {"hidden": hidden, "cell": cell}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        said = self.dropout(self.embedding(words))  # (B, S, E)
        film = memory["film"].unsqueeze(1).expand(-1, words.shape[1], -1)
        attention = {}
        for name in self.see:
            keys, values, mask = (memory[f"{name}.{part}"] for part in ("keys", "values", "mask"))
            context, weights = self.attend[name](state["hidden"], keys, values, mask.flatten(1))
            film = film + context
            attention[name] = weights.unflatten(-1, mask.shape[1:])  # (B, S, F, N)
        hidden, cell = self.cell(torch.cat([said, film], -1), state["hidden"], state["cell"])
        outputs = self.deep_output(torch.cat([hidden, film, said], -1)).tanh()
        return Step(self.dropout(outputs), {"hidden": hidden, "cell": cell}, attention)
