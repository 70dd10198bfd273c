"""Rows of two papers' tables on drawn videos, five seeds each: layers of words (dualAFR), regions of frames (G2L).

    python benchmarks/drawn_rows.py layers runs/drawn
    python benchmarks/drawn_rows.py regions runs/drawn

Every run is a `watchword train` of the recipe with one thread in float32, so that it can be repeated bit for bit on one
machine; runs that are there are not trained again. Printed: mean and standard deviation over seeds, and against the
first row the mean difference by seed with its standard error. Videos of `layers` have 8 frames that show the event
throughout, those of `regions` 16 frames of which one in three has regions (Eq. 8).
"""

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev


@dataclass(frozen=True)
class Experiment:
    recipe: str
    drawing: str  # options of `watchword research shapes`
    settings: tuple[str, ...]
    rows: dict[str, tuple[str, ...]]  # settings of each row
    analysis: dict[str, str] = field(default_factory=dict)  # row -> command that prints JSON


EXPERIMENTS = {
    "layers": Experiment(
        "shapes/dual_afr",
        "--count 600 --frames 8 --event whole --streams layer1,layer2,layer3,motion",
        ("selection.every=10",),
        {
            "soft": (),
            "hard": ("model.variant=hard", "phases.0.loss.name=multi_sample"),
            "uniform": ("model.uniform_layers=true",),
            **{f"layer {layer}": ("model.variant=single", f"model.layer={layer}") for layer in (1, 2, 3)},
        },
        {"soft": "layers", "hard": "layers"},
    ),
    "regions": Experiment(
        "shapes/global2local",
        "--count 400 --frames 16 --longest-event 0.35 --outside hidden --regions-every 3",
        ("phases.0.epochs=12", "phases.0.schedule.decay_every=4", "selection.every=12"),
        {
            "aligned": ("model.variant=aligned",),
            "global": ("model.variant=global",),
            "local": (),
            "local, argmax": ("model.sampler=argmax",),
            "local, straight-through": ("model.sampler=straight_through", "model.temperature=0.5"),
        },
        dict.fromkeys(("local", "local, argmax", "local, straight-through"), "grounding"),
    ),
}


def watchword(*words: object) -> str:
    command = [sys.executable, "-m", "watchword", *map(str, words)]
    return subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    ).stdout


def run_of(experiment: Experiment, data: Path, folder: Path, row: str, seed: int, words: list[str]) -> dict[str, float]:
    """Validation loss and test scores of one run, trained where it is not there."""
    run = folder / f"{row.replace(', ', '-').replace(' ', '')}-{seed}"
    if not (run / "scores-test.json").exists():
        where = [f"data.captions={data / 'captions.jsonl'}", f"data.store={data / 'store'}", "precision=float32"]
        settings = [f"seed={seed}", *experiment.settings, *experiment.rows[row], *words]
        begin = ["--resume", run] if (run / "recipe.toml").exists() else [experiment.recipe, *where, *settings]
        watchword("train", *begin, *([] if begin[0] == "--resume" else ["--output", run]))
        watchword("evaluate", run, "--split", "test")
    scores = json.loads((run / "scores-test.json").read_text())["scores"]
    losses = [json.loads(line).get("val_loss") for line in (run / "log.jsonl").read_text().splitlines()]
    found = {"val_loss": min(loss for loss in losses if loss is not None)}
    found |= {name: 100 * scores[name] for name in ("CIDEr", "METEOR")}
    return found | analysis_of(experiment.analysis.get(row, ""), run, data)


def analysis_of(command: str, run: Path, data: Path) -> dict[str, float]:
    if not command:
        return {}
    words = ["--split", "test", "--truth", data / "truth.jsonl", "--json"]
    found = json.loads(watchword("research", command, run, *words, *(["--people"] if command == "layers" else [])))
    if command == "grounding":
        names = {"": run.name, ", chance": "chance"}
        return {key + end: found[name][key] for end, name in names.items() for key in ("during", "frames")}
    weights = {kind: row["weights"] for kind, row in found["kinds"].items() if kind in ("texture", "object", "scene")}
    layers = {f"{kind}, layer {n}": value for kind, row in weights.items() for n, value in enumerate(row, 1)}
    return layers | {f"on the subject, {name}": found["grounding"][name] for name in ("attention", "chance")}


def spread(values: list[float]) -> str:
    return f"{fmean(values):.3f} ± {stdev(values) if len(values) > 1 else 0:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", nargs="*", help="only these")
    parser.add_argument("--count", type=int, help="other than the experiment's number of videos")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="for every run")
    asked = parser.parse_args()
    experiment = EXPERIMENTS[asked.experiment]
    data = asked.folder / f"data-{asked.experiment}"
    count = ["--count", asked.count] if asked.count else []
    if not (data / "truth.jsonl").exists():
        watchword("research", "shapes", data, *experiment.drawing.split(), *count)
    baseline: list[dict[str, float]] = []
    for row in asked.rows or experiment.rows:
        seeds = range(1, asked.seeds + 1)
        found = [run_of(experiment, data, asked.folder, row, seed, asked.set) for seed in seeds]
        baseline = baseline or found
        print(row, f"({asked.seeds} seeds)")
        for key in found[0]:
            line = f"  {key}: {spread([one[key] for one in found])}"
            if found is not baseline and key in baseline[0]:
                more = [one[key] - other[key] for one, other in zip(found, baseline, strict=True)]
                error = stdev(more) / len(more) ** 0.5 if len(more) > 1 else 0
                line += f", difference {fmean(more):+.3f} ± {error:.3f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
