"""In which number format networks compute: float32, or bfloat16 where the processor is clearly faster with it.

Whether a CPU has bfloat16 cannot be asked: on some the first product ends the process with "Illegal instruction", on
others it works but is slow. So a child process tries and measures it once, and the answer is kept for the machine.
Weights and optimiser stay float32 either way (autocast).
"""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from watchword.atomic_io import write_whole
from watchword.documents import parse_json
from watchword.downloads import cache_folder
from watchword.errors import WatchwordError

CLEARLY_FASTER = 1.2
PROBE_SECONDS = 120
PROBE = """
import json, sys, time, torch
torch.set_num_threads(int(sys.argv[1]))

def work(videos, size, bfloat16):
    features, words = torch.randn(4 * videos, size), torch.randn(videos, size)
    weights = [torch.randn(shape, requires_grad=True) for shape in ((size, 2 * size), (4 * size, 2 * size))]
    began = time.process_time()
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        total = torch.matmul(features, weights[0]).tanh().sum()
        hidden = torch.zeros(videos, size)
        for _ in range(4):  # the steps of an LSTM
            gates = torch.nn.functional.linear(torch.cat([words, hidden], -1), weights[1])
            into, forget, new, out = gates.float().chunk(4, -1)
            hidden = out.sigmoid() * (forget.sigmoid() * hidden + into.sigmoid() * new.tanh()).tanh()
    (total + hidden.sum()).backward()
    return time.process_time() - began

def measured(videos, size, rounds):
    times = [(work(videos, size, False), work(videos, size, True)) for _ in range(rounds)]
    return [min(some) for some in zip(*times[1:])]

found = measured(16, 64, 3)
if found[1] < 2 * found[0]:  # not hopeless: at the sizes of training
    found = measured(128, 512, 5)
print(json.dumps(found))
"""


def choose_precision(wanted: str) -> str:
    """`float32` or `bfloat16`; `auto` takes the faster one."""
    if wanted == "float32":
        return wanted
    if torch.cuda.is_available():
        works = torch.cuda.is_bf16_supported()
        return "bfloat16" if wanted == "bfloat16" or works else "float32"
    if os.environ.get("ACCELERATE_MIXED_PRECISION") == "bf16":  # accelerate launch --mixed_precision bf16
        return "bfloat16"
    speedup = cpu_speedup()
    if wanted == "bfloat16" and speedup == 0:
        raise WatchwordError("bfloat16 does not work on this CPU: set precision=float32, or leave precision out")
    return "bfloat16" if wanted == "bfloat16" or speedup >= CLEARLY_FASTER else "float32"


def cpu_speedup(command: Sequence[str] = (sys.executable, "-c", PROBE)) -> float:
    """How many times faster bfloat16 is than float32 on this CPU, 0 where it fails; measured once a machine."""
    path, machine = cache_folder("precision.json"), f"{_cpu()}, torch {torch.__version__}"
    known = _read(path)
    if not isinstance(known.get(machine), float):
        known[machine] = _measured(command)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(known, indent=2) + "\n")
    return float(known[machine])


def _measured(command: Sequence[str]) -> float:
    try:
        words = [*command, str(torch.get_num_threads())]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PROBE_SECONDS, check=True)
        plain, short = json.loads(done.stdout)
        return round(plain / short, 2)
    except subprocess.TimeoutExpired:
        return 0.01  # it works, but is very slow
    except (OSError, subprocess.SubprocessError, ValueError, TypeError, ZeroDivisionError):
        return 0.0


def _read(path: Path) -> dict[str, Any]:
    try:
        known = parse_json(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _cpu() -> str:
    """The processor's model."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
