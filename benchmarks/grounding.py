"""How far references depend on their video, for a captioner: nats a token given the right video, and given others.

    python benchmarks/grounding.py light base --captions captions.jsonl.gz --store features

A good language model has a low loss without any video, and the CIDEr of 50 videos has a standard error of 7. Here
every reference of the split is scored with every video of it: `worth` is the gain of the right video (nats a token),
`R@1` and `R@5` are how often (%) the right video is the first, or among the first five, by the probability of the
reference; `video R@1` is the same for all references of a video together.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from watchword.captioning.captioner import Captioner
from watchword.data.annotations import read_annotations
from watchword.data.dataset import encode_captions, evenly_chosen, pad_captions, pad_streams
from watchword.decoding import teacher_force
from watchword.features.store import Store
from watchword.tensors import PAD, UNK
from watchword.types import Clip


@torch.inference_mode()
def log_probabilities(captioner: Captioner, clips: list[Clip], store: Store, most: int) -> tuple[np.ndarray, ...]:
    """(videos, tokens): log probabilities of the tokens of all references; the video and reference of each token."""
    data = captioner.bundle.recipe.data
    arrays = {stream: [store.read(clip.video, stream) for clip in clips] for stream in captioner.streams}
    streams = {
        name: pad_streams([evenly_chosen(one, data.max_time_steps) for one in some]) for name, some in arrays.items()
    }
    found, videos, references = [], [], []
    for row, clip in enumerate(clips):
        captions = clip.captions[:: max(1, len(clip.captions) // most)][:most]
        words = pad_captions([encode_captions(captions, captioner.vocabulary, data.max_words)])[:, :, 1:]  # (1, S, T)
        every = words.expand(len(clips), -1, -1)
        said = captioner.model.log_probabilities(teacher_force(captioner.model, streams, every).outputs)
        real = (words[0] != PAD) & (words[0] != UNK)
        found.append(said.gather(-1, every.unsqueeze(-1)).squeeze(-1)[:, real].numpy())
        videos.append(np.full(int(real.sum()), row))
        references.append(np.repeat(np.arange(len(real)) + row * most, real.sum(-1).numpy()))
    return np.concatenate(found, 1), np.concatenate(videos), np.concatenate(references)


def ranks(log_probs: np.ndarray, videos: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The rank of the right video for each group of tokens, from 0 on."""
    sums = np.stack([np.bincount(groups, row) for row in log_probs])  # (videos, groups)
    there = np.unique(groups)
    own = np.array([videos[groups == group][0] for group in there])
    return (sums[:, there] > sums[own, there]).sum(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captioners", nargs="+", help="`light`, `base`, or folders")
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--references", type=int, default=10, help="of each video, at most")
    words = parser.parse_args()
    clips = [clip for clip in read_annotations(words.captions) if clip.split == words.split]
    print(f"{len(clips)} videos of {words.split}\n{'':24}   own  other  worth   R@1   R@5   video R@1")
    for name in words.captioners:
        captioner = Captioner.load(name)
        log_probs, videos, references = log_probabilities(captioner, clips, Store(words.store), words.references)
        own = log_probs[videos, np.arange(len(videos))]
        other = (log_probs.sum(0) - own) / (len(clips) - 1)
        each, whole = ranks(log_probs, videos, references), ranks(log_probs, videos, videos)
        shares = [100 * float(np.mean(share)) for share in (each < 1, each < 5, whole < 1)]
        print(
            f"{Path(name).name:24} {-own.mean():.3f}  {-other.mean():.3f}  {(own - other).mean():.3f}"
            f"  {shares[0]:4.1f}  {shares[1]:4.1f}  {shares[2]:9.0f}"
        )


if __name__ == "__main__":
    main()
