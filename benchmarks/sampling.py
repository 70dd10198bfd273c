"""What do 28 frames of a video cost? Ours against decoding everything, with PyAV and with OpenCV where it is installed.

    python benchmarks/sampling.py VIDEOS... [--frames 28] [--rounds 3]

CPU milliseconds a video, all frames scaled to 224 x 224, one decoding thread, ways interleaved, median over videos and
rounds. "Decode everything" is what public feature extractors do: every frame to RGB at full size, then pick and scale.
"""

import argparse
import importlib
import importlib.util
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image

from watchword.video import Squash, Uniform, read_frames

SIDE = 224


def ours(path: Path, count: int) -> object:
    return read_frames(path, Uniform(count), Squash(SIDE, SIDE))


def pyav_plain(path: Path, count: int) -> object:
    """Every frame decoded, the wanted ones converted."""
    with av.open(str(path)) as video:
        video.streams.video[0].thread_count = 1
        frames = list(video.decode(video=0))
    wanted = np.linspace(0, len(frames) - 1, count).astype(int)
    return [frames[index].reformat(SIDE, SIDE, "rgb24").to_ndarray() for index in wanted]


def pyav_everything(path: Path, count: int) -> object:
    """Every frame decoded and converted, the wanted ones scaled."""
    with av.open(str(path)) as video:
        video.streams.video[0].thread_count = 1
        frames = [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]
    wanted = np.linspace(0, len(frames) - 1, count).astype(int)
    return [np.asarray(Image.fromarray(frames[index]).resize((SIDE, SIDE))) for index in wanted]


def opencv_everything(path: Path, count: int) -> object:
    """As above, by OpenCV, which decodes with as many threads as it likes."""
    opencv: Any = importlib.import_module("cv2")
    video, frames = opencv.VideoCapture(str(path)), []
    while True:
        good, frame = video.read()
        if not good:
            break
        frames.append(opencv.cvtColor(frame, opencv.COLOR_BGR2RGB))
    wanted = np.linspace(0, len(frames) - 1, count).astype(int)
    return [opencv.resize(frames[index], (SIDE, SIDE)) for index in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--frames", type=int, default=28)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    ways: list[Callable[[Path, int], object]] = [ours, pyav_plain, pyav_everything]
    if importlib.util.find_spec("cv2"):
        ways.append(opencv_everything)
    spent: dict[str, list[float]] = {way.__name__: [] for way in ways}
    for _ in range(arguments.rounds):
        for video in arguments.videos:
            for way in ways:
                begin = time.process_time()
                way(video, arguments.frames)
                spent[way.__name__].append(1000 * (time.process_time() - begin))
    for name, milliseconds in spent.items():
        print(f"{name:20s}{statistics.median(milliseconds):8.0f} CPU ms a video")


if __name__ == "__main__":
    main()
