"""Residual networks: ResNet-18, 50, 101, 152 on ImageNet and 3D-ResNeXt-101 on Kinetics-400, from a user's checkpoint.

He et al. 2015, arXiv:1512.03385, in torchvision's variant (the stride sits in the 3x3 convolution) and with its names.
No registry package carries these weights. Where torchvision or a network is at hand, save them once:
`torch.save(torchvision.models.resnet101(weights="IMAGENET1K_V1").state_dict(), "resnet101.pth")` (BSD-3-Clause; the
files are also offered at torchvision's model page), then read the file with `load_user_weights`.

Pictures go in as they are decoded, RGB, 0..255, (B, H, W, 3), trained at 224. Out come, channels last: `layer3`
(B, 14, 14, 1024), `grid` (B, 7, 7, 2048), `pooled` (B, 2048); 256 and 512 wide for ResNet-18.

Hara et al. 2018, arXiv:1711.09577: ResNeXt-101 (32 groups) with three-dimensional convolutions, shortcuts of type B.
No registry package carries the weights: `resnext-101-kinetics.pth` comes from the model folder that
kenshohara/3D-ResNets-PyTorch links to (MIT). It was saved from several GPUs, so its names begin with `module.`;
`load_user_weights` takes that off.

Clips go in as they are decoded, RGB, 0..255, (B, F, H, W, 3), trained on 16 frames of 112 pixels; the mean of
ActivityNet is taken off, nothing is divided. Out come, channels last, for 16 x 112 x 112: `layer3`
(B, 2, 7, 7, 1024), `grid` (B, 1, 4, 4, 2048), `pooled` (B, 2048).
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from watchword.backbones.blocks import Checkpoint, Convolution, frozen
from watchword.backbones.formats import Tensors
from watchword.errors import unknown

DEPTHS = {  # blocks of the four stages
    "resnet18": (2, 2, 2, 2),
    "resnet50": (3, 4, 6, 3),
    "resnet101": (3, 4, 23, 3),
    "resnet152": (3, 8, 36, 3),
}
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet, 0..1
EPSILON = 1e-5  # of the batch norms

RESNEXT_BLOCKS, RESNEXT_GROUPS = (3, 4, 23, 3), 32
ACTIVITYNET_MEAN = (114.7748, 107.7354, 99.4750)  # as in the authors' code, 0..255


class ResNet(nn.Module):
    """Pictures to a grid of vectors; weights from a user's file with torchvision's names."""

    mean: Tensor
    deviation: Tensor

    def __init__(self, tensors: Tensors, name: str = "resnet101") -> None:
        super().__init__()
        if name not in DEPTHS:
            raise unknown("ResNet", name, DEPTHS)
        checkpoint = Checkpoint(tensors, name)
        expansion = 1 if name == "resnet18" else 4
        self.register_buffer("mean", 255 * torch.tensor(MEAN))
        self.register_buffer("deviation", 255 * torch.tensor(DEVIATION))
        self.stem = normalised_convolution(
            checkpoint, "conv1", "bn1", (64, 3, 7, 7), stride=2, padding=3, activation="relu"
        )
        self.stages = nn.ModuleList()
        inputs = 64
        for index, num_blocks in enumerate(DEPTHS[name]):
            inner = 64 << index
            outputs = inner * expansion
            stage = nn.Sequential()
            for block in range(num_blocks):
                where, stride = f"layer{index + 1}.{block}", 2 if index and not block else 1
                if expansion == 1:
                    stage.append(Residual(checkpoint, where, basic(inputs, inner), stride))
                else:
                    stage.append(Residual(checkpoint, where, bottleneck(inputs, inner, outputs, 2), stride))
                inputs = outputs
            self.stages.append(stage)
        self.classifier = checkpoint.linear("fc", 1000, inputs)
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        values = ((pictures.float() - self.mean) / self.deviation).permute(0, 3, 1, 2)  # (B, 3, H, W), channels last
        values = F.max_pool2d(self.stem(values), 3, 2, 1)
        layers = {}
        for index, stage in enumerate(self.stages):
            values = stage(values)
            if index == 2:
                layers["layer3"] = values.permute(0, 2, 3, 1)
        layers["grid"] = values.permute(0, 2, 3, 1)
        layers["pooled"] = layers["grid"].mean((1, 2))
        return layers

    @torch.no_grad()
    def classify(self, pooled: Tensor) -> Tensor:
        """Scores of the 1000 classes of ImageNet, in the order of their WordNet numbers."""
        return self.classifier(pooled)


class ResNeXt3D(nn.Module):
    """Clips to motion vectors; weights from a user's file with the authors' names."""

    mean: Tensor

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "3D-ResNeXt-101")
        self.register_buffer("mean", torch.tensor(ACTIVITYNET_MEAN))
        self.stem = normalised_convolution(
            checkpoint, "conv1", "bn1", (64, 3, 7, 7, 7), stride=(1, 2, 2), padding=3, activation="relu"
        )
        self.stages = nn.ModuleList()
        inputs = 64
        for index, num_blocks in enumerate(RESNEXT_BLOCKS):
            inner = 128 << index
            outputs = 2 * inner
            stage = nn.Sequential()
            for block in range(num_blocks):
                shapes = bottleneck(inputs, inner, outputs, dimensions=3, groups=RESNEXT_GROUPS)
                stride = 2 if index and not block else 1
                stage.append(Residual(checkpoint, f"layer{index + 1}.{block}", shapes, stride, RESNEXT_GROUPS))
                inputs = outputs
            self.stages.append(stage)
        self.classifier = checkpoint.linear("fc", 400, inputs)
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, clips: Tensor) -> dict[str, Tensor]:
        values = (clips.float() - self.mean).permute(0, 4, 1, 2, 3)  # (B, 3, F, H, W), channels last in memory
        values = F.max_pool3d(self.stem(values), 3, 2, 1)
        layers = {}
        for index, stage in enumerate(self.stages):
            values = stage(values)
            if index == 2:
                layers["layer3"] = values.permute(0, 2, 3, 4, 1)
        layers["grid"] = values.permute(0, 2, 3, 4, 1)
        layers["pooled"] = layers["grid"].mean((1, 2, 3))
        return layers

    @torch.no_grad()
    def classify(self, pooled: Tensor) -> Tensor:
        """Scores of the 400 classes of Kinetics, in alphabetical order."""
        return self.classifier(pooled)


Shapes = tuple[tuple[int, ...], ...]


def basic(inputs: int, outputs: int) -> Shapes:
    """Two 3x3 convolutions; the stride is in the first."""
    return (outputs, inputs, 3, 3), (outputs, outputs, 3, 3)


def bottleneck(inputs: int, inner: int, outputs: int, dimensions: int, groups: int = 1) -> Shapes:
    """Bottleneck: narrow, convolve, widen; the stride is in the second. In two or three dimensions."""
    point, around = (1,) * dimensions, (3,) * dimensions
    return (inner, inputs, *point), (inner, inner // groups, *around), (outputs, inner, *point)


class Residual(nn.Module):
    """Convolutions `conv1`, `conv2`, ... added to their input, which is projected where the shapes differ."""

    def __init__(self, checkpoint: Checkpoint, name: str, shapes: Shapes, stride: int, groups: int = 1) -> None:
        super().__init__()
        strided = len(shapes) - 2  # the first of two, the second of three
        self.path = nn.ModuleList(
            normalised_convolution(
                checkpoint,
                f"{name}.conv{index + 1}",
                f"{name}.bn{index + 1}",
                shape,
                stride=stride if index == strided else 1,
                padding=shape[2] // 2,
                groups=groups if shape[2] > 1 else 1,
                activation="relu" if index < len(shapes) - 1 else "none",
            )
            for index, shape in enumerate(shapes)
        )
        inputs, outputs, dimensions = shapes[0][1], shapes[-1][0], len(shapes[0]) - 2
        self.project = None
        if stride != 1 or inputs != outputs:
            shape = (outputs, inputs, *(1,) * dimensions)
            self.project = normalised_convolution(
                checkpoint, f"{name}.downsample.0", f"{name}.downsample.1", shape, stride=stride, padding=0
            )

    def forward(self, values: Tensor) -> Tensor:
        shortcut = values if self.project is None else self.project(values)
        for convolution in self.path:
            values = convolution(values)
        return values.add_(shortcut).relu_()


def normalised_convolution(
    checkpoint: Checkpoint,
    name: str,
    norm: str,
    shape: tuple[int, ...],
    stride: int | tuple[int, ...],
    padding: int,
    groups: int = 1,
    activation: str = "none",
) -> Convolution:
    weight, bias = checkpoint.normalised(checkpoint.take(f"{name}.weight", *shape), norm, EPSILON)
    return Convolution(weight, bias, stride=stride, padding=padding, groups=groups, activation=activation)
