"""CIDEr of captioners on the validation videos of both benchmarks, to choose the one that ships.

    python benchmarks/candidates.py FOLDER FOLDER:100 --store data/captioner/features

A folder is a run's export. It is decoded by beam search with 5 beams; `:100` by MBR decoding with as many samples.
"""

import argparse
from pathlib import Path

from watchword.captioning.bundle import find_bundle
from watchword.captioning.captioner import Captioner
from watchword.config import Data
from watchword.data.benchmarks import read_clips
from watchword.metrics import ReferenceIndex
from watchword.training.evaluation import Search, caption_videos, references_of, score_captions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:SAMPLES]")
    parser.add_argument("--store", type=Path, required=True)
    words = parser.parse_args()
    for folder in words.folders:
        name, _, samples = folder.partition(":")
        captioner = Captioner(find_bundle(name), store=words.store)
        search = Search(5, 0.5, captioner.bundle.recipe.data.max_words, int(samples or 0))
        for benchmark in ("msvd", "msrvtt"):
            clips = read_clips(Data(benchmark=benchmark, store=words.store, streams=captioner.streams)).split("val")
            videos = [clip.video for clip in clips]
            found = caption_videos(captioner.model, captioner.features, videos, captioner.vocabulary, search)
            scores = score_captions(found, ReferenceIndex(references_of(clips)), ["CIDEr"])
            print(
                f"{folder:40} {benchmark:7} {len(clips)} videos  CIDEr {100 * scores.corpus['CIDEr']:.1f}", flush=True
            )


if __name__ == "__main__":
    main()
