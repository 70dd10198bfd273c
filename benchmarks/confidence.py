"""Scores of a captioner that ships on a benchmark, and how its confidence ranks the captions.

    python benchmarks/confidence.py base msvd --store data/captioner/features --split test

The captioner decodes as `watchword describe` does. Videos without features are left out and counted. Beside it stand
the captions of 20 nearest neighbours and a generic caption (`neighbours.py`), made of the training videos in the store;
`--alone` leaves these out, and needs no features of training videos.
Differences are paired by video; intervals are bootstrapped over videos. `--by-category` adds CIDEr in each of
MSR-VTT's 20 categories, with the document frequencies of the whole split.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

from neighbours import METRICS, NEIGHBOURS, generic, neighbours

from watchword.captioning.bundle import find_bundle
from watchword.captioning.export import caption_clips
from watchword.config import Data
from watchword.data.benchmarks import read_clips
from watchword.features.store import Store
from watchword.metrics import ReferenceIndex
from watchword.metrics.statistics import bootstrap, compare, rank_correlation
from watchword.training.evaluation import references_of
from watchword.types import Clip

CATEGORIES = (  # of MSR-VTT, in their order
    "music people gaming sports news education television movie animation vehicles howto travel science animals family "
    "documentary food cooking beauty advertisement"
).split()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captioner", help="base, light, or a folder")
    parser.add_argument("benchmark", help="msvd or msrvtt")
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--alone", action="store_true", help="no neighbours and no generic caption")
    parser.add_argument("--by-category", action="store_true", help="CIDEr in each category of MSR-VTT")
    parser.add_argument("--output", type=Path, help="a file for the captions and their confidences")
    words = parser.parse_args()
    bundle, store = find_bundle(words.captioner), Store(words.store)
    clip_set = read_clips(Data(benchmark=words.benchmark, store=words.store, streams=bundle.recipe.data.streams))
    clips = clip_set.split(words.split)
    found = caption_clips(bundle, clips, store)
    captions = {clip.video: caption.text for clip, caption in zip(clips, found, strict=True)}
    table = {bundle.name: captions}
    if not words.alone:
        train = clip_set.split("train")
        table[f"{NEIGHBOURS} neighbours"] = neighbours(store, bundle.recipe.data.streams[:1], clips, train)
        table["generic"] = generic(clips, train)
    index = ReferenceIndex(references_of(clips))
    scores = {name: index.score(texts, METRICS) for name, texts in table.items()}
    print(f"{words.benchmark}, {words.split}: {clip_set}")
    for name, own in scores.items():
        interval = bootstrap(own)["CIDEr"]
        others = "  ".join(f"{metric} {100 * own.corpus[metric]:.1f}" for metric in ("Bleu_4", "METEOR", "ROUGE_L"))
        between = f"({100 * interval.low:.1f} to {100 * interval.high:.1f})"
        distinct = len(set(table[name].values()))
        print(f"{name:14}  CIDEr {100 * own.corpus['CIDEr']:.1f} {between}  {others}  {distinct} different captions")
    for name in list(table)[1:]:
        better = compare(scores[bundle.name], scores[name])["CIDEr"]
        print(
            f"{bundle.name} - {name}: {100 * better.difference:.1f} ({100 * better.low:.1f} to {100 * better.high:.1f})"
        )
    sure = {clip.video: caption.confidence for clip, caption in zip(clips, found, strict=True)}
    own = scores[bundle.name]
    ranks = rank_correlation([sure[video] for video in own.videos], list(own.per_video["CIDEr"]))
    print(f"rank correlation of confidence and CIDEr: {ranks:.2f}")
    if words.by_category:
        print_categories(clips, dict(zip(own.videos, own.per_video["CIDEr"], strict=True)))
    if words.output:
        rows = [
            {"video": clip.video, "caption": captions[clip.video], "confidence": sure[clip.video]} for clip in clips
        ]
        words.output.write_text(json.dumps(rows, indent=1), "utf-8")


def print_categories(clips: Sequence[Clip], scores: dict[str, float]) -> None:
    """The best first."""
    found = defaultdict(list)
    for clip in clips:
        if clip.category is not None:
            found[CATEGORIES[clip.category]].append(scores[clip.video])
    for name, values in sorted(found.items(), key=lambda one: -fmean(one[1])):
        print(f"{name:14} {len(values):4} videos  CIDEr {100 * fmean(values):.1f}")


if __name__ == "__main__":
    main()
