"""What do 20 nearest neighbours score on a benchmark? The floor that a captioner must be above.

    python benchmarks/neighbours.py msvd --streams appearance --split test

Of each video the 20 training videos whose mean features are nearest by cosine, summed over the streams; of all their
captions the one that agrees most with the others (CIDEr). `generic` is the training caption that agrees most with a
sample of 2,000. Intervals are bootstrapped over videos.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from watchword.config import Data
from watchword.data.benchmarks import read_clips, store_path
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex
from watchword.metrics.statistics import bootstrap
from watchword.training.evaluation import references_of
from watchword.types import Clip

NEIGHBOURS = 20
METRICS = ("BLEU", "METEOR", "ROUGE_L", "CIDEr")


def mean_features(store: Store, stream: str, clips: Sequence[Clip]) -> np.ndarray:
    """(videos, D) of length 1, the mean of all videos removed; zeros where a video has no such stream."""
    means = np.zeros((len(clips), store.width(stream)), np.float32)
    present = np.array([store.has(clip.video, stream) for clip in clips])
    for row in np.flatnonzero(present):
        values = store.read(clips[row].video, stream).values.astype(np.float32)
        means[row] = values.mean((0, 1)) if len(values) else 0
    means[present] -= means[present].mean(0)
    return means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-9)


def neighbours(store: Store, streams: Sequence[str], clips: Sequence[Clip], train: Sequence[Clip]) -> dict[str, str]:
    """The caption of the nearest training videos that agrees most with the others."""
    similarity = np.zeros((len(clips), len(train)))
    for stream in streams:
        both = mean_features(store, stream, [*clips, *train])
        similarity += both[: len(clips)] @ both[len(clips) :].T
    pools = {
        clip.video: [caption for row in np.argsort(-near)[:NEIGHBOURS] for caption in train[row].captions]
        for clip, near in zip(clips, similarity, strict=True)
    }
    return most_agreed(pools, train)


def most_agreed(pools: Mapping[str, Sequence[str]], train: Sequence[Clip]) -> dict[str, str]:
    """Of each pool of captions the one that is most like the others."""
    index = ReferenceIndex(pools, ReferenceIndex(references_of(train)).frequencies)
    best = {}
    for video, pool in pools.items():
        scores = np.asarray(index.reward([video], [list(pool)], {"CIDEr": 1.0}))[0]
        best[video] = pool[int(scores.argmax())]
    return best


def generic(clips: Sequence[Clip], train: Sequence[Clip]) -> dict[str, str]:
    """One caption for all videos."""
    random = np.random.default_rng(0)
    captions = [caption for clip in train for caption in clip.captions]
    pool = [captions[row] for row in random.choice(len(captions), 2000, replace=False)]
    caption = most_agreed({"all": pool}, train)["all"]
    return {clip.video: caption for clip in clips}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("benchmark")
    parser.add_argument("--streams", default="appearance")
    parser.add_argument("--split", default="test")
    parser.add_argument("--output", type=Path, help="a folder for the captions, one JSON file each")
    asked = parser.parse_args()
    streams = asked.streams.split(",")
    data = Data(benchmark=asked.benchmark, streams=(streams[0],))
    store, clip_set = Store(store_path(data)), read_clips(data)
    clips, train = clip_set.split(asked.split), clip_set.split("train")
    table = {"generic": generic(clips, train), "neighbours": neighbours(store, streams, clips, train)}
    index = ReferenceIndex(references_of(clips))
    print(f"{asked.benchmark}: {clip_set}; {asked.split}, neighbours by {asked.streams}")
    for name, captions in table.items():
        scores = index.score(captions, METRICS)
        intervals = bootstrap(scores)
        for metric in ("Bleu_4", "METEOR", "ROUGE_L", "CIDEr"):
            own = intervals[metric]
            between = f"({100 * own.low:.1f} to {100 * own.high:.1f})"
            print(f"{name:12s} {metric:8s} {100 * scores.corpus[metric]:6.1f}  {between}")
        if asked.output:
            asked.output.mkdir(parents=True, exist_ok=True)
            (asked.output / f"{name}.json").write_text(json.dumps(captions, indent=1), "utf-8")


if __name__ == "__main__":
    main()
