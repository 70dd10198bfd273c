"""What the local branch of G2L costs, `local` against `aligned`, at the paper's sizes.

    python benchmarks/global2local.py [--rounds 3] [--captions 20] [--variants aligned "local, 2 frames"]

Four things are measured: the words alone (ten times `step`, forward and back, after `encode`), where the sampler is; a
whole training step, `encode`, vocabulary and optimiser included; ten words of search alone; a whole search.

One thread, float32: 28 frames of 1,536 numbers, 28 clips of 2,048, 9 frames of 16 regions of 2,048, 13,491 words (as in
the paper), 8 videos x 20 captions of 10 words, beam 5. The variants take turns, the median of CPU seconds counts,
and the last figure is over the first variant.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from watchword.decoding import beam, expand_state
from watchword.losses.objective import CrossEntropy, CrossEntropySettings
from watchword.models import Model, build_model
from watchword.tensors import BOS, EOS, Batch, Stream

WIDTHS = {"appearance": 1536, "motion": 2048, "regions": 2048}
VARIANTS = {
    "global": {"variant": "global"},
    "aligned": {"variant": "aligned"},
    "local, 1 frame": {"frames": 1},
    "local, 2 frames": {"frames": 2},
    "local, 3 frames": {"frames": 3},
    "local, 2 frames, argmax": {"sampler": "argmax"},
}


def stream(videos: int, time_steps: int, locations: int, width: int) -> Stream:
    values = torch.randn(videos, time_steps, locations, width)
    times = ((torch.arange(time_steps) + 0.5) * 10 / time_steps).expand(videos, -1)
    return Stream(values, torch.ones(values.shape[:3], dtype=torch.bool), times, torch.zeros(*values.shape[:3], 4))


def example(videos: int, captions: int, words: int, num_words: int) -> Batch:
    streams = {
        "appearance": stream(videos, 28, 1, 1536),
        "motion": stream(videos, 28, 1, 2048),
        "regions": stream(videos, 9, 16, 2048),
    }
    captions = torch.randint(4, num_words, (videos, captions, words + 2))
    captions[:, :, 0], captions[:, :, -1] = BOS, EOS
    return Batch(tuple(str(video) for video in range(videos)), streams, captions)


def training_step(model: Model, batch: Batch) -> Callable[[], None]:
    optimizer, loss = torch.optim.AdamW(model.parameters(), lr=1e-4), CrossEntropy(CrossEntropySettings())

    def run() -> None:
        model.train()
        optimizer.zero_grad()
        loss(model, batch, 0.0).total.backward()
        optimizer.step()

    return run


def words_alone(model: Model, batch: Batch) -> Callable[[], None]:
    captions, words = batch.captions.shape[1:]

    def run() -> None:
        model.train()
        state = expand_state(first, captions)
        total = torch.zeros(())
        for time_step in range(words - 1):
            step = model.step(batch.captions[:, :, time_step], memory, state)
            state, total = step.state, total + step.outputs.sum()
        total.backward()

    with torch.no_grad():
        memory, first = model.train().encode(batch.streams)
    for tensor in memory.values():
        tensor.requires_grad_(tensor.is_floating_point())
    return run


def searched_words(model: Model, batch: Batch) -> Callable[[], None]:
    with torch.no_grad():
        memory, state = model.eval().encode(batch.streams)

    @torch.no_grad()
    def run() -> None:
        model.eval()
        words, now = torch.full((len(batch.videos), 5), 5), expand_state(state, 5)
        for _ in range(10):
            now = model.step(words, memory, now).state

    return run


def search(model: Model, batch: Batch) -> Callable[[], None]:
    @torch.no_grad()
    def run() -> None:
        model.eval()
        beam(model, batch.streams, 5, 10)

    return run


def seconds(jobs: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The median CPU seconds of each job; the jobs take turns."""
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(rounds + 1):
        for name, job in jobs.items():
            begun = time.process_time()
            job()
            taken[name].append(time.process_time() - begun)
    return {name: statistics.median(values[1:]) for name, values in taken.items()}  # the first round warms up


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--captions", type=int, default=20)
    parser.add_argument("--variants", nargs="+", default=sorted(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--words", type=int, default=13_491)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    batch = example(8, arguments.captions, 10, arguments.words)
    models = {
        name: build_model({"name": "global2local", **VARIANTS[name]}, WIDTHS, arguments.words)
        for name in arguments.variants
    }
    jobs = {
        "words alone": words_alone,
        "training step": training_step,
        "searched words": searched_words,
        "beam 5": search,
    }
    for title, job in jobs.items():
        found = seconds({name: job(model, batch) for name, model in models.items()}, arguments.rounds)
        for name, value in found.items():
            print(f"{title:14} {name:24} {value:.3f} CPU s  {value / found[arguments.variants[0]]:.2f}")
