"""A control: a stream `STREAM_of_others`, in which each video has another video's features at its own times.

    python benchmarks/other_videos.py FEATURES/msvd_small regions
    watchword train msvd_small/global2local 'data.streams=["appearance", "regions_of_others"]' \\
        model.region_stream=regions_of_others --output runs/others

Such features cost a model as many weights as real ones and tell nothing about the video. The score that a run loses by
them is what the real ones tell. The same store and seed give the same pairs.
"""

import argparse
import random
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.types import StreamName

SUFFIX = "_of_others"


def others_of(store: Store, stream: str, seed: int) -> dict[str, str]:
    """Video -> another one with as many time steps, drawn at random; no video serves twice."""
    of_length = defaultdict(list)
    for video in store.videos(stream):
        of_length[store.shape(video, stream)[0]].append(video)
    generator, others = random.Random(seed), {}
    for length, videos in of_length.items():
        if len(videos) == 1:
            raise WatchwordError(f"no other video has {length} time steps of {stream}, as {videos[0]} has")
        generator.shuffle(videos)
        others |= dict(zip(videos, videos[1:] + videos[:1], strict=True))
    return others


def write_others(store: Store, stream: str, seed: int) -> int:
    """Writes the stream of others; the number of its videos."""
    name = StreamName.parse(stream)
    written = str(replace(name, extractor=name.extractor + SUFFIX, key=""))
    settings = store.settings(stream) | {"of": "other videos", "seed": seed}
    others = others_of(store, stream, seed)
    for video, other in others.items():
        arrays = replace(store.read(other, stream), times=store.read(video, stream).times)
        store.write(video, written, replace(arrays, provenance={"other": other}), settings)
    return len(others)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("stream")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{write_others(Store(asked.store), asked.stream, asked.seed):,} videos with features of another one")


if __name__ == "__main__":
    main()
