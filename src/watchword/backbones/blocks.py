"""What pretrained networks share: taking tensors out of a checkpoint by name, folded batch norms, "SAME" padding.

Networks here are never trained: a batch normalisation is a fixed scale and shift, and goes into the
convolution before it when the network is built; an activation is done by the convolution while it writes its result.
"""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from watchword.errors import WatchwordError

CONVOLVE = {2: F.conv2d, 3: F.conv3d}
MEMORY = {2: torch.channels_last, 3: torch.channels_last_3d}
ACTIVATIONS: dict[str, tuple[str, list[float], Callable[[Tensor], Tensor]]] = {
    # oneDNN's name and numbers, and the same in plain torch
    "none": ("none", [], lambda values: values),
    "relu": ("relu", [], torch.relu_),
    "relu6": ("hardtanh", [0.0, 6.0], lambda values: values.clamp_(0, 6)),
    "leaky_relu": ("leaky_relu", [0.1], lambda values: F.leaky_relu_(values, 0.1)),
}
# What torch.compile itself calls on a CPU: convolution and activation in one pass, always by oneDNN (plain conv3d falls
# back to a slow one for small inputs). A torch without it does the same in two passes.
HAS_ONEDNN = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
FUSED: Callable[..., Tensor] | None = getattr(torch.ops.mkldnn, "_convolution_pointwise", None) if HAS_ONEDNN else None


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
        """A tensor that was not taken belongs to another network: an error."""
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
    """A convolution with bias and activation in two or three dimensions; no `padding` pads as TensorFlow's "SAME" does.

    Weights are channels last, as pictures are decoded: oneDNN is fastest there and nothing is reordered.
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor,
        stride: int | tuple[int, ...] = 1,
        padding: int | tuple[int, ...] | None = None,
        groups: int = 1,
        activation: str = "none",
    ) -> None:
        super().__init__()
        self.dimensions = weight.dim() - 2
        self.weight = nn.Parameter(weight.contiguous(memory_format=MEMORY[self.dimensions]), requires_grad=False)
        self.bias = nn.Parameter(bias.contiguous(), requires_grad=False)  # oneDNN reads it in this order
        self.kernel = tuple(weight.shape[2:])
        self.stride = (stride,) * self.dimensions if isinstance(stride, int) else stride
        self.padding = (padding,) * self.dimensions if isinstance(padding, int) else padding
        self.groups = groups
        self.activation = activation
        # With a zero before it a kernel needs as much padding before as after, which the convolution does itself. For
        # a depthwise one that is cheaper than copying all values into a larger array.
        self.wider: Tensor | None = None
        if padding is None and groups > 1 and max(self.stride) > 1:
            wider = F.pad(self.weight.data, (1, 0) * self.dimensions)
            self.wider = nn.Parameter(wider.contiguous(memory_format=MEMORY[self.dimensions]), requires_grad=False)

    def forward(self, values: Tensor) -> Tensor:
        weight: Tensor = self.weight
        padding = self.padding
        if padding is None:
            before, after = same_padding(values.shape[2:], self.kernel, self.stride)
            if before == after:
                padding = before
            elif self.wider is not None and all(end == begin + 1 for begin, end in zip(before, after, strict=True)):
                weight, padding = self.wider, after
            else:
                sides = zip(reversed(before), reversed(after), strict=True)  # F.pad begins with the last axis
                values, padding = F.pad(values, [side for pair in sides for side in pair]), (0,) * self.dimensions
        name, numbers, activate = ACTIVATIONS[self.activation]
        if FUSED is not None and values.device.type == "cpu" and values.dtype in (torch.float32, torch.bfloat16):
            once = (1,) * self.dimensions  # dilation
            return FUSED(values, weight, self.bias, padding, self.stride, once, self.groups, name, numbers, "")
        return activate(CONVOLVE[self.dimensions](values, weight, self.bias, self.stride, padding, groups=self.groups))


Sides = tuple[int, ...]


def same_padding(sizes: Sequence[int], kernel: Sides, stride: Sides) -> tuple[Sides, Sides]:
    """TensorFlow's "SAME", before and after: as many outputs as ceil(size / stride); an odd zero goes after."""
    missing = [
        max((-(-size // step) - 1) * step + width - size, 0)
        for size, width, step in zip(sizes, kernel, stride, strict=True)
    ]
    return tuple(amount // 2 for amount in missing), tuple(amount - amount // 2 for amount in missing)


def max_pool_same(values: Tensor, kernel: Sides, stride: Sides) -> Tensor:
    """Over time and space, kernels up to 3, (B, C, F, H, W), for values out of a ReLU: a padded zero never wins.

    The largest of a block is the largest over time of the largest in each picture: two dimensions and then one are
    several times faster than torch's three at once.
    """
    (first, *before), _ = same_padding(values.shape[2:], kernel, stride)
    pictures = values.transpose(1, 2).flatten(0, 1)  # (B * F, C, H, W)
    pictures = F.max_pool2d(pictures, kernel[1:], stride[1:], before, ceil_mode=True)
    steps = pictures.permute(0, 2, 3, 1)
    steps = steps.view(len(values), -1, *steps.shape[1:])  # (B, F, h, w, C)
    if kernel[0] > 1:
        starts = range(-first, steps.shape[1] - first, stride[0])
        parts = [steps[:, max(start, 0) : start + kernel[0]].amax(1) for start in starts]
        steps = torch.stack(parts, 1)
    return steps.permute(0, 4, 1, 2, 3)


def frozen(network: nn.Module) -> None:
    network.eval().requires_grad_(False)
