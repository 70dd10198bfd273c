"""Bricks of pretrained networks: taking tensors out of a checkpoint by name, folded batch norms, "SAME" padding.

Networks here only look, they never learn: a batch normalisation is a fixed scale and shift, and goes into the
convolution before it when the network is built.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from watchword.errors import WatchwordError

CONVOLVE = {2: F.conv2d, 3: F.conv3d}
MEMORY = {2: torch.channels_last, 3: torch.channels_last_3d}


class Checkpoint:
    """Named tensors, taken one by one: says which is missing, which has another shape, what is left over."""

    def __init__(self, tensors: Mapping[str, Tensor], network: str) -> None:
        self.tensors = {name: value for name, value in tensors.items() if not name.endswith("num_batches_tracked")}
        self.network = network

    def __contains__(self, name: str) -> bool:
        return name in self.tensors

    def take(self, name: str, *shape: int) -> Tensor:
        if name not in self.tensors:
            sample = ", ".join(list(self.tensors)[:3]) or "nothing more"
            raise WatchwordError(f"no checkpoint of {self.network}: it has no {name!r} (it has {sample}, ...)")
        tensor = self.tensors.pop(name)
        if tuple(tensor.shape) != shape:
            raise WatchwordError(
                f"no checkpoint of {self.network}: {name!r} has shape {tuple(tensor.shape)}, expected {shape}"
            )
        return tensor.float()

    def finish(self) -> None:
        """A tensor that nobody took means that this is another network."""
        if self.tensors:
            sample = ", ".join(list(self.tensors)[:3])
            raise WatchwordError(
                f"no checkpoint of {self.network}: {len(self.tensors)} tensors are left over ({sample}, ...)"
            )

    def normalised(self, weight: Tensor, norm: str, epsilon: float) -> tuple[Tensor, Tensor]:
        """A convolution's weight and bias with the batch normalisation `norm` folded in."""
        num = weight.shape[0]
        gamma, beta, mean, variance = (
            self.take(f"{norm}.{part}", num) for part in ("weight", "bias", "running_mean", "running_var")
        )
        return fold(weight, gamma, beta, mean, variance, epsilon)

    def linear(self, name: str, outputs: int, inputs: int) -> nn.Linear:
        layer = nn.Linear(inputs, outputs, device="meta")  # no time spent on random numbers
        layer.weight = nn.Parameter(self.take(f"{name}.weight", outputs, inputs))
        layer.bias = nn.Parameter(self.take(f"{name}.bias", outputs))
        return layer


def fold(
    weight: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float
) -> tuple[Tensor, Tensor]:
    """norm(conv(x)) = conv'(x): each filter is scaled, what remains is a bias. In double, once."""
    scale = gamma.double() / torch.sqrt(variance.double() + epsilon)
    shift = beta.double() - mean.double() * scale
    return (weight.double() * scale.view(-1, *[1] * (weight.dim() - 1))).float(), shift.float()


class Convolution(nn.Module):
    """A convolution with bias in two or three dimensions; `padding=None` pads as TensorFlow's "SAME" does.

    Weights lie channels last, so do pictures as they are decoded: oneDNN is fastest there and nothing is reordered.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | None = None,
        groups: int = 1,
    ) -> None:
        super().__init__()
        self.dimensions = weight.dim() - 2
        self.weight = nn.Parameter(weight.contiguous(memory_format=MEMORY[self.dimensions]), requires_grad=False)
        self.bias = nn.Parameter(bias, requires_grad=False)
        self.kernel = tuple(weight.shape[2:])
        self.stride = (stride,) * self.dimensions if isinstance(stride, int) else stride
        self.padding = padding
        self.groups = groups

    def forward(self, values: Tensor) -> Tensor:
        padding = self.padding
        if padding is None:
            values, padding = pad_same(values, self.kernel, self.stride)
        return CONVOLVE[self.dimensions](values, self.weight, self.bias, self.stride, padding, groups=self.groups)


def pad_same(values: Tensor, kernel: tuple[int, ...], stride: tuple[int, ...]) -> tuple[Tensor, tuple[int, ...]]:
    """TensorFlow's "SAME": as many outputs as ceil(size / stride); an odd zero goes after, never before.

    Gives the padding that the layer itself can do when both sides are equal, and otherwise pads here.
    """
    sides = []
    for size, width, step in zip(values.shape[2:], kernel, stride, strict=True):
        missing = max((-(-size // step) - 1) * step + width - size, 0)
        sides.append((missing // 2, missing - missing // 2))
    if all(before == after for before, after in sides):
        return values, tuple(before for before, _ in sides)
    flat = [amount for side in reversed(sides) for amount in side]  # F.pad begins with the last axis
    return F.pad(values, flat), (0,) * len(sides)


def max_pool_same(values: Tensor, kernel: tuple[int, int, int], stride: tuple[int, int, int]) -> Tensor:
    """For values that come out of a ReLU: a padded zero never wins against them."""
    values, padding = pad_same(values, kernel, stride)
    return F.max_pool3d(values, kernel, stride, padding)


def frozen(network: nn.Module) -> None:
    network.eval().requires_grad_(False)
