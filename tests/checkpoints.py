"""Checkpoints of noise, with the names and in the shapes that the papers' own files have."""

import itertools

import numpy as np
import torch
from torch import Tensor, nn

from watchword.backbones.formats import Tensors
from watchword.backbones.i3d import MIXED


def random_tensor(*shape: int) -> Tensor:
    fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
    return torch.randn(*shape) * (2 / fan) ** 0.5


def norm_tensors(name: str, width: int) -> Tensors:
    return {
        f"{name}.weight": torch.rand(width) + 0.5,
        f"{name}.bias": torch.randn(width) / 10,
        f"{name}.running_mean": torch.randn(width) / 10,
        f"{name}.running_var": torch.rand(width) + 0.5,
        f"{name}.num_batches_tracked": torch.tensor(1),
    }


def i3d_tensors(channels: int) -> Tensors:
    """Names of the PyTorch port, shapes of the paper."""
    units = [("Conv3d_1a_7x7", channels, 64, 7), ("Conv3d_2b_1x1", 64, 64, 1), ("Conv3d_2c_3x3", 64, 192, 3)]
    inputs = 192
    for name, (direct, narrow1, wide1, narrow2, wide2, pooled) in MIXED.items():
        units += [(f"{name}.b0", inputs, direct, 1), (f"{name}.b1a", inputs, narrow1, 1)]
        units += [(f"{name}.b1b", narrow1, wide1, 3), (f"{name}.b2a", inputs, narrow2, 1)]
        units += [(f"{name}.b2b", narrow2, wide2, 3), (f"{name}.b3b", inputs, pooled, 1)]
        inputs = direct + wide1 + wide2 + pooled
    tensors = {"logits.conv3d.weight": random_tensor(400, 1024, 1, 1, 1), "logits.conv3d.bias": torch.zeros(400)}
    for name, before, after, kernel in units:
        tensors[f"{name}.conv3d.weight"] = random_tensor(after, before, kernel, kernel, kernel)
        tensors |= norm_tensors(f"{name}.bn", after)
    return tensors


def residual_tensors(dimensions: int, depth: tuple[int, ...], width: int, expansion: int, groups: int) -> Tensors:
    """torchvision's and Hara's names; `expansion` 0 means two 3x3 convolutions."""
    point, around, seven = ((size,) * dimensions for size in (1, 3, 7))
    tensors = {"conv1.weight": random_tensor(64, 3, *seven), **norm_tensors("bn1", 64)}
    inputs = 64
    for stage, num_blocks in enumerate(depth):
        inner = width << stage
        outputs = inner * (expansion or 1)
        for block in range(num_blocks):
            shapes = [(inner, inputs, *around), (inner, inner, *around)]
            if expansion:
                shapes = [(inner, inputs, *point), (inner, inner // groups, *around), (outputs, inner, *point)]
            name = f"layer{stage + 1}.{block}"
            for number, shape in enumerate(shapes, start=1):
                tensors[f"{name}.conv{number}.weight"] = random_tensor(*shape)
                tensors |= norm_tensors(f"{name}.bn{number}", shape[0])
            if block == 0 and (stage or inputs != outputs):
                tensors[f"{name}.downsample.0.weight"] = random_tensor(outputs, inputs, *point)
                tensors |= norm_tensors(f"{name}.downsample.1", outputs)
            inputs = outputs
    num_classes = 1000 if dimensions == 2 else 400
    return tensors | {"fc.weight": random_tensor(num_classes, inputs), "fc.bias": torch.zeros(num_classes)}


def c3d_tensors() -> Tensors:
    """The names of DavideA's port."""
    widths = {"1": (3, 64), "2": (64, 128), "3a": (128, 256), "3b": (256, 256), "4a": (256, 512), "4b": (512, 512)}
    widths |= {"5a": (512, 512), "5b": (512, 512)}
    tensors = {f"conv{name}.weight": random_tensor(after, before, 3, 3, 3) for name, (before, after) in widths.items()}
    tensors |= {f"conv{name}.bias": torch.zeros(after) for name, (_, after) in widths.items()}
    for name, before, after in (("fc6", 8192, 4096), ("fc7", 4096, 4096), ("fc8", 4096, 487)):
        one_number = torch.full((1, 1), 1e-4)  # expanded, it takes no room on disk
        tensors |= {f"{name}.weight": one_number.expand(after, before), f"{name}.bias": torch.zeros(after)}
    return tensors


class TorchVggish(nn.Module):
    """What a torchvggish checkpoint is the state of."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width, wider, pooled in [
            (1, 64, True),
            (64, 128, True),
            (128, 256, False),
            (256, 256, True),
            (256, 512, False),
            (512, 512, True),
        ]:
            layers += [nn.Conv2d(width, wider, 3, padding=1), nn.ReLU()] + [nn.MaxPool2d(2)] * pooled
        self.features = nn.Sequential(*layers)
        sizes = [512 * 6 * 4, 4096, 4096, 128]
        pairs = itertools.pairwise(sizes)
        self.embeddings = nn.Sequential(*(layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())))


def vggish_tensors() -> Tensors:
    """The names of torchvggish, PCA and all."""
    with torch.device("meta"):
        state = TorchVggish().state_dict()
    tensors = {}
    for name, value in state.items():
        one_number = torch.full((1,) * value.dim(), 1e-4)  # expanded, it takes no room on disk
        tensors[name] = random_tensor(*value.shape) if value.dim() == 4 else one_number.expand(value.shape)
    return tensors | {"pproc.pca_eigen_vectors": torch.zeros(128, 128), "pproc.pca_means": torch.zeros(128, 1)}
