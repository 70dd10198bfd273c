"""What do an image network's vectors tell about captions? Ridge regression from one frame a video to caption words.

    python benchmarks/backbone_probe.py CAPTIONS VIDEOS [--videos 600] [--folds 5]

CAPTIONS is a captions.jsonl[.gz], VIDEOS the folder with its files; the test split is not read. Of each video one
frame,
the middle one, is given to every network. A word counts for a video if at least a fifth of its captions have it; words
of at least 2 % of the videos are predicted. The score is the mean average precision over words, out of fold, with its
standard error over folds, and the CPU milliseconds of a frame.
"""

import argparse
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from watchword.data.annotations import read_annotations
from watchword.features.networks import IMAGE_BACKBONES, Networks
from watchword.text.ptb import tokenise
from watchword.video import CentreCrop, Squash, Uniform, iterate_frames

NETWORKS = ("efficientnet_lite0", "tiny_vit_5m", "dinov2_s14", "clip_vit_b16")
STRENGTHS = (1.0, 10.0, 100.0, 1000.0)  # of the ridge; chosen inside the training folds


def targets_of(clips: list[Any]) -> tuple[np.ndarray, list[str]]:
    """(videos, words) whether each word belongs to each video."""
    shares = []
    for clip in clips:
        counts = Counter(word for words in tokenise(clip.captions, context="line") for word in set(words))
        shares.append({word for word, count in counts.items() if count >= 0.2 * len(clip.captions)})
    frequency = Counter(word for words in shares for word in words)
    words = sorted(word for word, count in frequency.items() if 0.02 * len(clips) <= count <= 0.6 * len(clips))
    return np.array([[word in own for word in words] for own in shares], float), words


def average_precision(truth: np.ndarray, scores: np.ndarray) -> float:
    """Mean over words of the precision at each video that has the word."""
    values = []
    for column in range(truth.shape[1]):
        hits = truth[np.argsort(-scores[:, column]), column]
        if hits.any():
            precision = hits.cumsum() / np.arange(1, len(hits) + 1)
            values.append(float((precision * hits).sum() / hits.sum()))
    return float(np.mean(values))


def ridge(inputs: np.ndarray, targets: np.ndarray, strength: float) -> Any:
    mean, scale, middle = inputs.mean(0), inputs.std(0) + 1e-6, targets.mean(0)
    centred = (inputs - mean) / scale
    kernel = centred @ centred.T
    dual = np.linalg.solve(kernel + strength * inputs.shape[1] / 100 * np.eye(len(kernel)), targets - middle)
    weights = centred.T @ dual
    return lambda new: (new - mean) / scale @ weights + middle


def probe(inputs: np.ndarray, targets: np.ndarray, folds: int) -> tuple[float, float]:
    scores = []
    for fold in range(folds):
        held = np.arange(len(inputs)) % folds == fold
        own, labels = inputs[~held], targets[~held]
        inner = np.arange(len(own)) % 4 == 0
        best = max(
            STRENGTHS,
            key=lambda strength: average_precision(
                labels[inner], ridge(own[~inner], labels[~inner], strength)(own[inner])
            ),
        )
        scores.append(average_precision(targets[held], ridge(own, labels, best)(inputs[held])))
    return float(np.mean(scores)), float(np.std(scores, ddof=1) / folds**0.5)


def vectors_of(paths: list[Path]) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Vectors by name, (videos, D), and CPU milliseconds a frame."""
    networks = Networks({})
    vectors: dict[str, list[np.ndarray]] = {}
    seconds: Counter[str] = Counter()
    for path in paths:
        for shape, size in (("squash", Squash(224, 224)), ("crop", CentreCrop(224))):
            frames = next(iter(iterate_frames(path, Uniform(1), size)))
            for name in NETWORKS:
                network = networks.get(IMAGE_BACKBONES, name, "")
                begin = time.process_time()
                with torch.no_grad():
                    layers = network(torch.from_numpy(frames.pictures))
                seconds[name] += time.process_time() - begin
                for layer in ("pooled", "class_token"):
                    if layer in layers:
                        vectors.setdefault(f"{name} {layer} {shape}", []).append(layers[layer][0].numpy())
    milliseconds = {name: 500 * total / len(paths) for name, total in seconds.items()}
    return {name: np.stack(rows) for name, rows in vectors.items()}, milliseconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captions", type=Path)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--videos", dest="number", type=int, default=600)
    parser.add_argument("--folds", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    there = {path.stem: path for path in asked.videos.iterdir()}
    clips = [clip for clip in read_annotations(asked.captions) if clip.split != "test" and clip.video in there]
    clips = [clips[row] for row in np.random.default_rng(0).permutation(len(clips))[: asked.number]]
    targets, words = targets_of(clips)
    vectors, milliseconds = vectors_of([there[clip.video] for clip in clips])
    clip, dino = "clip_vit_b16", "dinov2_s14"
    together = {f"{clip} pooled + class_token squash": (f"{clip} pooled squash", f"{clip} class_token squash")}
    together |= {f"{clip} pooled + {dino} pooled squash": (f"{clip} pooled squash", f"{dino} pooled squash")}
    for name, parts in together.items():
        standard = [(vectors[part] - vectors[part].mean(0)) / vectors[part].std() for part in parts]
        vectors[name] = np.concatenate(standard, 1)
    print(f"{len(clips)} videos, {len(words)} words, {asked.folds} folds")
    for name, values in sorted(vectors.items()):
        mean, error = probe(values.astype(float), targets, asked.folds)
        print(f"{name:50s} word mAP {mean:.3f} +- {error:.3f}   {milliseconds[name.split()[0]]:5.0f} CPU ms a frame")


if __name__ == "__main__":
    main()
