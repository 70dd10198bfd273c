"""Linear maps with their weights packed once, in the order in which oneDNN's product reads them.

torch packs weights anew for every product. A search multiplies few rows by the same weights at every word, so packing
costs as much as multiplying. Weights may be packed as bfloat16: products are then about twice as fast where the
processor has its instructions, and all else stays float32.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from watchword.layers.projection import Projection, WordProjection

LEAST_WEIGHTS = 2**14  # smaller ones gain nothing


class PackedLinear:
    """The `forward` of a linear map, and the norm after it."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        self.norm = linear.norm if isinstance(linear, Projection) else nn.Identity()
        with torch.no_grad():
            self.weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.to(dtype))
            self.bias = linear.full_bias if isinstance(linear, WordProjection) else linear.bias
        self.dtype = dtype

    def __call__(self, input: Tensor) -> Tensor:
        found: Tensor = torch.ops.mkldnn._linear_pointwise(input.to(self.dtype), self.weight, self.bias, "none", [], "")
        normalised: Tensor = self.norm(found.float())
        return normalised


def can_pack() -> bool:
    operators = ("_reorder_linear_weight", "_linear_pointwise")
    available: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return available and all(hasattr(torch.ops.mkldnn, name) for name in operators)


def _gains(linear: nn.Linear) -> bool:
    weight = linear.weight
    known = type(linear) in (nn.Linear, Projection, WordProjection)  # others may do more than a product
    return known and weight.numel() >= LEAST_WEIGHTS and weight.dtype == torch.float32 and weight.device.type == "cpu"


def pack(model: nn.Module, dtype: torch.dtype = torch.float32) -> list[nn.Linear]:
    """Packs the weights of all large linear maps of a model on the CPU, for use without gradients; returns these maps.

    A later change of the weights is not noticed: `unpack` them first.
    """
    if not can_pack():
        return []
    linears = [module for module in model.modules() if isinstance(module, nn.Linear) and _gains(module)]
    for linear in linears:
        linear.forward = PackedLinear(linear, dtype).__call__  # type: ignore[method-assign]
    return linears


def unpack(linears: list[nn.Linear]) -> None:
    for linear in linears:
        linear.__dict__.pop("forward", None)


@contextmanager
def packed(models: list[nn.Module], dtype: torch.dtype = torch.float32) -> Iterator[None]:
    """Within it the weights of these models are packed."""
    linears: list[nn.Linear] = []
    try:
        for model in models:
            linears += pack(model, dtype)
        yield
    finally:
        unpack(linears)
