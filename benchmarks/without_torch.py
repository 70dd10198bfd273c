"""What would the first caption cost without torch? The least that such a path needs, beside the path that ships.

    python benchmarks/without_torch.py VIDEO [--rounds 3]

The captioner is `base`: eight frames through CLIP, then MBR decoding. The path without torch is only its parts: the
command line, CLIP's session in onnxruntime, the video, and the captioner's step as a graph, run as often and with as
many captions as the search needs. The captioner's encoder and the search around its step are not written for it and not
counted, so it costs more than this says. Every round is a process of its own for each path, with one thread.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

FRAMES = 8
STEP = "step.onnx"
NAMES = ("words", "values", "keys", "mask", "hidden", "cell", "video")


class Laps:
    """CPU and wall seconds since the process began, part by part."""

    def __init__(self) -> None:
        self.parts: dict[str, tuple[float, float]] = {"python": (time.process_time(), time.process_time())}
        self.begin = time.process_time(), time.perf_counter()

    def lap(self, part: str) -> None:
        now = time.process_time(), time.perf_counter()
        self.parts[part] = now[0] - self.begin[0], now[1] - self.begin[1]
        self.begin = now


def shipped(video: Path) -> Laps:
    """The parts of `watchword describe VIDEO --whole --model base`."""
    laps = Laps()
    import watchword.cli.main  # noqa: F401

    laps.lap("command line")
    import torch  # noqa: F401

    laps.lap("torch")
    from watchword.captioning.captioner import Captioner
    from watchword.captioning.pipeline import DescribeOptions

    captioner = Captioner.load("base")
    laps.lap("the rest of the package")
    captioner.extraction.load()
    laps.lap("CLIP's session")
    features = captioner.extract(video, 0.0, [])
    laps.lap("video, frames through CLIP")
    _ = captioner.vocabulary, captioner.model
    laps.lap("captioner's weights")
    captioner.caption_segment(features, DescribeOptions())
    laps.lap("caption")
    return laps


def without_torch(video: Path, graph: Path, folder: Path) -> Laps:
    laps = Laps()
    import watchword.cli.main  # noqa: F401

    laps.lap("command line")
    import av
    import numpy as np
    import onnxruntime

    laps.lap("numpy, av, onnxruntime")
    from watchword.downloads import sha256_of

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.add_session_config_entry("session.x64quantprecision", "0")
    sha256_of(graph)
    clip = onnxruntime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    laps.lap("CLIP's session")
    with av.open(str(video)) as container:
        decoded = list(container.decode(video=0))
    chosen = np.linspace(0, len(decoded) - 1, FRAMES).round().astype(int)
    pictures = np.stack([decoded[row].reformat(224, 224, "rgb24").to_ndarray() for row in chosen])
    images = ((pictures.astype(np.float32) - 120) / 70).transpose(0, 3, 1, 2)
    for image in images:
        clip.run(["image_embeds"], {clip.get_inputs()[0].name: np.ascontiguousarray(image[None])})
    laps.lap("video, frames through CLIP")
    step = onnxruntime.InferenceSession(str(folder / STEP), options, providers=["CPUExecutionProvider"])
    laps.lap("captioner's weights")
    values = dict(np.load(folder / "memory.npz"))
    for captions in json.loads((folder / "steps.json").read_text()):
        rows = {name: np.repeat(values[name], captions, 1) for name in ("words", "hidden", "cell", "video")}
        step.run(None, {name: rows.get(name, values[name]) for name in NAMES})
    laps.lap("caption")
    if "torch" in sys.modules:
        raise SystemExit("torch was imported after all")
    return laps


def prepare(video: Path, folder: Path) -> None:
    """The step of `base` as a graph, its memory of a video, and the number of captions at each step of a search."""
    import numpy as np
    import torch
    from torch import Tensor, nn

    from watchword.captioning.captioner import Captioner
    from watchword.captioning.pipeline import DescribeOptions
    from watchword.models.checkpoint import load_model

    captioner = Captioner.load("base")
    plain: Any = load_model(captioner.bundle.weights[0], captioner.vocabulary)  # without packed weights
    packed: Any = captioner.model
    seen: list[tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]] = []
    whole = packed.step

    def watched(words: Tensor, memory: dict[str, Tensor], state: dict[str, Tensor]) -> Any:
        seen.append((words, memory, state))
        return whole(words, memory, state)

    packed.step = watched
    captioner.caption_segment(captioner.extract(video, 0.0, []), DescribeOptions())

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = plain

        def forward(self, words: Tensor, values: Tensor, keys: Tensor, mask: Tensor, *state: Tensor) -> Any:
            read = {"frames.values": values, "frames.keys": keys, "frames.mask": mask}
            memory = read | {"frames.share": seen[0][1]["frames.share"]}  # for attention, which is not given
            found = self.model.step(words, memory, dict(zip(NAMES[4:], state, strict=True)))
            return self.model.log_probabilities(found.outputs), found.state["hidden"], found.state["cell"]

    words, memory, state = seen[0]
    parts = [memory[f"frames.{name}"] for name in NAMES[1:4]]
    given = [words[:, :1], *parts, *(state[name][:, :1] for name in NAMES[4:])]
    several = [
        tensor if any(tensor is part for part in parts) else tensor.repeat(1, 7, *[1] * (tensor.dim() - 2))
        for tensor in given
    ]
    with torch.no_grad(), warnings.catch_warnings(action="ignore"):  # the exporter that needs no further package
        torch.onnx.export(
            Step(),
            tuple(tensor.clone() for tensor in several),
            str(folder / STEP),
            input_names=list(NAMES),
            dynamic_axes={name: {1: "captions"} for name in ("words", "hidden", "cell", "video")},
            dynamo=False,
        )
    np.savez(folder / "memory.npz", **{name: tensor.numpy() for name, tensor in zip(NAMES, given, strict=True)})
    (folder / "steps.json").write_text(json.dumps([words.shape[1] for words, _, _ in seen]))


def run(words: list[str]) -> str:
    here = [sys.executable, __file__, *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run(here, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("video", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=("prepare", "shipped", "without torch"), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--graph", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only == "prepare":
        from watchword.backbones.weights import weights_file

        prepare(options.video, options.folder)
        print(weights_file("clip_vit_b16"))
    elif options.only:
        shown = shipped(options.video) if options.only == "shipped" else None
        laps = shown or without_torch(options.video, options.graph, options.folder)
        print(json.dumps(laps.parts))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            report(options.video, Path(scratch), options.rounds)


def report(video: Path, folder: Path, rounds: int) -> None:
    words = [str(video), "--folder", str(folder)]
    graph = run([*words, "--only", "prepare"]).splitlines()[-1]
    found: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for _ in range(rounds):
        for path in ("shipped", "without torch"):
            parts = json.loads(run([*words, "--graph", graph, "--only", path]).splitlines()[-1])
            parts["all"] = [sum(column) for column in zip(*parts.values(), strict=True)]
            for part, seconds in parts.items():
                found[path][part].append(seconds)
    steps = json.loads((folder / "steps.json").read_text())
    print(f"median of {rounds}, one thread; {len(steps)} steps of {sum(steps)} captions in all")
    for path, parts in found.items():
        print(f"{path:34s}  CPU s  wall s")
        for part, seconds in parts.items():
            cpu, wall = (statistics.median(column) for column in zip(*seconds, strict=True))
            print(f"  {part:32s}{cpu:7.2f}{wall:8.2f}")


if __name__ == "__main__":
    main()
