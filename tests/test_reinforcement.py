"""Training for what is measured: the estimator, the rewards, the loop."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.conftest import ALONE, noise_stream
from tests.test_training import assert_same, recipe, train_by_two, weights
from watchword.config import relative_to, write_toml
from watchword.decoding import rescore
from watchword.errors import WatchwordError
from watchword.losses import Material, build_loss
from watchword.losses.reinforcement import PolicyGradient
from watchword.metrics import ReferenceIndex
from watchword.models import MODELS, build_model
from watchword.tensors import BOS, EOS, PAD, UNK, Batch, Memory, State, Step, Streams
from watchword.text.vocabulary import Vocabulary
from watchword.training import loop
from watchword.training.evaluation import Search, evaluate

VOCABULARY = Vocabulary(["go", "on"])
REFERENCES = {"a": ["go on", "go"], "b": ["on on go", "on"]}
MATERIAL = Material(VOCABULARY, REFERENCES, num_words=11, max_words=2)
STREAMS = {"appearance": noise_stream([2, 2])}
CAPTIONS = torch.tensor([[[BOS, 4, 5, EOS], [BOS, 4, EOS, PAD]], [[BOS, 5, EOS, PAD], [BOS, 5, 5, EOS]]])


class Table(nn.Module):
    """A step model whose next word depends on the last one and on the video, by a table of learned logits."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Parameter(torch.randn(2, 6, 6, dtype=torch.float64))

    def encode(self, streams: Streams) -> tuple[Memory, State]:
        return {"video": torch.arange(2)}, {"nothing": torch.zeros(2, 1)}

    def step(self, words: Tensor, memory: Memory, state: State) -> Step:
        return Step(self.table[memory["video"].unsqueeze(1), words], state)

    def logits(self, outputs: Tensor) -> Tensor:
        never = torch.zeros(6, dtype=torch.float64)
        never[[PAD, BOS, UNK]] = float("-inf")
        return outputs + never

    def log_probabilities(self, outputs: Tensor) -> Tensor:
        return self.logits(outputs).log_softmax(-1)


def everything() -> Tensor:
    """Every caption that can be drawn within three words: ended, or cut."""
    ended = [
        (*words, EOS, *[PAD] * (2 - length))
        for length in range(3)
        for words in itertools.product((4, 5), repeat=length)
    ]
    return torch.tensor([*ended, *itertools.product((4, 5), repeat=3)])


def exact_gradient(loss: PolicyGradient, model: Table) -> Tensor:
    """Of the expected reward, by writing down every caption."""
    captions = everything().expand(2, -1, -1)
    probabilities = rescore(model, STREAMS, captions).exp()  # (B, all)
    torch.testing.assert_close(probabilities.sum(1), torch.ones(2, dtype=torch.float64))
    spoken = [[" ".join(VOCABULARY.decode(caption)) for caption in own] for own in captions.tolist()]
    rewards = torch.from_numpy(loss.index.reward(["a", "b"], spoken, loss.settings.rewards))
    return torch.autograd.grad(-(probabilities * rewards).sum(), model.table)[0]


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "self_critical"},
        {"name": "reinforce", "baseline": "others"},
        {"name": "reinforce", "baseline": "moving"},
        {"name": "reinforce", "rewards": {"ROUGE_L": 1.0, "Bleu_4": 0.5}},
    ],
)
def test_the_mean_of_the_estimator_is_the_exact_gradient(settings: dict[str, Any]) -> None:
    torch.manual_seed(1)
    model = Table()
    rewards = settings.get("rewards", {"ROUGE_L": 1.0})
    loss = build_loss(settings | {"rollouts": 4000, "rewards": rewards}, MATERIAL)
    assert isinstance(loss, PolicyGradient)
    exact = exact_gradient(loss, model)
    mean = torch.zeros_like(exact)
    for _ in range(4):
        total = loss(model, Batch(("a", "b"), STREAMS, CAPTIONS), 0.0).total
        mean += torch.autograd.grad(total, model.table)[0] / 4
    assert float((mean - exact).norm() / exact.norm()) < 0.06


