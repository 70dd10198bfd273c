"""What looking at several layers costs: dualAFR's variants against one layer alone, time and memory.

    python benchmarks/dual_afr.py    # a minute or two on one core

The paper, Sec. Evaluation: describing takes 1.2 to 1.5 times as long as with one layer, and 2 to 4 times the memory.
I3D-like noise, 10 time steps of 49 cells, widths 192, 480, 832, 1024 (as `motion_layers`), 5 windows of motion.
`describing` is a beam search, encoding and all; `words alone` is the same without encoding, as when a video is
described in many ways; `training step` is forward and backward. Memory of the videos is what `encode` keeps for each
video, memory of a step the peak of a process of its own that makes one training step, less that of one that makes
none. One thread, float32; variants take turns, so that a busy machine slows all.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

from watchword.decoding import beam, expand_state
from watchword.losses import build_loss
from watchword.losses.objective import Material
from watchword.models import build_model
from watchword.models.dual_afr import DualAFR
from watchword.tensors import BOS, EOS, Batch, Stream
from watchword.text.vocabulary import Vocabulary

WIDTHS = {"layer1": 192, "layer2": 480, "layer3": 832, "layer4": 1024, "motion": 1024}
VIDEOS, CAPTIONS, LENGTH, WORDS = 4, 4, 10, 2000
VARIANTS = {
    "top_only": {"variant": "top_only"},
    "single": {"variant": "single", "layer": 4},
    "mlp": {"variant": "mlp"},
    "average_pool": {"variant": "average_pool"},
    "soft": {"variant": "soft"},
    "hard": {"variant": "hard"},
}
MATERIAL = Material(Vocabulary([str(number) for number in range(WORDS - 4)]), {"video": ["a caption"]}, 1, LENGTH)


def batch_of(videos: int) -> Batch:
    torch.manual_seed(0)
    streams = {}
    for name, width in WIDTHS.items():
        time_steps, locations = (5, 1) if name == "motion" else (10, 49)
        mask = torch.ones(videos, time_steps, locations, dtype=torch.bool)
        values = torch.rand(videos, time_steps, locations, width)
        times = torch.arange(time_steps).float().expand(videos, -1)
        streams[name] = Stream(values, mask, times, torch.rand(videos, time_steps, locations, 4))
    captions = torch.randint(4, WORDS, (videos, CAPTIONS, LENGTH + 2))
    captions[:, :, 0], captions[:, :, -1] = BOS, EOS
    return Batch(tuple(str(row) for row in range(videos)), streams, captions)


def build(name: str, feature_size: int) -> DualAFR:
    torch.manual_seed(0)
    model = build_model({"name": "dual_afr", "feature_size": feature_size, **VARIANTS[name]}, WIDTHS, WORDS)
    assert isinstance(model, DualAFR)
    return model


def training_step(model: DualAFR, batch: Batch) -> None:
    objective = build_loss({"name": "multi_sample" if model.chooses else "cross_entropy"}, MATERIAL)
    model.zero_grad()
    objective(model.train(), batch, 0.0).total.backward()


@torch.no_grad()
def describing(model: DualAFR, batch: Batch) -> None:
    beam(model.eval(), batch.streams, 5, LENGTH)


def words_alone(model: DualAFR, batch: Batch) -> Callable[[], None]:
    with torch.no_grad():
        memory, first = model.eval().encode(batch.streams)

    @torch.no_grad()
    def work() -> None:
        state = expand_state(first, 5)
        for time_step in range(LENGTH):
            words = torch.full((len(batch.videos), 5), 4 if time_step else BOS)
            step = model.step(words, memory, state)
            model.log_probabilities(step.outputs)
            state = step.state

    return work


def seconds(jobs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """CPU seconds of each, the least of some rounds."""
    best = dict.fromkeys(jobs, float("inf"))
    for turn in range(rounds + 1):
        for name, job in jobs.items():
            start = time.process_time()
            job()
            if turn:  # the first warms up
                best[name] = min(best[name], time.process_time() - start)
    return best


def peak() -> float:
    """Megabytes at most so far. Linux; getrusage would begin with what the parent had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def peak_of(name: str, feature_size: int) -> float:
    """Megabytes at most of a process that builds the variant, and with `:step` behind its name makes one step."""
    words = [sys.executable, __file__, "--peak", name, "--feature-size", str(feature_size)]
    return float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--feature-size", type=int, default=256, help="0: 1024, as the deepest layer comes")
    arguments.add_argument("--variants", default=",".join(VARIANTS), help="with `single`, which others are divided by")
    arguments.add_argument("--peak", default="", help=argparse.SUPPRESS)
    given = arguments.parse_args()
    torch.set_num_threads(1)
    batch = batch_of(VIDEOS)
    if given.peak:
        name, _, step = given.peak.partition(":")
        model = build(name, given.feature_size)
        if step:
            training_step(model, batch)
        print(peak())
        return
    models = {name: build(name, given.feature_size) for name in given.variants.split(",")}
    jobs: dict[str, dict[str, Callable[[], object]]] = {
        "describing": {name: lambda model=model: describing(model, batch) for name, model in models.items()},
        "words alone": {name: words_alone(model, batch) for name, model in models.items()},
        "training step": {name: lambda model=model: training_step(model, batch) for name, model in models.items()},
    }
    for title, work in jobs.items():
        found = seconds(work, given.rounds)
        show(title, {name: 1000 * value / VIDEOS for name, value in found.items()}, "ms a video")
    with torch.no_grad():
        kept = {
            name: sum(part.numel() * part.element_size() for part in model.eval().encode(batch.streams)[0].values())
            for name, model in models.items()
        }
    show("memory of a video", {name: value / VIDEOS / 1e6 for name, value in kept.items()}, "MB")
    weights = {name: sum(part.numel() for part in model.parameters()) / 1e6 for name, model in models.items()}
    show("parameters", weights, "million")
    peaks = {name: peak_of(f"{name}:step", given.feature_size) - peak_of(name, given.feature_size) for name in models}
    show("memory of a step", peaks, "MB")


def show(title: str, found: dict[str, float], unit: str) -> None:
    parts = (f"{name} {value:.4g} ({value / found['single']:.2f})" for name, value in found.items())
    print(f"{title}, {unit}, and times single: {', '.join(parts)}", flush=True)


if __name__ == "__main__":
    main()
