"""STaTS against `soft_attention` on the same shapes, and the LSTM over time steps in three ways.

    python benchmarks/stats.py           # some minutes on one core
    python benchmarks/stats.py I3D       # these features only

One thread, float32, CPU seconds, noise for features, captions of 8 words, sizes of STaTS' Sec. 4.1 (features and hidden
512, words 256, attention 128). What is compared takes turns, so a busy machine slows all alike.
"""

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from watchword.decoding import beam
from watchword.losses import Material, build_loss
from watchword.models import Model, build_model
from watchword.tensors import BOS, EOS, Batch, Stream
from watchword.text.vocabulary import Vocabulary

WORDS, SAID, VIDEOS, CAPTIONS = 2000, 8, 8, 4
SHAPES = {"I3D": (5, 49, 2048), "cells": (28, 49, 1280), "pooled": (28, 1, 2048)}  # time steps, locations, width
MATERIAL = Material(Vocabulary([f"word{number}" for number in range(WORDS - 4)]), {"video": ["word1"]}, 2, SAID)
MODELS = {
    "soft_attention": ({"name": "soft_attention", "embedding_size": 256, "attention_size": 128}, "cross_entropy"),
    "stats ts": ({"name": "stats", "variant": "ts"}, "cross_entropy"),
    "stats st, mean": ({"name": "stats", "variant": "st", "pooling": "mean"}, "cross_entropy"),
    "stats st, mean_ranked": ({"name": "stats", "variant": "st"}, "ranked"),
    "stats": ({"name": "stats"}, "ranked"),
}


def noise(shape: tuple[int, int, int], videos: int) -> Stream:
    time_steps, locations, width = shape
    return Stream(
        torch.randn(videos, time_steps, locations, width),
        torch.ones(videos, time_steps, locations, dtype=torch.bool),
        torch.zeros(videos, time_steps),
        torch.zeros(videos, time_steps, locations, 4),
    )


def cpu_seconds(work: Callable[[], object], rounds: int) -> float:
    """The least of some rounds, after one to warm up."""
    times = []
    for _ in range(rounds + 1):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times[1:])


def learn(model: Model, loss: str, batch: Batch) -> Callable[[], None]:
    objective = build_loss({"name": loss}, MATERIAL)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4)

    def step() -> None:
        found = objective(model.train(), batch, 0.0)
        optimizer.zero_grad()
        (found.total / found.weight).backward()
        optimizer.step()

    return step


def describe(model: Model, streams: dict[str, Stream]) -> Callable[[], None]:
    def search() -> None:
        with torch.no_grad():
            beam(model.eval(), streams, 5, SAID)

    return search


def models(shapes: dict[str, tuple[int, int, int]], rounds: int) -> None:
    caption = torch.tensor([BOS, *range(4, 4 + SAID), EOS]).expand(VIDEOS, CAPTIONS, -1)
    for about, shape in shapes.items():
        streams = {"seen": noise(shape, VIDEOS)}
        batch = Batch(tuple(str(row) for row in range(VIDEOS)), streams, caption)
        print(f"{about} {shape}: captions a CPU second in training, videos a CPU second by beam 5 over {SAID} words")
        for name, (settings, loss) in MODELS.items():
            model = build_model({"hidden_size": 512, **settings}, {"seen": shape[2]}, WORDS)
            with torch.no_grad():
                model.to_words.bias[EOS] = -1e9  # noise ends nowhere in particular: let all say every word
            trained = VIDEOS * CAPTIONS / cpu_seconds(learn(model, loss, batch), rounds)
            found = VIDEOS / cpu_seconds(describe(model, streams), rounds)
            print(f"  {name:24} {trained:7.1f} {found:7.1f}")


class Readers(nn.Module):
    """The LSTM over spatially pooled time steps, for one word of (B, S) captions: weights (B, S, F, N)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(size, size)

    def fused(self, values: Tensor, weights: Tensor, _: Tensor) -> Tensor:
        """As the model does it: pool, then one call for all captions."""
        time_steps = weights.transpose(1, 2) @ values  # (B, F, S, D)
        return self.lstm(time_steps.transpose(0, 1).flatten(1, 2))[0][-1]

    def looped(self, values: Tensor, weights: Tensor, _: Tensor) -> Tensor:
        """Time step by time step in Python, each with its product of input and state."""
        time_steps = (weights.transpose(1, 2) @ values).transpose(0, 1).flatten(1, 2)
        inputs = nn.functional.linear(time_steps, self.lstm.weight_ih_l0, self.lstm.bias_ih_l0)
        return self._cells(inputs)

    def projected(self, values: Tensor, weights: Tensor, gates: Tensor) -> Tensor:
        """The input's product once a video, for every location; per word only the mixture of its results."""
        inputs = (weights.transpose(1, 2) @ gates).transpose(0, 1).flatten(1, 2)
        return self._cells(inputs)

    def _cells(self, inputs: Tensor) -> Tensor:
        hidden = cell = inputs.new_zeros(inputs.shape[1], self.lstm.hidden_size)
        for gates in inputs:
            gates = gates + nn.functional.linear(hidden, self.lstm.weight_hh_l0, self.lstm.bias_hh_l0)
            into, forget, candidate, out = gates.chunk(4, -1)
            cell = forget.sigmoid() * cell + into.sigmoid() * candidate.tanh()
            hidden = out.sigmoid() * cell.tanh()
        return hidden


def readers(shapes: dict[str, tuple[int, int, int]], rounds: int, size: int = 512) -> None:
    """Forward and back for all words of a batch, what is done once a video among it."""
    reader = Readers(size)
    for about, (time_steps, locations, _) in shapes.items():
        if locations == 1:
            continue  # the same for every word: read once a video
        values = torch.randn(VIDEOS, time_steps, locations, size, requires_grad=True)
        weights = torch.rand(VIDEOS, CAPTIONS, time_steps, locations)

        def work(way: str, values: Tensor = values, weights: Tensor = weights) -> None:
            once = way == "projected"
            gates = nn.functional.linear(values, reader.lstm.weight_ih_l0, reader.lstm.bias_ih_l0) if once else values
            total = torch.stack([getattr(reader, way)(values, weights, gates).sum() for _ in range(SAID)]).sum()
            total.backward()  # type: ignore[no-untyped-call]

        shown = {way: cpu_seconds(lambda way=way: work(way), rounds) for way in ("fused", "looped", "projected")}  # type: ignore[misc]
        print(
            f"{about}, LSTM over time steps for {SAID} words, CPU milliseconds: "
            + ", ".join(f"{way} {1000 * seconds:.0f}" for way, seconds in shown.items())
        )


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("shapes", nargs="*", help=" ".join(SHAPES))
    arguments.add_argument("--rounds", type=int, default=2)
    words = arguments.parse_args()
    chosen = {name: shape for name, shape in SHAPES.items() if name in (words.shapes or SHAPES)}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    models(chosen, words.rounds)
    readers(chosen, words.rounds)


if __name__ == "__main__":
    main()
