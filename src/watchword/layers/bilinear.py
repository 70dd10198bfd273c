"""Bilinear attention."""

import torch
from torch import Tensor, nn

from watchword.layers.attention import MaskedSoftmax

NOT_SHOWN = 1e-12  # less of a region than this is none


class BilinearAttention(nn.Module):
    """e = w' tanh((W q) * (U v) + b): where additive attention adds query and value, this multiplies them feature by
    feature. U v is projected once per video (`keys`), W q once per caption and word.
    """

    def __init__(self, query_size: int, value_size: int, attention_size: int) -> None:
        super().__init__()
        self.from_value = nn.Linear(value_size, attention_size, bias=False)
        self.from_query = nn.Linear(query_size, attention_size, bias=False)
        self.bias = nn.Parameter(torch.zeros(attention_size))
        self.energy = nn.Linear(attention_size, 1, bias=False)
        self.softmax = MaskedSoftmax()

    def keys(self, values: Tensor) -> Tensor:
        return self.from_value(values)  # (..., A)

    def forward(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """query (B, S, Q), keys (B, L, A), mask (B, L) -> weights (B, S, L)."""
        mixed = torch.addcmul(self.bias, self.from_query(query).unsqueeze(2), keys.unsqueeze(1))  # (B, S, L, A)
        weights: Tensor = self.softmax(self.energy(mixed.tanh_()).squeeze(-1), mask)
        return weights


class BilinearAttentionWithin(BilinearAttention):
    """The same attention within each of several frames, where every caption has chosen its own."""

    def forward(self, query: Tensor, keys: Tensor, shown: Tensor) -> Tensor:
        """query (B, S, Q), keys (B, S, k, N, A), shown (B, S, k, N) -> weights (B, S, k, N), a distribution a frame.

        `shown` is how much of each region the chosen frame has: 1 or 0, or between them where a frame is a mixture of
        frames, some of which lack the region. A region weighs as much as is shown of it.
        """
        mixed = torch.addcmul(self.bias, self.from_query(query)[:, :, None, None], keys)  # (B, S, k, N, A)
        energies = self.energy(mixed.tanh_()).squeeze(-1) + shown.clamp(min=NOT_SHOWN).log()
        flat = shown.flatten(0, 2) > NOT_SHOWN  # (B S k, N)
        weights: Tensor = self.softmax(energies.view(-1, 1, shown.shape[-1]), flat).view(shown.shape)
        return weights
