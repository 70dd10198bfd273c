"""What does extraction cost? CPU seconds and bytes a video for each stream; the whole path against the network alone.

    python benchmarks/extraction.py VIDEOS... [--streams appearance,audio] [--rounds 3]

Everything runs in one process with one thread and is measured by its CPU seconds, the decoder's thread included,
because machines are shared. "Network alone" is the default appearance network on the same number of pictures of noise,
interleaved with the whole path: reading, decoding, scaling, the network, writing.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from watchword.features.extraction import CHUNK, Extraction, find_videos, prepare
from watchword.features.extractors import EXTRACTORS
from watchword.features.networks import IMAGE_BACKBONES


def cpu_seconds(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def compare(words: list[str], rounds: int, folder: Path) -> None:
    """Appearance frames a CPU second, whole path and network alone."""
    job = prepare(folder, ["appearance"], overwrite=True)
    extraction, videos = Extraction(job), find_videos(words)
    extraction.load()
    spec = job.specs["appearance"].model_dump()
    network = extraction.networks.get(IMAGE_BACKBONES, spec["backbone"], spec["weights"])
    noise = torch.randint(0, 256, (spec["time_steps"], spec["pixels"], spec["pixels"], 3), dtype=torch.uint8)

    def alone() -> None:
        with torch.no_grad():
            for part in noise.split(CHUNK):
                network(part)

    alone()
    ratios, whole, bare = [], [], []
    for _ in range(rounds):
        for video in videos:
            whole.append(cpu_seconds(lambda video=video: extraction.extract(video)))
            bare.append(cpu_seconds(alone))
            ratios.append(whole[-1] / bare[-1])
    for name, seconds in (("network alone", bare), ("whole path", whole)):
        print(f"{name:16s}{spec['time_steps'] / statistics.median(seconds):7.1f} appearance frames a CPU second")
    print(f"on top of the network: {100 * (statistics.median(ratios) - 1):.0f} % (median of {len(ratios)} pairs)")


def streams(words: list[str], names: list[str], folder: Path) -> None:
    for name in names:
        extraction, videos = Extraction(prepare(folder / "each", [name])), find_videos(words)
        extraction.load()
        sizes = []
        seconds = cpu_seconds(lambda: sizes.extend(extraction.extract(video).num_bytes for video in videos))  # noqa: B023
        print(
            f"{name:16s}{seconds / len(videos):7.2f} CPU s a video {statistics.mean(sizes) / 1e3:9.0f} kB", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("videos", nargs="+")
    parser.add_argument("--streams", default=",".join(EXTRACTORS))
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments.videos, arguments.rounds, Path(folder))
        streams(arguments.videos, arguments.streams.split(","), Path(folder))


if __name__ == "__main__":
    main()
