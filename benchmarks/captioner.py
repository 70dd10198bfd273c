"""Training and beam search of `soft_attention` against a plain implementation of the same network.

    python benchmarks/captioner.py    # a minute on one core

The plain one does what public code does: it repeats the features of a video for each of its captions, pads every
caption to 20 words, projects to the vocabulary word by word, and searches one video at a time, its beams as a batch.
Both have the same sizes (28 x 2048 features, hidden 512, 4,000 words) and the same optimiser; lengths of captions are
MSVD's. One thread, float32, CPU seconds; the two take turns, so a busy machine slows both.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn

from watchword.config import Data
from watchword.data.dataset import CaptionData, pad_captions
from watchword.decoding import beam
from watchword.losses.objective import CrossEntropy, CrossEntropySettings
from watchword.models.soft_attention import SoftAttention, SoftAttentionConfig
from watchword.tensors import BOS, EOS, PAD, Batch, Stream

FRAMES, WIDTH, HIDDEN, EMBEDDING, ATTENTION, WORDS, LONGEST = 28, 2048, 512, 300, 256, 4000, 20
# Share of MSVD's training captions with 1, 2, 3 ... words (48,778 captions, mean 7.1), the last: 20 and more.
LENGTHS = (0.0001, 0.0008, 0.0124, 0.0548, 0.2211, 0.1956, 0.1704, 0.1171, 0.0791, 0.0489, 0.0323, 0.0217, 0.0139,
           0.0093, 0.0063, 0.0047, 0.0031, 0.0022, 0.0016, 0.0046)  # fmt: skip
CAPTIONS_A_VIDEO = 40


# --- plain -----------------------------------------------------------------------------------------------------------


class Plain(nn.Module):
    """One row a caption, one word a time."""

    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(WIDTH, HIDDEN)
        self.key = nn.Linear(HIDDEN, ATTENTION)
        self.query = nn.Linear(HIDDEN, ATTENTION, bias=False)
        self.energy = nn.Linear(ATTENTION, 1, bias=False)
        self.first = nn.Linear(HIDDEN, 2 * HIDDEN)
        self.embedding = nn.Embedding(WORDS, EMBEDDING)
        self.cell = nn.LSTMCell(EMBEDDING + HIDDEN, HIDDEN)
        self.deep = nn.Linear(2 * HIDDEN + EMBEDDING, HIDDEN)
        self.words = nn.Linear(HIDDEN, WORDS)
        self.dropout = nn.Dropout(0.5)

    def start(self, features: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor, Tensor]:
        values = self.dropout(self.project(features)).relu()
        hidden, cell = self.first(values.mean(1)).tanh().chunk(2, -1)
        return (values, self.key(values)), hidden, cell

    def step(
        self, word: Tensor, seen: tuple[Tensor, Tensor], hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        values, keys = seen
        energies = self.energy(torch.tanh(keys + self.query(hidden).unsqueeze(1))).squeeze(-1)
        context = (energies.softmax(-1).unsqueeze(-1) * values).sum(1)
        said = self.dropout(self.embedding(word))
        hidden, cell = self.cell(torch.cat([said, context], -1), (hidden, cell))
        output = self.dropout(self.deep(torch.cat([hidden, context, said], -1)).tanh())
        return self.words(output), hidden, cell

    def forward(self, features: Tensor, captions: Tensor) -> Tensor:
        seen, hidden, cell = self.start(features)
        loss = torch.zeros(())
        for time_ in range(captions.shape[1] - 1):
            logits, hidden, cell = self.step(captions[:, time_], seen, hidden, cell)
            target = captions[:, time_ + 1]
            loss = loss + nn.functional.cross_entropy(logits, target, ignore_index=PAD, reduction="sum")
        return loss / (captions[:, 1:] != PAD).sum()

    @torch.no_grad()
    def beam(self, features: Tensor, width: int) -> list[int]:
        """One video, features (F, D), repeated for each beam."""
        seen, hidden, cell = self.start(features.expand(width, -1, -1))
        captions, scores = [[BOS]] * width, torch.tensor([0.0] + [float("-inf")] * (width - 1))
        finished: list[tuple[float, list[int]]] = []
        for _ in range(LONGEST):
            logits, hidden, cell = self.step(torch.tensor([words[-1] for words in captions]), seen, hidden, cell)
            best, locations = (scores.unsqueeze(1) + logits.log_softmax(-1)).flatten().topk(width)
            parents, words = locations // WORDS, locations % WORDS
            chosen = zip(parents.tolist(), words.tolist(), strict=True)
            captions = [[*captions[parent], word] for parent, word in chosen]
            hidden, cell, scores = hidden[parents], cell[parents], best
            for row, said in enumerate(captions):
                if said[-1] == EOS:
                    finished.append((float(scores[row]), said))
                    scores[row] = float("-inf")
            if len(finished) >= width:
                break
        return max(finished or [(float(scores[0]), captions[0])])[1]


# --- what both learn and describe ------------------------------------------------------------------------------------


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


def ours() -> SoftAttention:
    config = SoftAttentionConfig(embedding_size=EMBEDDING, hidden_size=HIDDEN, attention_size=ATTENTION)
    return SoftAttention(config, {"appearance": WIDTH}, WORDS)


def our_batches(data: Noise) -> list[Batch]:
    return [
        Batch(
            (),
            {"appearance": data.stream([group.video for group in slot.groups])},
            pad_captions([[data.captions[group.video][row] for row in group.captions] for group in slot.groups]),
        )
        for slot in data.plan((0,))
    ]


def plain_batches(data: Noise, size: int) -> list[tuple[Tensor, Tensor]]:
    """Captions in random order, features repeated, 20 words."""
    pairs = [(video, caption) for video, captions in enumerate(data.captions) for caption in captions]
    order = np.random.default_rng(0).permutation(len(pairs))
    batches = []
    for start in range(0, len(order) - size + 1, size):
        chosen = [pairs[row] for row in order[start : start + size]]
        captions = torch.full((size, LONGEST + 2), PAD)
        for row, (_, caption) in enumerate(chosen):
            captions[row, : len(caption)] = torch.from_numpy(caption)
        batches.append((data.values[[video for video, _ in chosen]], captions))
    return batches


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def train_step(model: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], Tensor]) -> None:
    optimizer.zero_grad()
    loss().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()


def saved_bytes(model: SoftAttention, batch: Batch) -> int:
    """What a training step keeps for the way back."""
    storages: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = CrossEntropy(CrossEntropySettings())(model, batch, 0.0)
    del loss
    return sum(size for pointer, size in storages.items() if pointer not in parameters)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--rounds", type=int, default=6)
    rounds = arguments.parse_args().rounds
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = Noise(96, Data(captions="-", store="-", videos_per_batch=32, captions_per_video=4))  # type: ignore[arg-type]
    model, plain = ours(), Plain()
    model_optimizer, plain_optimizer = torch.optim.Adam(model.parameters()), torch.optim.Adam(plain.parameters())
    objective = CrossEntropy(CrossEntropySettings())
    ours_list, plain_list = our_batches(data), plain_batches(data, 64)

    def learn(batch: Batch) -> Tensor:
        loss = objective(model, batch, 0.0)
        return loss.total / loss.weight

    times: dict[str, list[float]] = {"ours": [], "plain": []}
    counts = {"ours": 0, "plain": 0}
    for turn in range(rounds + 1):  # the first warms up
        for batch in ours_list[2 * turn : 2 * turn + 2]:
            seconds = cpu_seconds(partial(train_step, model, model_optimizer, partial(learn, batch)))
            if turn:
                times["ours"].append(seconds)
                counts["ours"] += int((batch.captions[:, :, 0] == BOS).sum())
        seconds = cpu_seconds(partial(train_step, plain, plain_optimizer, partial(plain, *plain_list[turn])))
        if turn:
            times["plain"].append(seconds)
            counts["plain"] += len(plain_list[turn][0])
    rates = {name: counts[name] / sum(times[name]) for name in counts}
    print(
        f"training, captions per CPU second: ours {rates['ours']:.0f}, plain {rates['plain']:.0f}, "
        f"{rates['ours'] / rates['plain']:.1f} times"
    )

    computed = sum(batch.captions[:, :, 1:].numel() for batch in ours_list)
    real = sum(batch.num_words for batch in ours_list)
    print(f"padding: {1 - real / computed:.1%} of the words that are stepped over")
    for captions_a_video in (1, 4, 16):
        captions = [[np.array([BOS, *range(4, 11), EOS])] * captions_a_video] * 8
        kept = saved_bytes(model, Batch((), {"appearance": data.stream(list(range(8)))}, pad_captions(captions)))
        print(
            f"kept for the way back, 8 videos x {captions_a_video:2} captions of 7 words: {kept / 2**20:5.1f} MB, "
            f"{kept / 8 / captions_a_video / 2**20:.2f} MB a caption"
        )

    for decoder, last in ((model, model.to_words), (plain, plain.words)):
        decoder.eval()
        with torch.no_grad():
            last.bias[EOS] = -1e9  # noise ends nowhere in particular: let both say all 20 words
    times = {"ours": [], "plain": []}
    stream = {"appearance": data.stream(list(range(32)))}
    for turn in range(rounds + 1):
        with torch.no_grad():
            seconds = cpu_seconds(partial(beam, model, stream, 5, LONGEST))
        slow = sum(cpu_seconds(partial(plain.beam, data.values[row], 5)) for row in range(4 * turn, 4 * turn + 4))
        if turn:
            times["ours"].append(seconds / 32)
            times["plain"].append(slow / 4)
    rates = {name: 1 / float(np.mean(seconds)) for name, seconds in times.items()}
    print(
        f"beam 5 over 20 words, videos per CPU second: ours {rates['ours']:.0f}, plain {rates['plain']:.0f}, "
        f"{rates['ours'] / rates['plain']:.1f} times"
    )


if __name__ == "__main__":
    main()
