"""Attention over the time steps and locations of a video, for all its captions at once: additive, product, bilinear.

Below it what attention is used with: its ablation, the Gumbel top-k sampler of Global2Local, means and alignment of
time steps.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

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
    """The weights of an attention. A filter may replace them before they are used (`filter_attention`)."""

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
        asked = self.from_query(query).unsqueeze(2)  # (B, S, 1, A)
        if _has_few_exponentials(asked, keys):
            # tanh(a + b) = 1 - 2 / (1 + exp(2 a) exp(2 b)): an exponential for each part, none for the sums
            parts = torch.addcmul(asked.new_ones(()), (2 * asked).exp_(), (2 * keys).exp_()).reciprocal_()
            return self.energy.weight.sum() - 2 * self.energy(parts).squeeze(-1)
        return self.energy((asked + keys).tanh_()).squeeze(-1)

    def forward(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """query (B, S, Q), keys (B, L, A), values (B, L, D), mask (B, L) -> context (B, S, D), weights (B, S, L)."""
        weights = self.softmax(self.energies(query, keys.unsqueeze(1)), mask)
        return torch.bmm(weights, values), weights


LARGEST = 40.0  # exp(2 x) and exp(-2 x) are normal numbers below it


def _has_few_exponentials(asked: Tensor, keys: Tensor) -> bool:
    """Whether parts (B, S, 1, A) and (B, 1, L, A) may be read one by one, and are far fewer than their sums."""
    if torch.is_grad_enabled() or not asked.dtype == keys.dtype == torch.float32 or asked.device.type != "cpu":
        return False
    shared = keys.shape[1] == 1 and asked.shape[1] > 2 and keys.numel() > 0 and asked.numel() > 0
    return shared and all(float(part.abs().amax()) < LARGEST for part in (asked, keys))


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


def keep_largest(weights: Tensor, mask: Tensor, share: float) -> Tensor:
    """Of each row the given share of its real locations, those with the smallest weights, get 0; the others sum to 1.

    weights (B, S, L), mask (B, L). The number is rounded down, so a share below 1 leaves one location at least. A share
    of 1 leaves nothing: all weights are 0, the context is a vector of zeros.
    """
    dropped = (share * mask.sum(-1) + 1e-4).floor().long()  # (B,)
    order = weights.masked_fill(~mask.unsqueeze(1), float("inf")).argsort(dim=-1, stable=True)
    rank = order.argsort(dim=-1)
    kept = weights.masked_fill(rank < dropped.view(-1, 1, 1), 0)
    return kept / kept.sum(-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)


@contextmanager
def filter_attention(model: nn.Module, weights_filter: Callable[[str, Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Within it every attention of the model uses weights_filter(name, weights, mask) instead of its weights.

    The name is the path of the attention in the model, such as `attend.appearance`.
    """
    softmaxes = {name: module for name, module in model.named_modules() if isinstance(module, MaskedSoftmax)}
    try:
        for name, softmax in softmaxes.items():
            softmax.weights_filter = partial(weights_filter, name.rpartition(".")[0])
        yield
    finally:
        for softmax in softmaxes.values():
            softmax.weights_filter = None


def gumbel_top_k(
    probabilities: Tensor,
    num_chosen: int,
    *,
    scale: float = 10.0,
    temperature: float = 1e-4,
    noise: bool = True,
    straight_through: bool = False,
) -> Tensor:
    """(..., n) -> (..., k, n): k rows, each nearly one-hot, each at a location that the rows before it left free.

    With noise the first row is drawn by the probabilities, every further one by those of the locations that are left:
    drawing without replacement. Without noise the rows are the k largest, the largest first.

    Eq. 6 takes the logarithm of what a row leaves of a location's probability, and that is below 0 wherever the row is:
    such a location is out of the draw. Where nothing is left (fewer than k locations with a probability) the row is 0.
    The gradient is that of the tempered rows. For one row its mean is near the exact one, for two rows too at a
    temperature of 0.1; at 1e-4 two rows are biased, three rows are at any temperature (`tests/test_gumbel.py`). With
    `straight_through` rows are one-hot. Their gradient is that of the tempered rows, less noisy and more biased: it
    does not know that a location may also be chosen by another row.

    `scale` cancels in the softmax; it stands here because it stands in the paper.
    """
    rows: list[Tensor] = []
    left = scale * probabilities
    for _ in range(num_chosen):
        free = left > 0
        logits = left.masked_fill(~free, 1.0).log()  # log 1 instead of NaN: these are masked in the next lines
        if noise:
            logits = logits - torch.empty_like(logits).exponential_().log()  # + Gumbel(0, 1)
        none_left = ~free.any(-1, keepdim=True)
        logits = (logits / temperature).masked_fill(~free & ~none_left, float("-inf"))
        row = logits.softmax(-1).masked_fill(none_left, 0)  # Eq. 5, 6
        if straight_through:
            largest = torch.zeros_like(row).scatter(-1, row.argmax(-1, keepdim=True), 1.0).masked_fill(none_left, 0)
            row = largest + row - row.detach()
        rows.append(row)
        left = left - scale * row
    return torch.stack(rows, -2)


def time_step_means(stream: Stream) -> tuple[Tensor, Tensor]:
    """Real locations averaged within each time step: values (B, F, D), mask (B, F)."""
    weights = stream.mask.to(stream.values.dtype)  # (B, F, N)
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=1)
    return torch.einsum("bfn,bfnd->bfd", weights, stream.values), stream.mask.any(-1)


def num_time_steps(real: Tensor) -> Tensor:
    """The number of time steps up to the last real one, 0 where there is none: (B, F) -> (B,)."""
    return (real * torch.arange(1, real.shape[1] + 1, device=real.device)).amax(1)


def nearest(times: Tensor, others: Tensor, mask: Tensor) -> Tensor:
    """For each of times (B, F) the nearest in time of the real ones among others (B, G), mask (B, G): (B, F)."""
    distance = (times.unsqueeze(2) - others.unsqueeze(1)).abs()  # (B, F, G)
    return distance.masked_fill(~mask.unsqueeze(1), float("inf")).argmin(-1)


def folding(times: Tensor, mask: Tensor, others: Tensor, others_mask: Tensor) -> Tensor:
    """How weights on dense instants (B, F) become weights on sparse ones (B, G): a matrix (B, F, G).

    Every real dense instant belongs to the real sparse one nearest in time, which gets the mean of its own (G2L, Eq. 8:
    one of three). A sparse instant that has none to itself takes the weight of the dense instant nearest to it.
    """
    owner = nearest(times, others, others_mask)  # (B, F)
    member = times.new_zeros(*owner.shape, others.shape[1]).scatter_(2, owner.unsqueeze(2), 1.0)
    member = member * mask.unsqueeze(2)
    count = member.sum(1, keepdim=True)  # (B, 1, G)
    closest = torch.zeros_like(member).scatter_(1, nearest(others, times, mask).unsqueeze(1), 1.0)
    member = torch.where(count > 0, member / count.clamp(min=1), closest)
    return member * others_mask.unsqueeze(1)
