"""Training and beam search of `soft_attention` against the shapes of work of two public code bases.

    python -m benchmarks.captioner                              # some minutes on one core
    python -m benchmarks.captioner --rounds 1 --videos 16       # half a minute; the ratios are rough

`peers.py` says what the two do. All have the same network and sizes (28 x 2048 features, hidden 512, 4,000 words), the
same weights, Adam, 128 captions a batch and 32 videos a search; lengths of captions are MSVD's. The peers compute in
float32; Watchword in float32 and, where the processor is faster with it, in bfloat16 (docs/architecture.md, Precision).
One thread, CPU seconds; all take turns in every round, so a busy machine slows all alike. In every
round a peer learns one batch, Watchword so many that all rounds are one epoch: its batches differ in length.

A search is measured twice: with captions that end after as many words as MSVD's, and with captions that never end, so
that nobody can stop before 20 words.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.peers import PEERS, Network
from watchword.config import Data
from watchword.data.dataset import CaptionData, pad_captions
from watchword.decoding import beam
from watchword.layers.packed import packed
from watchword.losses.objective import CrossEntropy, CrossEntropySettings
from watchword.models.soft_attention import SoftAttention, SoftAttentionConfig
from watchword.precision import cpu_speedup
from watchword.tensors import BOS, EOS, PAD, Batch, Stream

FRAMES, WIDTH, HIDDEN, EMBEDDING, ATTENTION, WORDS, LONGEST = 28, 2048, 512, 300, 256, 4000, 20
# Share of MSVD's training captions with 1, 2, 3 ... words (48,778 captions, mean 7.1), the last: 20 and more.
LENGTHS = (0.0001, 0.0008, 0.0124, 0.0548, 0.2211, 0.1956, 0.1704, 0.1171, 0.0791, 0.0489, 0.0323, 0.0217, 0.0139,
           0.0093, 0.0063, 0.0047, 0.0031, 0.0022, 0.0016, 0.0046)  # fmt: skip
CAPTIONS_A_VIDEO, SIDE_BY_SIDE, SEARCHED, BEAMS = 40, 4, 32, 5
BATCH = SEARCHED * SIDE_BY_SIDE


class Noise(CaptionData):
    """Videos of noise with captions as long as MSVD's: the planning is the package's own."""

    def __init__(self, videos: int, settings: Data) -> None:
        random = np.random.default_rng(0)
        self.settings = settings
        shares = np.array(LENGTHS) / sum(LENGTHS)
        self.captions = [
            [
                np.array([BOS, *random.integers(4, WORDS, length), EOS])
                for length in 1 + random.choice(len(LENGTHS), CAPTIONS_A_VIDEO, p=shares)
            ]
            for _ in range(videos)
        ]
        self.values = torch.from_numpy(random.standard_normal((videos, FRAMES, WIDTH)).astype(np.float32))

    def stream(self, rows: list[int]) -> Stream:
        videos = len(rows)
        return Stream(
            self.values[rows].unsqueeze(2),
            torch.ones(videos, FRAMES, 1, dtype=torch.bool),
            torch.zeros(videos, FRAMES),
            torch.zeros(videos, FRAMES, 1, 4),
        )

    def batches(self) -> list[Batch]:  # type: ignore[override]
        return [
            Batch(
                (),
                {"appearance": self.stream([group.video for group in slot.groups])},
                pad_captions([[self.captions[group.video][row] for row in group.captions] for group in slot.groups]),
            )
            for slot in self.plan((0,))
        ]

    def peer_batches(self, side_by_side: int) -> list[tuple[Tensor, Tensor]]:
        """Groups of captions of a video in random order: features (B, F, D), captions (R, T) padded to the limit."""
        groups = [
            (video, first) for video in range(len(self.captions)) for first in range(0, CAPTIONS_A_VIDEO, side_by_side)
        ]
        order = np.random.default_rng(0).permutation(len(groups)).reshape(-1, BATCH // side_by_side)
        batches = []
        for chosen in order.tolist():
            rows = [
                self.captions[video][first + caption]
                for video, first in (groups[row] for row in chosen)
                for caption in range(side_by_side)
            ]
            captions = torch.full((len(rows), LONGEST + 2), PAD)
            for row, caption in enumerate(rows):
                captions[row, : len(caption)] = torch.from_numpy(caption)
            batches.append((self.values[[groups[row][0] for row in chosen]], captions))
        return batches


def our_model() -> SoftAttention:
    torch.manual_seed(0)
    config = SoftAttentionConfig(embedding_size=EMBEDDING, hidden_size=HIDDEN, attention_size=ATTENTION)
    return SoftAttention(config, {"appearance": WIDTH}, WORDS)


@torch.no_grad()
def end_captions(model: SoftAttention, stream: Stream, lengths: Tensor | None) -> None:
    """Lets the captions of each video end after about as many words as `lengths` says (B,); never, if it is None.

    One unit of the LSTM becomes a clock: its cell goes up by the same amount at every word, from a start that the
    video decides. EOS becomes likely when the clock passes zero.
    """
    model.to_words.bias[EOS] = -1e9
    if lengths is None:
        return
    tick = 0.05
    gates = model.cell.gates
    gates.weight[::HIDDEN] = 0
    gates.bias[::HIDDEN] = torch.tensor([10.0, 10.0, tick, 10.0])  # input, forget, candidate, output
    found = model.encode({"appearance": stream})[1]["cell"][:, 0, 0].atanh()
    # the video's own start is a number without meaning: its rank among the videos becomes the rank of the lengths
    wanted = -tick * lengths.sort().values.float()
    slope = wanted.std() / found.std()
    row = model.first_state
    row.weight[HIDDEN] *= slope
    row.bias[HIDDEN] = slope * (row.bias[HIDDEN] - found.mean()) + wanted.mean()
    model.deep_output.weight[0] = 0
    model.deep_output.weight[0, 0] = 1 / tick
    model.deep_output.bias[0] = 0
    model.to_words.weight[EOS] = 0
    model.to_words.weight[EOS, 0] = 12
    model.to_words.bias[EOS] = 8


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class Learner:
    """A model, its optimiser and the batches that it learns, one after the other."""

    def __init__(self, model: nn.Module, loss: Callable[..., Tensor], batches: list, a_round: int) -> None:  # type: ignore[type-arg]
        self.model, self.loss, self.batches, self.a_round = model, loss, batches, a_round
        self.optimizer = torch.optim.Adam(model.parameters())
        self.next = self.captions = 0
        self.seconds: list[float] = []

    def round(self) -> None:
        for _ in range(self.a_round):
            batch = self.batches[self.next % len(self.batches)]
            self.next += 1
            self.seconds.append(cpu_seconds(partial(self.learn, batch)))
            captions = batch.captions[:, :, 0] if isinstance(batch, Batch) else batch[1][:, 0]
            self.captions += int((captions == BOS).sum())

    def learn(self, batch: object) -> None:
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()

    @property
    def rate(self) -> float:
        return self.captions / sum(self.seconds)


def our_loss(model: SoftAttention, bfloat16: bool, batch: Batch) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        loss = CrossEntropy(CrossEntropySettings())(model, batch, 0.0)
    return loss.total / loss.weight


def train(data: Noise, rounds: int, bfloat16: bool) -> dict[str, float]:
    """Captions a CPU second."""
    learners = {}
    for name, narrow in (("float32", False), ("bfloat16", True))[: 1 + bfloat16]:
        model = our_model()
        batches = data.batches()
        learners[f"Watchword, {name}"] = Learner(
            model, partial(our_loss, model, narrow), batches, -(-len(batches) // rounds)
        )
    for name, peer in PEERS.items():
        network = peer(our_model())
        peer_batches = data.peer_batches(network.captions_side_by_side)
        learners[name] = Learner(network, lambda batch, network=network: network(*batch), peer_batches, 1)
    for learner in learners.values():
        learner.learn(learner.batches[-1])  # warms up
    for _ in range(rounds):
        for learner in learners.values():
            learner.round()
    return {name: learner.rate for name, learner in learners.items()}


def search(data: Noise, rounds: int, bfloat16: bool, ending: bool) -> dict[str, float]:
    """Videos a CPU second."""
    stream = data.stream(list(range(SEARCHED)))
    lengths = torch.tensor([len(captions[0]) - 2 for captions in data.captions[:SEARCHED]])
    model = our_model().eval()
    end_captions(model, stream, lengths if ending else None)
    peers: dict[str, Network] = {name: peer(model).eval() for name, peer in PEERS.items()}

    def ours(narrow: bool) -> Tensor:
        with torch.inference_mode(), packed([model], torch.bfloat16 if narrow else torch.float32):
            return beam(model, {"appearance": stream}, BEAMS, LONGEST).captions[:, 0]

    works: dict[str, Callable[[], Tensor]] = {"Watchword, float32": partial(ours, False)}
    if bfloat16:
        works["Watchword, bfloat16"] = partial(ours, True)
    for name, network in peers.items():
        works[name] = partial(network.beam, data.values[:SEARCHED], BEAMS, LONGEST)  # type: ignore[operator]
    captions = {name: work() for name, work in works.items()}  # warms up
    said = (captions["Watchword, float32"] != PAD).sum(1).float().mean()
    same = {name: agreement(captions["Watchword, float32"], found) for name, found in captions.items()}
    print(f"  {said:.1f} words a caption; same captions as Watchword, float32: {same}")
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(cpu_seconds(work))
    return {name: SEARCHED / statistics.mean(seconds) for name, seconds in times.items()}


def agreement(some: Tensor, others: Tensor) -> str:
    """How many captions are the same up to their EOS."""
    pairs = zip(some.tolist(), others.tolist(), strict=True)
    cut = [[one[: one.index(EOS)] if EOS in one else one for one in pair] for pair in pairs]
    return f"{sum(one == other for one, other in cut)}/{len(cut)}"


def report(title: str, rates: dict[str, float]) -> None:
    print(title)
    for name, rate in rates.items():
        times = ", ".join(f"{rate / rates[peer]:.1f} times {peer}" for peer in PEERS) if name not in PEERS else ""
        print(f"  {name:24s} {rate:7.1f}   {times}", flush=True)


def saved_bytes(model: SoftAttention, batch: Batch) -> int:
    """What a training step keeps for the backward pass."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = our_loss(model, False, batch)
    del loss
    return sum(size for pointer, size in storages.items() if pointer not in parameters)


