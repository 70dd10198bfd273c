"""Attention ablation: the smaller weights of one attention of a model are set to 0."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
from torch import Tensor, nn

from watchword.layers.attention import MaskedSoftmax


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
