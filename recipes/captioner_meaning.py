"""What a captioner of model `gist` learns from: meanings of films, and how well they can be guessed.

    python recipes/captioner_meaning.py ../shared/data ../captioner_data/features ../captioner_meaning
    python recipes/captioner_meaning.py ../shared/data ../msrvtt_store ../captioner_meaning_full appearance:1 audio:0.4

The meaning of a film is the mean of its sentences as MiniLM has them (`watchword weights get minilm`). Made are

* `guess.safetensors`: kernel regression from the streams of our MSR-VTT clips, of the train split, to their meanings;
* a store with the stream `meaning`, and `captions.jsonl.gz`. Of a clip, `meaning` is the guess of a regression that did
  not know the clip. Of a film that nobody has (MSR-VTT's other train films, MSVD's) it is made of every second sentence
  and made as wrong as guesses are: brought to where guesses at it would lie, by a linear map, and moved by what a guess
  at some clip missed; DRAWS times. The other sentences are those to learn, so that no sentence is part of the meaning
  that it is learned with. With `data.glimpse` every look is at one of the draws.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from captioner_data import MOST, rows, write
from safetensors.torch import save_file
from torch import Tensor

from watchword.backbones.minilm import load_encoder
from watchword.data.dataset import evenly_chosen, pad_streams
from watchword.layers.likeness import Likeness, gathered
from watchword.records import StreamArrays
from watchword.store import Store

MOMENTS = 14        # of a film, as the captioner reads it
PENALTY, SHARPNESS = 0.3, 1.0
FOLDS = 20          # a clip is guessed by what the others teach
DRAWS = 8           # guesses at the meaning of a film that nobody has
SMOOTHING = 1.0     # of the map from meanings to guesses
AT_ONCE = 4096


def main(data: Path, features: Path, target: Path, streams: dict[str, float]) -> None:
    clips = rows(data / "msrvtt" / "clips.jsonl.gz")
    ours = {clip["video"] for clip in clips}
    others = [
        *(film for film in rows(data / "msrvtt" / "captions.jsonl.gz") if film["video"] not in ours),
        *(film | {"captions": film["captions"][: 2 * MOST]} for film in rows(data / "msvd" / "captions.jsonl.gz")),
    ]
    others = [film for film in others if film["split"] == "train" and len(film["captions"]) > 1]
    target.mkdir(parents=True, exist_ok=True)

    whole = meanings([clip["captions"] for clip in clips], target / "whole.npy")
    halves = meanings([clip["captions"][::2] for clip in clips], target / "halves.npy")
    apart = meanings([film["captions"][::2] for film in others], target / "apart.npy")
    vectors = {name: seen([clip["video"] for clip in clips], Store(features), name) for name in streams}
    train = torch.tensor([clip["split"] == "train" for clip in clips])
    mean = whole[train].mean(0)
    whole, halves, apart = whole - mean, halves - mean, apart - mean

    guess = regression(vectors, whole, train, streams)
    guesses = guess.known(guess.alike(vectors)).detach()
    folds = torch.arange(len(clips)) % FOLDS
    for fold in range(FOLDS):
        left_out = train & (folds == fold)
        others_teach = regression(vectors, whole, train & ~left_out, streams)
        asked = {name: one[left_out] for name, one in vectors.items()}
        guesses[left_out] = others_teach.known(others_teach.alike(asked)).detach()
    explained = 1 - (guesses - whole)[train].square().sum() / whole[train].square().sum()
    print(f"{int(train.sum())} clips; guesses explain {explained:.1%} of what varies in the meanings of those left out")

    scale = guesses[train].square().mean().rsqrt()
    with torch.no_grad():
        guess.known.weight *= scale
        guess.known.bias *= scale
    save_file(guess.state_dict(), target / "guess.safetensors", {"streams": " ".join(streams)})

    store, random = Store(target), np.random.default_rng(1)
    for clip, one in zip(clips, guesses * scale, strict=True):
        keep(store, clip["video"], one.unsqueeze(0))
    follows, misses = errors(halves[train], guesses[train])
    for film, one in zip(others, apart @ follows, strict=True):
        drawn = torch.from_numpy(random.choice(len(misses), DRAWS, replace=False))
        keep(store, film["video"], (one + misses[drawn]) * scale)
    write(target / "captions.jsonl.gz", [*clips, *(film | {"captions": film["captions"][1::2]} for film in others)])


def meanings(films: Sequence[Sequence[str]], kept: Path) -> Tensor:
    """(films, 384), the mean over each film's sentences; kept in a file, for it takes minutes."""
    if not kept.exists():
        encoder = load_encoder()
        sentences = [sentence for film in films for sentence in film]
        vectors = [encoder.encode(sentences[start : start + AT_ONCE]) for start in range(0, len(sentences), AT_ONCE)]
        ends = np.cumsum([len(film) for film in films])[:-1]
        np.save(kept, np.stack([part.mean(0) for part in np.split(np.concatenate(vectors), ends)]))
    return torch.from_numpy(np.load(kept))


def seen(videos: Sequence[str], store: Store, stream: str) -> Tensor:
    """What the regression reads of each film, (films, 2 D)."""
    return torch.cat([gathered(pad_streams([evenly_chosen(store.read(video, stream), MOMENTS)])) for video in videos])


def regression(vectors: dict[str, Tensor], targets: Tensor, chosen: Tensor, shares: dict[str, float]) -> Likeness:
    widths = {name: one.shape[1] // 2 for name, one in vectors.items()}
    guess = Likeness(widths, int(chosen.sum()), targets.shape[1], SHARPNESS)
    with torch.no_grad():
        for name, share in shares.items():
            guess.share[name].fill_(share)
    guess.settle({name: one[chosen] for name, one in vectors.items()}, targets[chosen], PENALTY)
    return guess


def errors(truths: Tensor, guesses: Tensor) -> tuple[Tensor, Tensor]:
    """How guesses follow the truth, (384, 384), and by what each of them misses that, (films, 384)."""

    def follow(rows: Tensor) -> Tensor:
        known = truths[rows]
        return torch.linalg.solve(known.T @ known + SMOOTHING * torch.eye(known.shape[1]), known.T @ guesses[rows])

    misses = torch.zeros_like(guesses)
    folds = torch.arange(len(guesses)) % FOLDS
    for fold in range(FOLDS):
        misses[folds == fold] = guesses[folds == fold] - truths[folds == fold] @ follow(folds != fold)
    return follow(folds >= 0), misses


def keep(store: Store, video: str, values: Tensor) -> None:
    """(draws, 384) as moments of a stream."""
    arrays = StreamArrays(values.half().numpy()[:, None], np.zeros(len(values), np.float32), np.array([[0, 0, 1, 1]]))
    store.write(video, "meaning", arrays, {"made_by": "recipes/captioner_meaning.py"})


if __name__ == "__main__":
    wanted = dict(word.split(":") for word in sys.argv[4:] or ["appearance:1"])
    main(*(Path(word) for word in sys.argv[1:4]), {name: float(share) for name, share in wanted.items()})
