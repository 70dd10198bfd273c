"""What it costs to give freed memory back to the system after every batch of training, and to ask for it again.

    python benchmarks/allocator.py --rounds 3

Each round trains the same updates of `soft_attention` over a grid (32 videos x 4 captions, 8 frames x 49 cells) in two
child processes, one that keeps freed memory (`watchword.training.allocator`) and one that does not, in turns. Printed:
CPU seconds of user and system, page faults and the peak of memory, medians over rounds.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys

import torch

from watchword.models.soft_attention import SoftAttention, SoftAttentionConfig
from watchword.tensors import Stream
from watchword.training.allocator import keep_freed_memory

VIDEOS, CAPTIONS, FRAMES, CELLS, WIDTH, WORDS, LENGTH = 32, 4, 8, 49, 768, 4000, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--updates", type=int, default=20)
    parser.add_argument("--child", choices=["kept", "given back"], help=argparse.SUPPRESS)
    words = parser.parse_args()
    if words.child:
        print(json.dumps(train(words.updates, words.child == "kept")))
        return
    found: dict[str, list[dict[str, float]]] = {"given back": [], "kept": []}
    for _ in range(words.rounds):
        for name, rows in found.items():
            command = [sys.executable, __file__, "--updates", str(words.updates), "--child", name]
            rows.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    for name, rows in found.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        print(
            f"freed memory {name:10}  {middle['user']:.3f} s of user, {middle['system']:.3f} s of system an update, "
            f"{middle['faults']:,.0f} page faults, peak {middle['peak']:.2f} GB"
        )


def train(updates: int, kept: bool) -> dict[str, float]:
    """Per update, after two that warm up."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if kept:
        keep_freed_memory()
    model = SoftAttention(SoftAttentionConfig(normalise=True), {"grid": WIDTH}, WORDS)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    shape = (VIDEOS, FRAMES, CELLS)
    times = torch.arange(float(FRAMES)).expand(VIDEOS, FRAMES)
    stream = Stream(torch.randn(*shape, WIDTH), torch.ones(shape, dtype=torch.bool), times, None)
    captions = torch.randint(4, WORDS, (VIDEOS, CAPTIONS, LENGTH))
    for update in range(updates + 2):
        if update == 2:
            before = resource.getrusage(resource.RUSAGE_SELF)
        memory, state = model.encode({"grid": stream})
        state = {name: tensor.expand(-1, CAPTIONS, -1) for name, tensor in state.items()}
        outputs = model.unroll(captions, memory, state, keep_attention=False).outputs
        loss = torch.nn.functional.cross_entropy(model.to_words(outputs).flatten(0, -2)[:, 3:], captions.flatten() - 3)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "user": (after.ru_utime - before.ru_utime) / updates,
        "system": (after.ru_stime - before.ru_stime) / updates,
        "faults": (after.ru_minflt - before.ru_minflt) / updates,
        "peak": after.ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    main()