def report_memory(data: Noise) -> None:
    batches = data.batches()
    computed = sum(batch.captions[:, :, 1:].numel() for batch in batches)
    print(f"padding: {1 - sum(batch.num_words for batch in batches) / computed:.1%} of the words of a training step")
    for captions_a_video in (1, 4, 16):
        captions = [[np.array([BOS, *range(4, 11), EOS])] * captions_a_video] * 8
        batch = Batch((), {"appearance": data.stream(list(range(8)))}, pad_captions(captions))
        kept = saved_bytes(our_model(), batch) / 2**20
        print(f"kept for the backward pass, 8 videos x {captions_a_video:2} captions of 7 words: {kept:5.1f} MB")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--videos", type=int, default=96, help="that are trained on, a multiple of 16")
    arguments = parser.parse_args()
    rounds = arguments.rounds
    torch.set_num_threads(1)
    bfloat16 = cpu_speedup() > 1
    settings = Data(captions="-", store="-", videos_per_batch=SEARCHED, captions_per_video=SIDE_BY_SIDE)  # type: ignore[arg-type]
    data = Noise(SEARCHED, settings)
    for ending, text in ((True, "that end as MSVD's"), (False, f"of {LONGEST} words")):
        found = search(data, rounds, bfloat16, ending)
        report(f"beam {BEAMS}, captions {text}, videos a CPU second, {rounds} rounds", found)
    data = Noise(arguments.videos, settings)
    report(f"training, captions a CPU second, {rounds} rounds", train(data, rounds, bfloat16))
    report_memory(data)


if __name__ == "__main__":
    main()
