"""What an attention is worth: its smaller weights taken away, in any model, without the model knowing."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from watchword.layers.attention import weights_through


def keep_largest(weights: Tensor, mask: Tensor, share: float) -> Tensor:
    """Of each row the given share of its real locations, those with the smallest weights, get 0; the others sum to 1.

    weights (B, S, L), mask (B, L). A share of 1 leaves nothing: all weights are 0, the context is a vector of zeros.
    """
    dropped = (share * mask.sum(-1)).round().long()  # (B,)
    order = weights.masked_fill(~mask.unsqueeze(1), float("inf")).argsort(dim=-1, stable=True)
    rank = order.argsort(dim=-1)
    kept = weights.masked_fill(rank < dropped.view(-1, 1, 1), 0)
    return kept / kept.sum(-1, keepdim=True).clamp(min=torch.finfo(kept.dtype).tiny)


@contextmanager
def attentions_through(model: nn.Module, sieve: Callable[[str, Tensor, Tensor], Tensor]) -> Iterator[None]:
    """Within it every attention of the model hands (its name, weights, mask) to the sieve and goes on with the answer.

    The name is the path of the innermost module that is at work, such as `attend.appearance`.
    """
    at_work: list[str] = []

    def enters(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: Any) -> None:
            at_work.append(name)

        return hook

    def leaves(module: nn.Module, inputs: Any, outputs: Any) -> None:
        at_work.pop()

    handles = []
    for name, module in model.named_modules():
        handles += [module.register_forward_pre_hook(enters(name)), module.register_forward_hook(leaves)]
    try:
        with weights_through(lambda weights, mask: sieve(at_work[-1] if at_work else "", weights, mask)):
            yield
    finally:
        for handle in handles:
            handle.remove()
