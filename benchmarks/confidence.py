"""Scores of a captioner, of nearest neighbours and of a generic caption, on videos that it was not trained on.

    python benchmarks/confidence.py light --captions captions.jsonl.gz --store features

The captioner decodes as `watchword describe` does. Neighbours: the 20 training videos whose mean features are nearest
by cosine; of all their captions the one that agrees most with the others (CIDEr). Generic: the training caption that
agrees most with a sample of all. Differences to the captioner are paired by video.
"""

import argparse
from pathlib import Path

import numpy as np
from neighbours import NEIGHBOURS, generic, neighbours

from watchword.captioning.bundle import find_bundle
from watchword.captioning.calibrate import caption_clips
from watchword.data.annotations import read_annotations
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex
from watchword.metrics.statistics import rank_correlation
from watchword.training.evaluation import references_of

METRICS = ("BLEU", "METEOR", "ROUGE_L", "CIDEr")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captioner", help="`light`, `full`, or a folder")
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--splits", default="val,test")
    parser.add_argument("--prefix", help="read only videos whose names begin so", default="video")
    words = parser.parse_args()
    captioner, store = find_bundle(words.captioner), Store(words.store)
    mine = [clip for clip in read_annotations(words.captions) if clip.video.startswith(words.prefix)]
    chosen = [clip for clip in mine if clip.split in words.splits.split(",")]
    train = [clip for clip in mine if clip.split == "train"]
    captions = caption_clips(captioner, chosen, store)
    index = ReferenceIndex(references_of(chosen))
    streams = captioner.recipe.data.streams
    table = {
        "generic": generic(chosen, train),
        f"{NEIGHBOURS} neighbours by {streams[0]}": neighbours(store, streams[:1], chosen, train),
        captioner.name: {clip.video: caption.text for clip, caption in zip(chosen, captions, strict=True)},
    }
    if len(streams) > 1:
        table[f"{NEIGHBOURS} neighbours by all streams"] = neighbours(store, streams, chosen, train)
    print(f"{len(chosen)} videos of {words.splits}; CIDEr with its standard error")
    by_video = {}
    for name, captions_of in table.items():
        scores = index.score(captions_of, METRICS)
        by_video[name] = cider = np.asarray(scores.per_video["CIDEr"])
        error = cider.std(ddof=1) / len(cider) ** 0.5
        others = "  ".join(f"{metric} {scores.corpus[metric]:.3f}" for metric in ("Bleu_4", "METEOR", "ROUGE_L"))
        distinct = len(set(captions_of.values()))
        print(f"{name:30}  CIDEr {cider.mean():.3f} +- {error:.3f}  {others}  {distinct} different captions")
    own = by_video.pop(captioner.name)
    for name, theirs in by_video.items():
        better = own - theirs
        error = better.std(ddof=1) / len(better) ** 0.5
        print(f"{captioner.name} is better than {name} by {better.mean():.3f} +- {error:.3f}, video by video")
    sure = {clip.video: caption.confidence for clip, caption in zip(chosen, captions, strict=True)}
    scores = index.score(table[captioner.name], ["CIDEr"])
    ranks = rank_correlation([sure[video] for video in scores.videos], list(scores.per_video["CIDEr"]))
    print(f"rank correlation of confidence and CIDEr: {ranks:.2f}")


if __name__ == "__main__":
    main()