def test_a_baseline_makes_the_estimator_less_noisy() -> None:
    def expand_state(settings: dict[str, Any]) -> float:
        torch.manual_seed(2)
        model = Table()
        loss = build_loss(settings | {"rewards": {"ROUGE_L": 1.0}}, MATERIAL)
        found = [
            torch.autograd.grad(loss(model, Batch(("a", "b"), STREAMS, CAPTIONS), 0.0).total, model.table)[0]
            for _ in range(60)
        ]
        return float(torch.stack(found).var(0).sum())

    with_others = expand_state({"name": "reinforce", "rollouts": 5})
    without = 5 * expand_state({"name": "reinforce", "rollouts": 1}) / 25  # one rollout has no others: no baseline
    assert with_others < without


def test_rewards_are_the_scores_of_the_same_captions() -> None:
    loss = build_loss({"name": "self_critical", "rewards": {"CIDEr": 1.0, "ROUGE_L": 2.0}, "eos": False}, MATERIAL)
    spoken = {"a": "go on", "b": "on go"}
    scores = ReferenceIndex(REFERENCES, context="line").score(spoken, ["CIDEr", "ROUGE_L"])
    rewards = loss.index.reward(["a", "b"], [["go on"], ["on go"]], {"CIDEr": 1.0, "ROUGE_L": 2.0})
    assert rewards[:, 0] == pytest.approx(scores.per_video["CIDEr"] + 2 * scores.per_video["ROUGE_L"], abs=1e-12)


def test_with_the_end_as_a_word_a_caption_that_stops_too_early_loses() -> None:
    """Without it "a man plays a" can beat "a man plays a game": the known trap of rewards without an end."""
    references = {"v": ["a man plays a guitar"], "w": ["a dog runs a race"], "x": ["people cook food"]}
    material = Material(Vocabulary(["a", "man", "plays"]), references, 20, 6)
    stopped, done = "a man plays a", "a man plays a guitar"
    gap = {}
    for eos in (False, True):
        loss = build_loss({"name": "self_critical", "eos": eos}, material)
        short, whole = loss.index.reward(["v"], [[stopped, done]], {"CIDEr": 1.0})[0]
        gap[eos] = short / whole
    assert gap[True] < gap[False]


def test_a_caption_that_was_cut_gets_no_credit_for_an_end() -> None:
    references = {"v": ["a man plays"], "w": ["a dog runs"], "x": ["people cook"]}
    index = ReferenceIndex(references, context="line", eos=True)
    ended, cut = index.reward(["v"], [["a man plays", "a man plays"]], {"CIDEr": 1.0}, [[True, False]])[0]
    assert ended == pytest.approx(10.0)
    assert cut < ended


def test_an_empty_share_of_a_batch_weighs_nothing() -> None:
    """One of several processes may have nothing to do: its stand-in video must not count twice."""
    nothing = torch.full((2, 1, 2), PAD)
    batch = Batch(("a", "b"), STREAMS, nothing)
    for name in ("self_critical", "cross_entropy"):
        settings = {"name": name, "label_smoothing": 0.1}
        loss = build_loss(settings, MATERIAL)(Table(), batch, 0.0)
        assert float(loss.total.detach()) == 0
        assert float(loss.weight) == 0


def test_every_reward_of_the_papers_can_be_asked_for() -> None:
    for rewards in ({"METEOR": 1.0, "Bleu_4": 1.0}, {"CIDEr": 1.0, "ROUGE_L": 1.0}):
        loss = build_loss({"name": "self_critical", "rewards": rewards}, MATERIAL)
        batch = Batch(("a", "b"), STREAMS, CAPTIONS)
        shown = loss(Table(), batch, 0.0).shown
        assert 0 < float(shown["reward"]) < 10


def test_cross_entropy_is_mixed_in_by_its_share() -> None:
    model = Table()
    batch = Batch(("a", "b"), STREAMS, CAPTIONS)
    taught = build_loss({"name": "cross_entropy"}, MATERIAL)(model, batch, 0.0).total
    alone = build_loss({"name": "self_critical", "cross_entropy": 1.0}, MATERIAL)(model, batch, 0.0).total
    assert float(alone.detach()) == pytest.approx(float(taught.detach()) / 2)  # two captions a video


