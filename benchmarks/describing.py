"""What a captioner scores beside nearest neighbours and a generic sentence, on films that it has not learned from.

    python benchmarks/describing.py RUN [RUN...] [--votes 40]

Splits are those of the captions that RUN was trained on. Neighbours: the 20 training films whose mean features are
nearest by cosine; of all their captions the one that agrees most with the others (CIDEr). Generic: the training caption
that agrees most with a sample of all. Several runs are one ensemble.
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch

from watchword.data.annotations import read_annotations
from watchword.data.dataset import Features
from watchword.decoding import Ensemble
from watchword.metrics import ReferenceIndex
from watchword.records import Clip
from watchword.store import Store
from watchword.training.evaluation import Search, caption_videos, references_of
from watchword.training.run import Run

NEIGHBOURS = 20
METRICS = ("BLEU", "METEOR", "ROUGE_L", "CIDEr")


def mean_features(store: Store, stream: str, clips: Sequence[Clip]) -> np.ndarray:
    means = np.stack([store.read(clip.video, stream).values.astype(np.float32).mean((0, 1)) for clip in clips])
    means -= means.mean(0)
    return means / np.linalg.norm(means, axis=1, keepdims=True)


def neighbours(store: Store, streams: Sequence[str], clips: Sequence[Clip], train: Sequence[Clip]) -> dict[str, str]:
    alike = np.zeros((len(clips), len(train)))
    for stream in streams:
        both = mean_features(store, stream, [*clips, *train])
        alike += both[: len(clips)] @ both[len(clips) :].T
    pools = {
        clip.video: [caption for row in np.argsort(-near)[:NEIGHBOURS] for caption in train[row].captions]
        for clip, near in zip(clips, alike, strict=True)
    }
    return agreed(pools, train)


def agreed(pools: Mapping[str, Sequence[str]], train: Sequence[Clip]) -> dict[str, str]:
    """Of each pool of captions the one that is most like the others."""
    index = ReferenceIndex(pools, ReferenceIndex(references_of(train)).frequencies)
    best = {}
    for video, pool in pools.items():
        scores = np.asarray(index.reward([video], [list(pool)], {"CIDEr": 1.0}))[0]
        best[video] = pool[int(scores.argmax())]
    return best


def generic(clips: Sequence[Clip], train: Sequence[Clip]) -> dict[str, str]:
    random = np.random.default_rng(0)
    captions = [caption for clip in train for caption in clip.captions]
    pool = [captions[row] for row in random.choice(len(captions), 2000, replace=False)]
    sentence = agreed({"all": pool}, train)["all"]
    return {clip.video: sentence for clip in clips}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--votes", type=int, default=0)
    parser.add_argument("--splits", default="val,test")
    parser.add_argument("--films", help="films whose names begin so, the others are left out", default="video")
    words = parser.parse_args()
    runs = [Run(folder) for folder in words.runs]
    recipe, vocabulary = runs[0].recipe, runs[0].vocabulary
    mine = [clip for clip in read_annotations(recipe.data.captions) if clip.video.startswith(words.films)]
    chosen = [clip for clip in mine if clip.split in words.splits.split(",")]
    train = [clip for clip in mine if clip.split == "train"]
    store = Store(recipe.data.store)
    models = [run.model().eval() for run in runs]
    speaker = models[0] if len(models) == 1 else Ensemble(models)
    search = Search(beam=5, max_words=recipe.data.max_words, votes=words.votes)
    torch.manual_seed(0)
    videos = [clip.video for clip in chosen]
    ours = caption_videos(speaker, Features(store, recipe.data), videos, vocabulary, search)
    index = ReferenceIndex(references_of(chosen))
    table = {
        "generic": generic(chosen, train),
        f"{NEIGHBOURS} neighbours": neighbours(store, recipe.data.streams, chosen, train),
        "+".join(run.name for run in runs): {caption.video: caption.text for caption in ours},
    }
    print(f"{len(chosen)} films of {words.splits}, beam 5, {words.votes} votes; CIDEr with its standard error")
    for name, sentences in table.items():
        scores = index.score(sentences, METRICS)
        cider = np.asarray(scores.per_video["CIDEr"])
        error = cider.std(ddof=1) / len(cider) ** 0.5
        others = "  ".join(f"{metric} {scores.corpus[metric]:.3f}" for metric in ("Bleu_4", "METEOR", "ROUGE_L"))
        distinct = len(set(sentences.values()))
        print(f"{name:30}  CIDEr {cider.mean():.3f} +- {error:.3f}  {others}  {distinct} different sentences")


if __name__ == "__main__":
    main()
