"""Sound to patches of a log mel spectrogram: the front end that YAMNet and VGGish share.

Both hear 64 mel bands between 125 and 7500 Hz in 25 ms windows every 10 ms, in patches of 96 (0.96 s). They differ in
what is added before the logarithm and in how far one patch is from the next: `MelConfig` holds just that.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

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
class Heard:
    """A sound in windows; none where there is less than one window of it."""

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