@pytest.mark.parametrize("settings", [{"rewards": {"CIDER": 1.0}}, {"rewards": {}}, {"rolouts": 3}])
def test_a_reward_that_is_not_there_is_one_line(settings: dict[str, Any]) -> None:
    with pytest.raises(WatchwordError, match="loss self_critical"):
        build_loss({"name": "self_critical"} | settings, MATERIAL)


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_from_rewards(name: str) -> None:
    torch.manual_seed(0)
    settings = {"name": name, "hidden_size": 16, "embedding_size": 8, "dropout": 0.0, **ALONE.get(name, {})}
    model = build_model(settings, {"appearance": 6}, 6)
    loss = build_loss({"name": "self_critical", "rewards": {"ROUGE_L": 1.0}, "rollouts": 8}, MATERIAL)
    batch = Batch(("a", "b"), STREAMS, CAPTIONS)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

    def mean_reward() -> float:
        with torch.no_grad():
            from watchword.decoding import sample

            return float(loss.reward(batch, sample(model, STREAMS, 200, 3)).mean())

    before = mean_reward()
    for _ in range(40):
        optimizer.zero_grad()
        loss(model, batch, 0.0).total.backward()
        optimizer.step()
    assert mean_reward() > before + 0.1


def test_a_phase_of_rewards_follows_cross_entropy_and_resumes_bit_for_bit(shapes: Path, tmp_path: Path) -> None:
    phases = [
        {"epochs": 2, "learning_rate": 0.02, "sampling": {"rate": 0.2}},
        {
            "epochs": 2,
            "learning_rate": 0.001,
            "begin": "best",
            "loss": {
                "name": "reinforce",
                "baseline": "moving",
                "rollouts": 3,
                "cross_entropy": 0.2,
                "rewards": {"CIDEr": 1.0},
            },
        },
    ]
    whole = recipe(shapes, phases=phases, save_minutes=0)
    loop.train(whole, tmp_path / "whole")

    class CutError(Exception):
        pass

    def cut(progress: loop.TrainingProgress) -> None:
        if progress.phase == 1 and progress.epoch == 1 and progress.batch == 2:
            raise CutError

    with pytest.raises(CutError):
        loop.train(whole, tmp_path / "cut", cut)
    torch.manual_seed(99)  # whatever happened in between
    loop.resume(tmp_path / "cut")
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))
    assert "objective.mean" in weights(tmp_path / "cut")
    rows = [json.loads(line) for line in (tmp_path / "whole" / "log.jsonl").read_text().splitlines()]
    assert [row["phase"] for row in rows] == [0, 0, 1, 1]
    assert {"reward", "baseline"} <= rows[-1].keys()  # how a collapse would show
    both = evaluate([loop.Run(tmp_path / "whole"), loop.Run(tmp_path / "cut")], "test", Search(beam=2), ("CIDEr",))
    assert len(both.captions) == 8  # an ensemble after it


def test_two_processes_train_for_rewards_together(shapes: Path, tmp_path: Path) -> None:
    """Each draws for its own videos; the weights stay one, and what is rewarded is said more often."""
    phases = [
        {"epochs": 3, "learning_rate": 0.02},
        {"epochs": 1, "learning_rate": 0.005, "loss": {"name": "self_critical", "rewards": {"CIDEr": 1.0}}},
        {"epochs": 12, "learning_rate": 0.02, "loss": {"name": "reinforce", "rewards": {"CIDEr": 1.0}}},
    ]
    settings = recipe(shapes, phases=phases, seed=1, precision="float32")
    (tmp_path / "recipe.toml").write_text(write_toml(relative_to(settings, tmp_path)))
    train_by_two(tmp_path / "recipe.toml", tmp_path / "run")
    rows = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    rewards = [row["reward"] for row in rows[4:]]
    assert len(rewards) == 12
    assert sum(rewards[4:]) / 8 > 1.1 * sum(rewards[:4]) / 4
