"""What reading outwards from a key frame costs a video, against a plain bidirectional GRU.

    python benchmarks/kbigru.py    # a minute on one core

KBiGRU reads F + 1 frames a video, its order gathered and packed for each video's own key frame; the plain one,
`nn.GRU(bidirectional=True)`, reads 2 F. Key frames in the middle (the first look) and anywhere (the second). Forward,
and forward with backward. One thread, float32, CPU seconds; the two take turns, so a busy machine slows both.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from watchword.layers.recurrent import KeyFrameGRU

VIDEOS, HIDDEN = 32, 512
SIZES = ((20, 2048), (20, 512), (32, 512))  # frames, width


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Plain(nn.Module):
    """A bidirectional GRU whose last states are combined as KBiGRU's are."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.read = nn.GRU(width, HIDDEN, batch_first=True, bidirectional=True)
        self.combine = nn.Linear(2 * HIDDEN, HIDDEN)

    def forward(self, frames: Tensor) -> Tensor:
        both = self.read(frames)[1]
        return self.combine(torch.cat([both[0], both[1]], -1)).tanh()


def learn(module: nn.Module, *inputs: Tensor) -> None:
    module.zero_grad()
    module(*inputs).sum().backward()


@torch.no_grad()
def look(module: nn.Module, *inputs: Tensor) -> None:
    module(*inputs)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=8)
    rounds = arguments.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for frames, width in SIZES:
        plain, ours = Plain(width), KeyFrameGRU(width, HIDDEN)
        values, lengths = torch.randn(VIDEOS, frames, width), torch.full((VIDEOS,), frames)
        middle, anywhere = lengths // 2, torch.randint(0, frames, (VIDEOS,))
        for name, work in (("forward", look), ("with backward", learn)):
            times: dict[str, float] = {"plain": 0.0, "middle": 0.0, "anywhere": 0.0}
            for turn in range(rounds + 1):
                seconds = {
                    "plain": cpu_seconds(lambda: work(plain, values)),  # noqa: B023
                    "middle": cpu_seconds(lambda: work(ours, values, lengths, middle)),  # noqa: B023
                    "anywhere": cpu_seconds(lambda: work(ours, values, lengths, anywhere)),  # noqa: B023
                }
                if turn:  # the first warms up
                    times = {key: times[key] + seconds[key] for key in times}
            per_video = {key: 1000 * value / rounds / VIDEOS for key, value in times.items()}
            print(
                f"{frames} frames x {width}, {name}: plain {per_video['plain']:.2f} ms a video, KBiGRU "
                f"{per_video['middle']:.2f} ({per_video['middle'] / per_video['plain']:.2f} times) from the middle, "
                f"{per_video['anywhere']:.2f} ({per_video['anywhere'] / per_video['plain']:.2f} times) from anywhere"
            )


if __name__ == "__main__":
    main()
