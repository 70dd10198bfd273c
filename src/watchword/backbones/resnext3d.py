"""3D-ResNeXt-101 on Kinetics-400, from a user's checkpoint.

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

from watchword.backbones.blocks import Checkpoint, frozen
from watchword.backbones.formats import Tensors
from watchword.backbones.resnet import Residual, bottleneck, normalised_convolution

MEAN = (114.7748, 107.7354, 99.4750)  # of ActivityNet, as in the authors' code
DEPTH = (3, 4, 23, 3)
GROUPS = 32
NUM_CLASSES = 400


class ResNeXt3D(nn.Module):
    """Clips to motion vectors; weights from a user's file with the authors' names."""

    mean: Tensor

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "3D-ResNeXt-101")
        self.register_buffer("mean", torch.tensor(MEAN))
        self.stem = normalised_convolution(
            checkpoint, "conv1", "bn1", (64, 3, 7, 7, 7), stride=(1, 2, 2), padding=3, activation="relu"
        )
        self.stages = nn.ModuleList()
        inputs = 64
        for index, num_blocks in enumerate(DEPTH):
            inner = 128 << index
            outputs = 2 * inner
            stage = nn.Sequential()
            for block in range(num_blocks):
                shapes = bottleneck(inputs, inner, outputs, dimensions=3, groups=GROUPS)
                stride = 2 if index and not block else 1
                stage.append(Residual(checkpoint, f"layer{index + 1}.{block}", shapes, stride, GROUPS))
                inputs = outputs
            self.stages.append(stage)
        self.classifier = checkpoint.linear("fc", NUM_CLASSES, inputs)
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
