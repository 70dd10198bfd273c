"""Attention whose query and keys are multiplied, not added."""

import torch
from torch import Tensor, nn

from watchword.layers.attention import MaskedSoftmax


class ProductAttention(nn.Module):
    """e = w' tanh(W q * U v), element by element. A bias of e would cancel in the softmax: there is none.

    U v is projected once per video (`keys`), W q once per caption and word; nothing is copied per caption.
    """

    def __init__(self, query_size: int, value_size: int, attention_size: int) -> None:
        super().__init__()
        self.from_value = nn.Linear(value_size, attention_size, bias=False)
        self.from_query = nn.Linear(query_size, attention_size, bias=False)
        self.energy = nn.Linear(attention_size, 1, bias=False)
        self.softmax = MaskedSoftmax()

    def keys(self, values: Tensor) -> Tensor:
        return self.from_value(values)  # (B, L, A)

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, S, Q), keys (B, L, A) -> (B, S, L)."""
        mixed = self.from_query(query).unsqueeze(2) * keys.unsqueeze(1)  # (B, S, L, A)
        return self.energy(mixed.tanh_()).squeeze(-1)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """query (B, S, Q), keys (B, L, A), values (B, L, D), mask (B, L) -> context (B, S, D), weights (B, S, L)."""
        weights = self.softmax(self.energies(query, keys), mask)
        return torch.bmm(weights, values), weights
