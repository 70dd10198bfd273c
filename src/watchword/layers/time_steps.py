"""Time steps of streams: their means, their number, and the alignment of streams by time."""

import torch
from torch import Tensor

from watchword.tensors import Stream


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
