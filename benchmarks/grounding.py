"""Does a captioner know which film people speak of? Nats a word of their sentences given their film, and given others.

    python benchmarks/grounding.py light full --captions captions.jsonl.gz --store features

The loss of a captioner that speaks well is low even if it sees nothing, and the CIDEr of 50 films has a standard error
of 7. Here every sentence of the split is put to every film of it: `worth` is how much likelier its own film makes a
word (nats), `R@1` and `R@5` are how often (%) the own film is the first, or among the five, that make the sentence
likeliest; `film R@1` asks the same of all sentences of a film together.
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
    """(films, words): how likely each film makes each word of all sentences; and of which film and sentence it is."""
    data = captioner.bundle.recipe.data
    arrays = {stream: [store.read(clip.video, stream) for clip in clips] for stream in captioner.streams}
    streams = {
        name: pad_streams([evenly_chosen(one, data.max_time_steps) for one in some]) for name, some in arrays.items()
    }
    found, films, sentences = [], [], []
    for row, clip in enumerate(clips):
        captions = clip.captions[:: max(1, len(clip.captions) // most)][:most]
        words = pad_captions([encode_captions(captions, captioner.vocabulary, data.max_words)])[:, :, 1:]  # (1, S, T)
        every = words.expand(len(clips), -1, -1)
        said = captioner.model.log_probabilities(teacher_force(captioner.model, streams, every).outputs)
        real = (words[0] != PAD) & (words[0] != UNK)
        found.append(said.gather(-1, every.unsqueeze(-1)).squeeze(-1)[:, real].numpy())
        films.append(np.full(int(real.sum()), row))
        sentences.append(np.repeat(np.arange(len(real)) + row * most, real.sum(-1).numpy()))
    return np.concatenate(found, 1), np.concatenate(films), np.concatenate(sentences)


def found_again(log_probs: np.ndarray, films: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The place of the own film for each group of words, 0 the first."""
    sums = np.stack([np.bincount(groups, row) for row in log_probs])  # (films, groups)
    there = np.unique(groups)
    own = np.array([films[groups == group][0] for group in there])
    return (sums[:, there] > sums[own, there]).sum(0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("captioners", nargs="+", help="`light`, `full`, or folders")
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--split", default="val")
    parser.add_argument("--sentences", type=int, default=10, help="of each film, at most")
    words = parser.parse_args()
    clips = [clip for clip in read_annotations(words.captions) if clip.split == words.split]
    print(f"{len(clips)} films of {words.split}\n{'':24}   own  other  worth   R@1   R@5   film R@1")
    for name in words.captioners:
        captioner = Captioner.load(name)
        log_probs, films, sentences = log_probabilities(captioner, clips, Store(words.store), words.sentences)
        own = log_probs[films, np.arange(len(films))]
        other = (log_probs.sum(0) - own) / (len(clips) - 1)
        places, whole = found_again(log_probs, films, sentences), found_again(log_probs, films, films)
        shares = [100 * float(np.mean(share)) for share in (places < 1, places < 5, whole < 1)]
        print(
            f"{Path(name).name:24} {-own.mean():.3f}  {-other.mean():.3f}  {(own - other).mean():.3f}"
            f"  {shares[0]:4.1f}  {shares[1]:4.1f}  {shares[2]:9.0f}"
        )


if __name__ == "__main__":
    main()
