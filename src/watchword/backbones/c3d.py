"""C3D on Sports-1M, from a user's checkpoint: what dualAFR and HA_IL read.

Tran et al. 2015, arXiv:1412.0767. No registry package carries the weights: `c3d.pickle` comes with the PyTorch port
DavideA/c3d-pytorch (converted from the authors' Caffe model; a torch file in spite of its name, read by
`load_user_weights` without unpickling anything but tensors).

Clips go in as they are decoded, RGB, 0..255, (B, F, 112, 112, 3), F a multiple of 16. Nothing is taken off, as in the
port's own example; whoever trained with a mean takes it off before. Out come, channels last, dualAFR's five levels and
fc6. Without the fully connected layers F is any number, such as that of a whole video: layers grow with F.

| layer | shape for F frames |
|---|---|
| `pool2` | (B, F/2, 28, 28, 128) |
| `pool3` | (B, F/4, 14, 14, 256) |
| `pool4` | (B, F/8, 7, 7, 512) |
| `pool5` | (B, F/16, 4, 4, 512) |
| `fc6`, `fc7` | (B, F/16, 4096), after ReLU |
"""

import torch
from torch import Tensor, nn

from watchword.backbones.blocks import Checkpoint, Convolution, frozen, max_pool_same
from watchword.backbones.formats import Tensors
from watchword.errors import WatchwordError

STRIDES = {"pool2": 2, "pool3": 4, "pool4": 8, "pool5": 16}  # frames of a time step
REACH = 30  # frames on each side of its 16 that a time step of pool5 depends on
CONVOLUTIONS = (  # by the pool that follows: name, inputs, outputs
    (("conv1", 3, 64),),
    (("conv2", 64, 128),),
    (("conv3a", 128, 256), ("conv3b", 256, 256)),
    (("conv4a", 256, 512), ("conv4b", 512, 512)),
    (("conv5a", 512, 512), ("conv5b", 512, 512)),
)


def pooled(values: Tensor, number: int) -> Tensor:
    """pool1 to pool5, (B, C, F, H, W).

    Rounded up without padding before, as Caffe does: the fifth makes 4 x 4 of 7 x 7, whose last cells have one row or
    column.
    """
    step = (1, 2, 2) if number == 1 else (2, 2, 2)
    return max_pool_same(values, step, step)


class C3D(nn.Module):
    """Clips to layers by name; weights from a user's file with the port's names."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "C3D")
        self.stages = nn.ModuleList()
        for layers in CONVOLUTIONS:
            stage = nn.Sequential()
            for name, inputs, outputs in layers:
                weight = checkpoint.take(f"{name}.weight", outputs, inputs, 3, 3, 3)
                bias = checkpoint.take(f"{name}.bias", outputs)
                stage.append(Convolution(weight, bias, padding=1, activation="relu"))
            self.stages.append(stage)
        self.fc6 = checkpoint.linear("fc6", 4096, 8192)
        self.fc7 = checkpoint.linear("fc7", 4096, 4096)
        self.classifier = checkpoint.linear("fc8", 487, 4096)
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, clips: Tensor, fully_connected: bool = True) -> dict[str, Tensor]:
        if (fully_connected and clips.shape[1] % 16) or tuple(clips.shape[2:4]) != (112, 112):
            raise WatchwordError(f"C3D needs 16, 32, ... frames of 112 x 112 pixels, given {tuple(clips.shape[1:4])}")
        values = clips.float().permute(0, 4, 1, 2, 3)  # (B, 3, F, H, W), channels last in memory
        layers = {}
        for number, stage in enumerate(self.stages, start=1):
            values = stage(values)
            values = pooled(values, number)
            if number > 1:
                layers[f"pool{number}"] = values.permute(0, 2, 3, 4, 1)
        if not fully_connected:
            return layers
        flat = values.transpose(1, 2).flatten(2)  # (B, F/16, 512 * 4 * 4), channels before locations as in training
        layers["fc6"] = self.fc6(flat).relu_()
        layers["fc7"] = self.fc7(layers["fc6"]).relu_()
        return layers

    @torch.no_grad()
    def classify(self, fc7: Tensor) -> Tensor:
        """Scores of the 487 sports of Sports-1M."""
        return self.classifier(fc7)
