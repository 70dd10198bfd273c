"""What does describing videos cost? Start-up, the first caption, and seconds for a minute of video by stage.

    python benchmarks/describe.py VIDEOS... [--model RUN] [--rounds 3] [--transnet]
    python benchmarks/describe.py VIDEOS... --rounds 0     # the stages alone

Start-up and the first caption are whole commands, measured from outside: wall seconds are what a person waits (on an
idle machine), CPU seconds what it costs anywhere. The stages of a timeline are measured inside, in one process with one
thread, by CPU seconds, the decoder's thread included: finding cuts (by histogram; with --transnet by TransNetV2 too),
decoding and scaling, the networks, the sentences.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from watchword.captioning import segmentation
from watchword.captioning.captioner import Captioner
from watchword.captioning.pipeline import DescribeOptions, caption_video
from watchword.features.samplers import ImageSampler
from watchword.video import read_timeline

STEPS = {
    "python": "pass",
    "watchword --help": "from watchword.cli.main import app\ntry: app(['--help'])\nexcept SystemExit: pass",
    "numpy, av": "import numpy, av",
    "torch": "import torch",
    "captioner": "import watchword.captioning.captioner",
}


def command(words: list[str]) -> tuple[float, float]:
    """Wall and CPU seconds of a process."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, capture_output=True, env=os.environ)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - begin, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def start_up(video: Path, model: str | None, rounds: int) -> None:
    steps = {name: ["-c", code] for name, code in STEPS.items()}
    steps["first caption"] = ["-m", "watchword", "describe", str(video), "--whole"]
    steps["first caption"] += ["--model", model] if model else []
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for _ in range(rounds):
        for name, words in steps.items():
            found[name].append(command(words))
    print(f"whole commands, median of {rounds}, {torch.get_num_threads()} threads   wall s   CPU s")
    for name, times in found.items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(f"  {name:40s}{wall:8.2f}{cpu:8.2f}")


class Stages:
    """CPU seconds of the main thread inside functions that are watched."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    @contextmanager
    def watching(self, owner: Any, name: str, stage: str) -> Iterator[None]:
        whole: Callable[..., Any] = getattr(owner, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            begin = time.thread_time()
            answer = whole(*arguments, **named)
            answer = list(answer) if name == "see" else answer  # a generator works when it is read
            self.seconds[stage] += time.thread_time() - begin
            return answer

        setattr(owner, name, timed)
        try:
            yield
        finally:
            setattr(owner, name, whole)


def timelines(videos: list[Path], captioner: Captioner, detectors: list[str]) -> None:
    minutes = sum(read_timeline(video, lambda line: None).end for video in videos) / 60
    torch.set_num_threads(1)
    for name in detectors:
        segmentation.is_present = lambda _, answer=name == "transnetv2": answer  # type: ignore[misc]
        stages = Stages()
        begin, wall = time.process_time(), time.perf_counter()
        num_segments = 0
        with (
            stages.watching(segmentation.Segmenter, "feed", "cuts"),
            stages.watching(ImageSampler, "see", "pictures' network"),
            stages.watching(Captioner, "generate", "captions"),
        ):
            for video in videos:
                num_segments += sum(1 for _ in caption_video(captioner, video, DescribeOptions(timeline=True)))
        total = time.process_time() - begin
        stages.seconds["decoding, scaling, the rest"] = total - sum(stages.seconds.values())
        print(f"timeline, cuts by {name}: {num_segments} segments of {minutes:.1f} minutes; CPU s a minute of video")
        for stage, seconds in stages.seconds.items():
            print(f"  {stage:40s}{seconds / minutes:8.2f}")
        print(f"  {'all':40s}{total / minutes:8.2f}   {60 * minutes / total:.1f} times real time on one core")
        print(f"  {'wall':40s}{(time.perf_counter() - wall) / minutes:8.2f}")
    print(f"memory at most: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("videos", nargs="+", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--transnet", action="store_true")
    arguments = parser.parse_args()
    if arguments.rounds:
        start_up(arguments.videos[0], arguments.model, arguments.rounds)
    detectors = ["histogram", "transnetv2"] if arguments.transnet else ["histogram"]
    timelines(arguments.videos, Captioner.load(arguments.model), detectors)


if __name__ == "__main__":
    main()
