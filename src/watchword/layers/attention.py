"""Attention over the time steps and locations of a video, for all its captions at once: additive, product, bilinear."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from watchword.layers.projection import Projection
from watchword.tensors import Stream, at_least_float32


def flat_locations(stream: Stream) -> tuple[Tensor, Tensor]:
    """Time steps and locations as one axis: values (B, F*N, D), mask (B, F*N)."""
    return stream.values.flatten(1, 2), stream.mask.flatten(1, 2)


def never_empty(mask: Tensor) -> Tensor:
    """The mask with every location of an empty row (last axis) set: a softmax over nothing is NaN."""
    return mask | ~mask.any(-1, keepdim=True)


def masked_softmax(energies: Tensor, mask: Tensor) -> Tensor:
    """A distribution over the real locations, all zero where there is none: energies (B, S, L), mask (B, L)."""
    energies = at_least_float32(energies)
    weights = energies.masked_fill(~never_empty(mask).unsqueeze(1), float("-inf")).softmax(-1)
    return weights * mask.any(-1)[:, None, None]


WeightsFilter = Callable[[Tensor, Tensor], Tensor]  # weights (B, S, L), mask (B, L) -> weights


class MaskedSoftmax(nn.Module):
    """The weights of an attention. A filter may replace them before they are used (`ablation.py`)."""

    weights_filter: WeightsFilter | None = None

    def forward(self, energies: Tensor, mask: Tensor) -> Tensor:
        weights = masked_softmax(energies, mask)
        return weights if self.weights_filter is None else self.weights_filter(weights, mask)


def masked_mean(values: Tensor, mask: Tensor) -> Tensor:
    """The mean over the real locations, zero where there is none: values (B, L, D), mask (B, L) -> (B, D)."""
    weights = mask.to(values.dtype)
    weights = weights / weights.sum(1, keepdim=True).clamp(min=1)
    return torch.bmm(weights.unsqueeze(1), values).squeeze(1)


class AdditiveAttention(nn.Module):
    """Bahdanau attention: e = w' tanh(W q + U v + b).

    U v is projected once per video (`keys`), W q once per caption and word; nothing is copied per caption. Keys
    that are not normalised may grow until the tanh is 1 or -1 everywhere, and then nothing is chosen any more.
    """

    def __init__(self, query_size: int, value_size: int, attention_size: int, normalise: bool = False) -> None:
        super().__init__()
        self.from_value = Projection(value_size, attention_size, normalise)
        self.from_query = nn.Linear(query_size, attention_size, bias=False)
        self.energy = nn.Linear(attention_size, 1, bias=False)
        self.softmax = MaskedSoftmax()

    def keys(self, values: Tensor) -> Tensor:
        keys: Tensor = self.from_value(values)  # (B, L, A)
        return keys

    def energies(self, query: Tensor, keys: Tensor) -> Tensor:
        """query (B, S, Q), keys (B, 1, L, A), or (B, S, L, A) where every caption has its own -> (B, S, L)."""
        mixed = self.from_query(query).unsqueeze(2) + keys  # (B, S, L, A)
        return self.energy(mixed.tanh_()).squeeze(-1)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """query (B, S, Q), keys (B, L, A), values (B, L, D), mask (B, L) -> context (B, S, D), weights (B, S, L)."""
        weights = self.softmax(self.energies(query, keys.unsqueeze(1)), mask)
        return torch.bmm(weights, values), weights


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
