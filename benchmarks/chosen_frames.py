"""Whether G2L attends to the frames, and in them to the regions, that show the subject of the caption; on drawn videos.

    python benchmarks/chosen_frames.py data/thirds RUN...

Test videos and their references. At every word for the subject or its appearance (object, colour, texture, size): is
the subject visible in the selected frames, and how much of the attention within such a frame lies on its box, on those
of other things, on mere background? Chance is a frame, and a box of such a frame, drawn at random from those that are
there.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch

from watchword.captioning.captioner import Captioner
from watchword.data.annotations import read_annotations
from watchword.research.analysis.drawn_videos import at_times, on_regions
from watchword.research.shapes import Truth, kind_of, meaning, read_truth

LOOKS = ("object", "colour", "texture", "size")


def names_subject(word: str, truth: Truth) -> bool:
    subject = truth.facts.subject
    looks = {"object": subject.object, "colour": subject.colour, "texture": subject.texture, "size": subject.size}
    kind = kind_of(word)
    return kind in LOOKS and meaning(word)[kind] == looks[kind]


@torch.no_grad()
def measure(run: Path, folder: Path) -> dict[str, float]:
    captioner = Captioner.load(run)
    truths = read_truth(folder / "truth.jsonl")
    clips = [clip for clip in read_annotations(folder / "captions.jsonl") if clip.split == "test"]
    found: dict[str, list[float]] = {
        "frame": [],
        "frame chance": [],
        "box": [],
        "box chance": [],
        "box first": [],
        "other things": [],
        "background": [],
    }
    for caption in captioner.teacher_force(clips):
        stream, attention = on_regions(caption.attention, run)
        truth = at_times(truths[caption.video], captioner.features.read([caption.video]), stream)
        background = np.array([thing is None for thing in truth.things])
        in_sight, there = truth.visible[:, truth.subject], truth.visible.any(1)
        for word, weights in zip(caption.words, attention, strict=True):  # (F, N)
            if not names_subject(word, truth):
                continue
            chosen = np.flatnonzero(weights.sum(1) > 1e-6)
            found["frame"].append(float(in_sight[chosen].mean()))
            found["frame chance"].append(float(in_sight[there].mean()))
            for frame in chosen[in_sight[chosen]]:
                inside = weights[frame] / weights[frame].sum()
                found["box"].append(float(inside[truth.subject]))
                found["background"].append(float(inside[background].sum()))
                found["other things"].append(1 - found["background"][-1] - found["box"][-1])
                found["box first"].append(float(inside.argmax() == truth.subject))
                found["box chance"].append(1 / float(truth.visible[frame].sum()))
    return {name: float(np.mean(values)) for name, values in found.items()} | {"words": len(found["frame"])}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    for each in arguments.runs:
        print(each.name, json.dumps({name: round(value, 3) for name, value in measure(each, arguments.data).items()}))
