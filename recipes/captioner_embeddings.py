"""Training data of the model `embedding_conditioned`: sentence embeddings of videos, and predictions of them.

    python recipes/captioner_embeddings.py $WATCHWORD_DATA embeddings appearance=features
    python recipes/captioner_embeddings.py $WATCHWORD_DATA embeddings_full \\
        appearance=features audio=features:0.3 motion=features:0.5 regions=features:0.3

The embedding of a video is the mean of MiniLM's embeddings of its captions (`watchword weights get minilm`). It
writes

* `regression.safetensors`: kernel regression from streams, each from its store and with its weight, to embeddings. Its
  examples are the training videos that have the first stream: MSR-VTT's clips and MSVD's videos, of which those with
  mapped features get less weight. A stream that a video lacks is empty, as sound is in a silent video;
* a store with the stream `sentence_embedding`, and `captions.jsonl.gz`. Of a clip, the stream is the prediction of a
  regression that was fitted without the clip. A video without features (MSR-VTT's other training videos, MSVD's) is
  there twice: its embedding is the mean of every second caption and the others are to be learned, so that no caption is
  part of the embedding that it is learned with. That embedding gets the errors of predictions: a linear map brings it
  to where its prediction would lie, and random noise is added, as large as the errors of the clips and in the same
  directions; DRAWS times. With `data.frame_keep_rate` a batch has one of the draws. Where the video has features
  (MSVD's, mostly mapped ones), half of the draws are the prediction of a regression that was fitted without it. (With
  the observed errors of clips as noise there would be only 599 different ones, which a model soon memorises:
  docs/model_card.md);
* in that store also the first stream, as far as there is one, for models that attend to it; else it is empty.

Every HELD_OUT-th training clip is moved to the validation clips: the decoder never learns its captions, and its
embedding was predicted without it. That leaves more clips to select an epoch by, and to fit a confidence on. The
regression that ships was fitted on it too.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captioner_data import rows, write
from safetensors.torch import save_file
from torch import Tensor

from watchword.backbones.minilm import load_encoder
from watchword.data.dataset import evenly_chosen, pad_streams
from watchword.features.store import Store
from watchword.layers.kernel_regression import KernelRegression, Vectors, pooled
from watchword.types import StreamArrays

Video = dict[str, Any]  # video, split, captions
Source = tuple[Store, float]  # the store of a stream, and the weight of the stream

TIME_STEPS = 14  # of a video, as the captioner reads it
PENALTY, GAMMA = 0.2, 1.0
MAPPED = 0.3  # the weight of an example with features that were mapped from another backbone; others have 1
FOLDS = 20  # of the cross-validation
DRAWS = 8  # embeddings of a video without features
SMOOTHING = 0.3  # of the map from embeddings to predictions
HELD_OUT = 6  # every sixth training clip
AT_ONCE = 4096
MOST = 40  # captions of a video of MSVD


def main(data: Path, target: Path, sources: dict[str, Source]) -> None:
    clips, msvd = rows(data / "msrvtt" / "clips.jsonl.gz"), rows(data / "msvd" / "captions.jsonl.gz")
    ours = {clip["video"] for clip in clips}
    others = [
        *(video for video in rows(data / "msrvtt" / "captions.jsonl.gz") if video["video"] not in ours),
        *(video | {"captions": video["captions"][:MOST]} for video in msvd),
    ]
    others = [video for video in others if video["split"] == "train" and len(video["captions"]) > 1]
    target.mkdir(parents=True, exist_ok=True)

    halves = embeddings(clips, target / "clips.npy")  # (clips, 2, 384)
    other_halves = embeddings(others, target / "videos.npy")
    train = torch.tensor([clip["split"] == "train" for clip in clips])
    mean = halves[train].mean((0, 1))
    halves, other_halves = halves - mean, other_halves - mean
    whole = halves.mean(1)

    first = next(iter(sources.values()))[0]
    there = [first.has(video["video"], next(iter(sources))) for video in others]
    vectors = {name: vectors_of([*clips, *chosen(others, there)], source[0], name) for name, source in sources.items()}
    weights = torch.tensor([*train.float(), *(weight_of(first, video, sources) for video in chosen(others, there))])
    targets = torch.cat([whole, other_halves.mean(1)[torch.tensor(there, dtype=torch.bool)]])
    stream_weights = {name: weight for name, (_, weight) in sources.items()}

    fitted = regression(vectors, targets, weights, stream_weights)
    predicted = fitted.output(fitted.kernel(vectors)).detach()
    folds = torch.arange(len(weights)) % FOLDS
    for fold in range(FOLDS):
        left_out = (weights > 0) & (folds == fold)
        without_fold = regression(vectors, targets, weights * ~left_out, stream_weights)
        left_vectors = {name: one[left_out] for name, one in vectors.items()}
        predicted[left_out] = without_fold.output(without_fold.kernel(left_vectors)).detach()
    predicted_of = dict(zip((video["video"] for video in chosen(others, there)), predicted[len(clips) :], strict=True))
    predicted = predicted[: len(clips)]
    explained = 1 - (predicted - whole)[train].square().sum() / whole[train].square().sum()
    print(
        f"{int((weights > 0).sum()):,} examples; predictions explain {explained:.1%} of the variance of the embeddings "
        f"of {int(train.sum())} clips, by cross-validation"
    )

    scale = predicted[train].square().mean().rsqrt()
    with torch.no_grad():
        fitted.output.weight *= scale
        fitted.output.bias *= scale
    save_file(fitted.state_dict(), target / "regression.safetensors", {"streams": " ".join(sources)})

    store, random = Store(target), torch.Generator().manual_seed(1)
    for clip, one in zip(clips, predicted * scale, strict=True):
        keep(store, clip["video"], one.unsqueeze(0))
        copy(store, clip["video"], clip["video"], first, next(iter(sources)))
    follows, misses = errors(halves[train], predicted[train])
    learned = []
    for video, both in zip(others, other_halves @ follows, strict=True):
        for half, one in enumerate(both):
            name = f"{video['video']}.{half}"
            drawn = torch.randn(DRAWS, len(misses), generator=random)
            made = one + drawn @ misses
            if video["video"] in predicted_of:
                made[: DRAWS // 2] = predicted_of[video["video"]]
            keep(store, name, made * scale)
            copy(store, video["video"], name, first, next(iter(sources)))
            learned.append(video | {"video": name, "captions": video["captions"][1 - half :: 2]})
    held_out = [clip["video"] for clip in clips if clip["split"] == "train"][::HELD_OUT]
    clips = [clip | {"split": "val"} if clip["video"] in held_out else clip for clip in clips]
    write(target / "captions.jsonl.gz", [*clips, *learned])


def embeddings(videos: Sequence[Video], kept: Path) -> Tensor:
    """(videos, 2, 384), the means over every second caption and over the others; in a file, for it takes minutes."""
    if not kept.exists():
        encoder = load_encoder()
        halves = [video["captions"][half::2] for video in videos for half in (0, 1)]
        captions = sorted({caption for half in halves for caption in half}, key=len)
        vectors = [encoder.encode(captions[start : start + AT_ONCE]) for start in range(0, len(captions), AT_ONCE)]
        rows_of = dict(zip(captions, np.concatenate(vectors), strict=True))
        means = np.stack([np.mean([rows_of[caption] for caption in half], 0) for half in halves])
        np.save(kept, means.reshape(len(videos), 2, -1))
    return torch.from_numpy(np.load(kept))


def chosen(videos: Sequence[Video], there: Sequence[bool]) -> list[Video]:
    return [video for video, one in zip(videos, there, strict=True) if one]


def weight_of(store: Store, video: Video, sources: dict[str, Source]) -> float:
    note = store.read(video["video"], next(iter(sources))).provenance
    return MAPPED if {"mapped_from", "carried_from"} & note.keys() else 1.0  # the second name is that of version 0.1


def vectors_of(videos: Sequence[Video], store: Store, stream: str) -> Tensor:
    """What the regression reads of each video, (videos, 2 D)."""
    there = (read(store, video["video"], stream) for video in videos)
    return torch.cat([pooled(pad_streams([evenly_chosen(arrays, TIME_STEPS)])) for arrays in there])


def read(store: Store, video: str, stream: str) -> StreamArrays:
    """Empty where it is not there."""
    if store.has(video, stream):
        return store.read(video, stream)
    return StreamArrays(np.zeros((0, 1, store.width(stream)), np.float16), np.zeros(0), np.zeros((1, 4)))


def regression(
    vectors: Vectors, targets: Tensor, weights: Tensor, stream_weights: dict[str, float]
) -> KernelRegression:
    """Fitted on the videos that have a weight."""
    used = weights > 0
    widths = {name: one.shape[1] // 2 for name, one in vectors.items()}
    fitted = KernelRegression(widths, int(used.sum()), targets.shape[1], GAMMA)
    with torch.no_grad():
        for name, weight in stream_weights.items():
            fitted.weight[name].fill_(weight)
    fitted.fit({name: one[used] for name, one in vectors.items()}, targets[used], PENALTY / weights[used])
    return fitted


def errors(halves: Tensor, predicted: Tensor) -> tuple[Tensor, Tensor]:
    """How predictions (clips, 384) depend on the truth, and how they differ from it: twice (384, 384).

    The embedding of one half times the first matrix is where a prediction would lie; random numbers of size 1 times the
    second are the noise to add. Neither half is the truth, but what both have in common is: the noise of a few captions
    does not weaken the map, and as a half brings its own noise, so much less is added.
    """

    def follow(rows: Tensor) -> Tensor:
        one, other = halves[rows].unbind(1)
        common = (one.T @ other + other.T @ one) / 2
        return torch.linalg.solve(common + SMOOTHING * torch.eye(len(common)), (one + other).T / 2 @ predicted[rows])

    missed, everything = torch.zeros_like(predicted), torch.ones(len(predicted), dtype=torch.bool)
    folds = torch.arange(len(predicted)) % FOLDS
    for fold in range(FOLDS):
        missed[folds == fold] = predicted[folds == fold] - halves[folds == fold, 0] @ follow(folds != fold)
    follows = follow(everything)
    own = (halves[:, 0] - halves[:, 1]) @ follows
    sizes, directions = torch.linalg.eigh((missed.T @ missed - own.T @ own).double() / len(predicted))
    return follows, (sizes.clamp(min=0).sqrt() * directions).T.float()


def keep(store: Store, video: str, values: Tensor) -> None:
    """(draws, 384) as time steps of a stream."""
    arrays = StreamArrays(values.half().numpy()[:, None], np.zeros(len(values), np.float32), np.array([[0, 0, 1, 1]]))
    store.write(video, "sentence_embedding", arrays, {"made_by": "recipes/captioner_embeddings.py"})


def copy(store: Store, video: str, name: str, source: Store, stream: str) -> None:
    """A stream of a video under another name."""
    store.write(name, stream, replace(read(source, video, stream), provenance={}), source.settings(stream))


def source(word: str) -> tuple[str, Source]:
    """`audio=features:0.3`"""
    name, _, where = word.partition("=")
    folder, _, weight = where.partition(":")
    return name, (Store(folder), float(weight or 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), dict(map(source, sys.argv[3:])))
