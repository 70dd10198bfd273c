"""Where a video cuts from one shot to the next, by TransNetV2: every frame is seen, a few hundred are held."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from watchword.backbones.transnet import HEIGHT, WIDTH, TransNet
from watchword.backbones.weights import load_weights
from watchword.types import FloatArray
from watchword.video import Shot, Squash, Stride, iterate_frames, read_timeline, shots_from_cuts
from watchword.video.container import Report, warn

CHUNK = 256  # frames


def find_shots(path: Path, network: TransNet | None = None, *, report: Report = warn) -> list[Shot]:
    """The shots of a video, in order. `media.histogram_shots` does without weights."""
    network = network or TransNet(load_weights("transnetv2"))
    times: list[FloatArray] = []

    def pictures() -> Iterator[Tensor]:
        for frames in iterate_frames(path, Stride(1), Squash(WIDTH, HEIGHT), chunk=CHUNK, report=report):
            times.append(frames.times)
            yield torch.from_numpy(frames.pictures)

    end = read_timeline(path, lambda line: None).end  # what is wrong with it is reported once, below
    cuts = torch.cat(list(network.stream(pictures())))  # (F,)
    return shots_from_cuts(cuts.numpy(), np.concatenate(times), end=end)
