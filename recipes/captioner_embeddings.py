"""What a captioner of model `gist` learns from: meanings of films, and how well they can be guessed.

    python recipes/captioner_embeddings.py ../shared/data ../captioner_meaning appearance=../captioner_data/features
    python recipes/captioner_embeddings.py ../shared/data ../captioner_meaning_full \\
        appearance=../captioner_data/features audio=../msrvtt_store:0.3 motion=../msrvtt_store:0.5 \\
        regions=../msrvtt_store:0.3

The meaning of a film is the mean of its sentences as MiniLM has them (`watchword weights get minilm`). Made are

* `guess.safetensors`: kernel regression from streams, each from its store and with its share, to meanings. Its examples
  are the train films that have the first stream: MSR-VTT's clips and MSVD's films, of which those whose features were
  carried over are trusted less. A stream that a film lacks is empty, as sound is in a silent film;
* a store with the stream `meaning`, and `captions.jsonl.gz`. Of a clip, `meaning` is the guess of a regression that did
  not know the clip. A film that nobody has (MSR-VTT's other train films, MSVD's) is there twice: its meaning is made of
  every second sentence and the others are to be learned, so that no sentence is part of the meaning that it is learned
  with. That meaning is made as wrong as guesses are: brought to where guesses at it would lie, by a linear map, and
  moved at random, as far and in the directions in which guesses at clips miss; DRAWS times. With
  `data.frame_keep_rate` a batch has one of the draws. Where the film was seen (MSVD's, mostly through mapped
  features), half
  of the draws are the guess of a regression that did not know it. (Moved by what guesses at clips really missed, they
  would be wrong in 599 ways, and those are soon known by heart: docs/model_card.md);
* in that store also the first stream, as far as there is one, for words that look at it; else it is empty.

Every HELD_OUT-th train clip is put to the validation clips: what speaks never learns its sentences, and its meaning was
guessed by what did not know it. That is more to choose an epoch by, and to fit a confidence on. The regression that
ships knows it.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captioner_data import MOST, rows, write
from safetensors.torch import save_file
from torch import Tensor

from watchword.backbones.minilm import load_encoder
from watchword.data.dataset import evenly_chosen, pad_streams
from watchword.features.store import Store
from watchword.layers.kernel_regression import KernelRegression, Vectors, pooled
from watchword.types import StreamArrays

Film = dict[str, Any]  # video, split, captions
Source = tuple[Store, float]  # where a stream is, and its share

MOMENTS = 14  # of a film, as the captioner reads it
PENALTY, GAMMA = 0.2, 1.0
CARRIED = 0.3  # the trust in features that were carried over from another network, where real ones have 1
FOLDS = 20  # a clip is guessed by what the others teach
DRAWS = 8  # guesses at the meaning of a film that nobody has
SMOOTHING = 0.3  # of the map from meanings to guesses
HELD_OUT = 6  # every sixth of the train clips is not spoken of in training
AT_ONCE = 4096


def main(data: Path, target: Path, sources: dict[str, Source]) -> None:
    clips, msvd = rows(data / "msrvtt" / "clips.jsonl.gz"), rows(data / "msvd" / "captions.jsonl.gz")
    ours = {clip["video"] for clip in clips}
    others = [
        *(film for film in rows(data / "msrvtt" / "captions.jsonl.gz") if film["video"] not in ours),
        *(film | {"captions": film["captions"][: 2 * MOST]} for film in msvd),
    ]
    others = [film for film in others if film["split"] == "train" and len(film["captions"]) > 1]
    target.mkdir(parents=True, exist_ok=True)

    halves = meanings(clips, target / "clips.npy")  # (clips, 2, 384)
    apart = meanings(others, target / "films.npy")
    train = torch.tensor([clip["split"] == "train" for clip in clips])
    mean = halves[train].mean((0, 1))
    halves, apart = halves - mean, apart - mean
    whole = halves.mean(1)

    first = next(iter(sources.values()))[0]
    there = [first.has(film["video"], next(iter(sources))) for film in others]
    seen = {name: looked_at([*clips, *chosen(others, there)], source[0], name) for name, source in sources.items()}
    trust = torch.tensor([*train.float(), *(trusted(first, film, sources) for film in chosen(others, there))])
    known = torch.cat([whole, apart.mean(1)[torch.tensor(there, dtype=torch.bool)]])
    shares = {name: share for name, (_, share) in sources.items()}

    guess = regression(seen, known, trust, shares)
    guesses = guess.output(guess.kernel(seen)).detach()
    folds = torch.arange(len(trust)) % FOLDS
    for fold in range(FOLDS):
        left_out = (trust > 0) & (folds == fold)
        others_teach = regression(seen, known, trust * ~left_out, shares)
        asked = {name: one[left_out] for name, one in seen.items()}
        guesses[left_out] = others_teach.output(others_teach.kernel(asked)).detach()
    guessed = dict(zip((film["video"] for film in chosen(others, there)), guesses[len(clips) :], strict=True))
    guesses = guesses[: len(clips)]
    explained = 1 - (guesses - whole)[train].square().sum() / whole[train].square().sum()
    print(
        f"{int((trust > 0).sum()):,} examples; of what varies in the meanings of {int(train.sum())} clips left out in "
        f"turn, guesses explain {explained:.1%}"
    )

    scale = guesses[train].square().mean().rsqrt()
    with torch.no_grad():
        guess.output.weight *= scale
        guess.output.bias *= scale
    save_file(guess.state_dict(), target / "guess.safetensors", {"streams": " ".join(sources)})

    store, random = Store(target), torch.Generator().manual_seed(1)
    for clip, one in zip(clips, guesses * scale, strict=True):
        keep(store, clip["video"], one.unsqueeze(0))
        copy(store, clip["video"], clip["video"], first, next(iter(sources)))
    follows, misses = errors(halves[train], guesses[train])
    learned = []
    for film, both in zip(others, apart @ follows, strict=True):
        for half, one in enumerate(both):
            name = f"{film['video']}.{half}"
            drawn = torch.randn(DRAWS, len(misses), generator=random)
            made = one + drawn @ misses
            if film["video"] in guessed:
                made[: DRAWS // 2] = guessed[film["video"]]
            keep(store, name, made * scale)
            copy(store, film["video"], name, first, next(iter(sources)))
            learned.append(film | {"video": name, "captions": film["captions"][1 - half :: 2]})
    held_out = [clip["video"] for clip in clips if clip["split"] == "train"][::HELD_OUT]
    clips = [clip | {"split": "val"} if clip["video"] in held_out else clip for clip in clips]
    write(target / "captions.jsonl.gz", [*clips, *learned])


def meanings(films: Sequence[Film], kept: Path) -> Tensor:
    """(films, 2, 384), the means over every second sentence and over the others; in a file, for it takes minutes."""
    if not kept.exists():
        encoder = load_encoder()
        halves = [film["captions"][half::2] for film in films for half in (0, 1)]
        sentences = sorted({sentence for half in halves for sentence in half}, key=len)
        vectors = [encoder.encode(sentences[start : start + AT_ONCE]) for start in range(0, len(sentences), AT_ONCE)]
        rows_of = dict(zip(sentences, np.concatenate(vectors), strict=True))
        means = np.stack([np.mean([rows_of[sentence] for sentence in half], 0) for half in halves])
        np.save(kept, means.reshape(len(films), 2, -1))
    return torch.from_numpy(np.load(kept))


def chosen(films: Sequence[Film], there: Sequence[bool]) -> list[Film]:
    return [film for film, one in zip(films, there, strict=True) if one]


def trusted(store: Store, film: Film, sources: dict[str, Source]) -> float:
    return CARRIED if "carried_from" in store.read(film["video"], next(iter(sources))).provenance else 1.0


def looked_at(films: Sequence[Film], store: Store, stream: str) -> Tensor:
    """What the regression reads of each film, (films, 2 D)."""
    there = (read(store, film["video"], stream) for film in films)
    return torch.cat([pooled(pad_streams([evenly_chosen(arrays, MOMENTS)])) for arrays in there])


def read(store: Store, video: str, stream: str) -> StreamArrays:
    """Empty where it is not there."""
    if store.has(video, stream):
        return store.read(video, stream)
    return StreamArrays(np.zeros((0, 1, store.width(stream)), np.float16), np.zeros(0), np.zeros((1, 4)))


def regression(vectors: Vectors, targets: Tensor, trust: Tensor, shares: dict[str, float]) -> KernelRegression:
    """Learned from the films that are trusted."""
    used = trust > 0
    widths = {name: one.shape[1] // 2 for name, one in vectors.items()}
    guess = KernelRegression(widths, int(used.sum()), targets.shape[1], GAMMA)
    with torch.no_grad():
        for name, share in shares.items():
            guess.weight[name].fill_(share)
    guess.fit({name: one[used] for name, one in vectors.items()}, targets[used], PENALTY / trust[used])
    return guess


def errors(halves: Tensor, guesses: Tensor) -> tuple[Tensor, Tensor]:
    """How guesses (clips, 384) follow the truth, and how they miss it: twice (384, 384).

    From one half's meaning, the first gives where a guess would lie, and random numbers of size 1 times the second what
    to add to that. Neither half is the truth, but what both have in common is: the noise of a few sentences does not
    weaken what is followed, and as a half brings its own, so much less is added.
    """

    def follow(rows: Tensor) -> Tensor:
        one, other = halves[rows].unbind(1)
        common = (one.T @ other + other.T @ one) / 2
        return torch.linalg.solve(common + SMOOTHING * torch.eye(len(common)), (one + other).T / 2 @ guesses[rows])

    missed, everyone = torch.zeros_like(guesses), torch.ones(len(guesses), dtype=torch.bool)
    folds = torch.arange(len(guesses)) % FOLDS
    for fold in range(FOLDS):
        missed[folds == fold] = guesses[folds == fold] - halves[folds == fold, 0] @ follow(folds != fold)
    follows = follow(everyone)
    own = (halves[:, 0] - halves[:, 1]) @ follows
    sizes, directions = torch.linalg.eigh((missed.T @ missed - own.T @ own).double() / len(guesses))
    return follows, (sizes.clamp(min=0).sqrt() * directions).T.float()


def keep(store: Store, video: str, values: Tensor) -> None:
    """(draws, 384) as moments of a stream."""
    arrays = StreamArrays(values.half().numpy()[:, None], np.zeros(len(values), np.float32), np.array([[0, 0, 1, 1]]))
    store.write(video, "meaning", arrays, {"made_by": "recipes/captioner_meaning.py"})  # a part of the store's key


def copy(store: Store, video: str, name: str, source: Store, stream: str) -> None:
    """A stream of a film under another name."""
    store.write(name, stream, replace(read(source, video, stream), provenance={}), source.settings(stream))


def source(word: str) -> tuple[str, Source]:
    """`audio=../msrvtt_store:0.2`"""
    name, _, place = word.partition("=")
    folder, _, share = place.partition(":")
    return name, (Store(folder), float(share or 1))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), dict(map(source, sys.argv[3:])))
