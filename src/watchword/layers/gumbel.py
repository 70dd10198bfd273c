"""Choosing k of n by their probabilities, in a way that gradients pass: the Gumbel top-k sampler of Global2Local."""

import torch
from torch import Tensor


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
