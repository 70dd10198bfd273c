"""Watch it twice: the encoder around a key frame, the reward, the schedule, the pictures."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

from tests.conftest import noise_stream
from watchword.captioning.captioner import Captioner
from watchword.cli.main import app
from watchword.config import Recipe, find_recipe, read_recipe
from watchword.data.annotations import read_annotations
from watchword.data.benchmarks import read_clips
from watchword.data.dataset import Features
from watchword.decoding import teacher_force
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.layers.attention import ProductAttention, time_step_means
from watchword.layers.recurrent import BidirectionalGRU, KeyFrameGRU
from watchword.losses.objective import CrossEntropy, CrossEntropySettings, Material
from watchword.losses.refocus import FirstPass, Refocusing, RefocusingSettings, key_frame_loss
from watchword.models import build_model
from watchword.models.refocus import Refocus, locations_of
from watchword.research.papers.refocus import shares
from watchword.research.papers.refocus_figure import Passes, Strip, draw_strips, shown_frames
from watchword.research.papers.refocus_key_frames import KeyFrameLosses, gains, losses_by_key_frame
from watchword.research.shapes import ShapesConfig, read_events, read_truth, write_shapes
from watchword.tensors import BOS, EOS, PAD, Batch, Stream
from watchword.text.vocabulary import Vocabulary
from watchword.training import Run, loop
from watchword.types import Hypothesis, StreamArrays

LENGTHS = [6, 4, 1]
SMALL = {"name": "refocus", "hidden_size": 16, "embedding_size": 16, "attention_size": 8, "dropout": 0.0}
CAPTIONS = torch.tensor(
    [
        [[BOS, 5, 6, EOS, PAD], [BOS, 7, 8, 9, EOS]],
        [[BOS, 4, EOS, PAD, PAD], [BOS, 4, 4, 8, EOS]],
        [[BOS, 9, 5, 7, EOS], [PAD, PAD, PAD, PAD, PAD]],
    ]
)
ROWS = torch.tensor([[0, 1], [1, 0], [2, -1]])
REFERENCES = {"a": ["one", "two"], "b": ["three", "four"], "c": ["five", "six", "seven"]}


def vre(**changes: Any) -> Refocus:
    torch.manual_seed(0)
    model = build_model(SMALL | changes, {"appearance": 6}, 12)
    assert isinstance(model, Refocus)
    return model


def streams() -> dict[str, Stream]:
    return {"appearance": noise_stream(LENGTHS, locations=3, width=6, seed=1)}


def batch() -> Batch:
    return Batch(("a", "b", "c"), streams(), CAPTIONS, ROWS)


def refocusing(**settings: Any) -> Refocusing:
    material = Material(Vocabulary(("x",)), REFERENCES, num_words=20, max_words=10)
    return Refocusing(RefocusingSettings(**settings), material)


# --- the encoder -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [[3, 2, 0], [0, 0, 0], [5, 3, 0]])
def test_videos_are_read_outwards_from_each_ones_own_key_frame(keys: list[int]) -> None:
    torch.manual_seed(1)
    gru = KeyFrameGRU(4, 5)
    frames = torch.randn(3, 8, 4)  # two frames of padding
    found = gru(frames, torch.tensor(LENGTHS), torch.tensor(keys))
    for video, (key, length) in enumerate(zip(keys, LENGTHS, strict=True)):  # Eq. 5 to 7, one video at a time
        back = gru.to_first(frames[video, : key + 1].flip(0))[1]
        on = gru.to_last(frames[video, key:length])[1]
        torch.testing.assert_close(found[video : video + 1], gru.combine(torch.cat([back, on], -1)).tanh())


def test_a_plain_bidirectional_gru_reads_from_both_ends() -> None:
    torch.manual_seed(1)
    gru = BidirectionalGRU(4, 5)
    frames = torch.randn(3, 8, 4)
    found = gru(frames, torch.tensor(LENGTHS), torch.tensor([3, 2, 0]))
    for video, length in enumerate(LENGTHS):
        back, on = gru.to_first(frames[video, :length].flip(0))[1], gru.to_last(frames[video, :length])[1]
        torch.testing.assert_close(found[video : video + 1], gru.combine(torch.cat([back, on], -1)).tanh())
    model = vre(variant="bigru")
    assert isinstance(model.encoder.read, BidirectionalGRU)
    assert not model.spatial  # V^f alone, as kbigru


def test_the_second_pass_may_read_from_the_middle_or_from_a_random_frame() -> None:
    assert vre(key="middle").encode_passes(streams())[3].tolist() == [3, 2, 0]
    model = vre(key="random", feature_dropout=0.5)
    seen = {"appearance": noise_stream([6] * 60, locations=3, width=6, seed=1)}
    keys = model.encode_passes(seen)[3]
    assert keys.bincount(minlength=6).min() > 2
    part = {"appearance": Stream(*(tensor[7:9] for tensor in vars(seen["appearance"]).values()))}
    assert torch.equal(model.eval().encode_passes(part)[3], keys[7:9])


def test_the_second_pass_reads_from_a_given_key_frame() -> None:
    model = vre().eval()
    _, states, relevance, chosen = model.encode_passes(streams())
    for key in (chosen, torch.tensor([5, 3, 0])):
        _, given, same, found = model.encode_passes(streams(), key)
        assert torch.equal(found, key)
        assert torch.equal(same, relevance)
        torch.testing.assert_close(given["video"][:, 0], states["video"][:, 0])
        changed = ~torch.isclose(given["video"][:, 1], states["video"][:, 1], atol=1e-6).all(1)
        assert torch.equal(changed, key != chosen)


def test_the_first_key_frame_is_the_tenth_of_twenty() -> None:
    seen = {"appearance": noise_stream([20, 7, 1], width=6)}
    assert vre().middle_frames(seen).tolist() == [10, 3, 0]


def test_attention_multiplies_query_and_keys() -> None:
    attention = ProductAttention(2, 2, 2)
    with torch.no_grad():
        attention.from_query.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
        attention.from_value.weight.copy_(torch.eye(2))
        attention.energy.weight.copy_(torch.tensor([[1.0, -1.0]]))
    query, values = torch.tensor([[[0.5, 1.0]]]), torch.tensor([[[1.0, 2.0], [3.0, 0.0]]])
    expected = torch.tensor([np.tanh(0.5) - np.tanh(4.0), np.tanh(1.5)])  # Eq. 14
    found = attention.energies(query, attention.keys(values))
    torch.testing.assert_close(found[0, 0], expected.float())


def test_frames_are_means_of_locations_and_locations_are_means_of_frames() -> None:
    stream = streams()["appearance"]
    frames, real = time_step_means(stream)
    locations, there = locations_of(stream)
    torch.testing.assert_close(frames[1, :4], stream.values[1, :4].mean(1))  # Eq. 2
    torch.testing.assert_close(locations[1], stream.values[1, :4].mean(0))  # Eq. 3: padding does not count
    assert real.sum(1).tolist() == LENGTHS
    assert bool(there.all())


def test_the_key_frame_is_the_most_relevant_real_frame_and_is_read_from() -> None:
    model = vre().eval()
    _, states, relevance, key = model.encode_passes(streams())
    torch.testing.assert_close(relevance.exp().sum(1), torch.ones(3))
    assert relevance.exp()[1, 4:].max() == 0
    assert torch.equal(key, relevance.argmax(1))
    frames, _ = time_step_means(streams()["appearance"])
    lengths = torch.tensor(LENGTHS)
    first = model.encoder.read(frames, lengths, lengths // 2)
    again = model.encoder.read(frames, lengths, key)
    hear = model.encoder.with_sound
    torch.testing.assert_close(states["video"][:, 0], hear(first).tanh())  # o1
    merged = model.encoder.merge(torch.cat([first, again], -1)).tanh()
    torch.testing.assert_close(states["video"][:, 1], hear(merged).tanh())  # o2
    assert torch.equal(states["cell"], states["video"])
    assert states["hidden"].abs().max() == 0


def test_the_first_input_is_what_was_seen_and_no_word() -> None:
    model = vre().eval()
    before = teacher_force(model, streams(), CAPTIONS[:, :, 1:]).outputs
    with torch.no_grad():
        model.embedding.weight[BOS] += 9
    assert torch.equal(before, teacher_force(model, streams(), CAPTIONS[:, :, 1:]).outputs)


def test_what_is_normalised_is_not_driven_to_where_nothing_is_learned() -> None:
    """The way in which o dies in training: all videos push its maps the same way, until every tanh is 1 or -1."""
    shares = []
    for normalise in (False, True):
        model = vre(normalise=normalise).eval()
        with torch.no_grad():
            for name, parameter in model.encoder.named_parameters():
                if "combine" in name or "with_sound" in name or "merge" in name:
                    parameter.mul_(1 if name.endswith("1.weight") else 1000)  # not the scale of the norm itself
            video = model.encode_passes(streams())[1]["video"]
        shares.append(float((video.abs() > 0.99).float().mean()))
    assert shares[0] > 0.95
    assert shares[1] < 0.3


@pytest.mark.parametrize(
    ("settings", "widths", "message"),
    [
        ({}, {"a": 2, "b": 2, "c": 2}, "drop b from data.streams"),
        ({"temporal": "x"}, {"a": 2}, "model.temporal is 'x'"),
        ({}, {"audio": 2}, "a visual stream"),
    ],
)
def test_streams_without_a_part_are_one_line(settings: dict[str, str], widths: dict[str, int], message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        build_model(SMALL | settings, widths, 12)


def test_sound_is_heard_where_there_is_some() -> None:
    heard = build_model(SMALL, {"appearance": 6, "audio": 4}, 12).eval()
    sound = noise_stream([5, 2, 1], locations=1, width=4, seed=3)
    before = teacher_force(heard, streams() | {"audio": sound}, CAPTIONS[:, :, 1:]).outputs
    louder = Stream(sound.values * 2, sound.mask, sound.times, sound.boxes)
    after = teacher_force(heard, streams() | {"audio": louder}, CAPTIONS[:, :, 1:]).outputs
    assert (before - after).abs().amax((1, 2, 3)).min() > 1e-4


# --- the losses ------------------------------------------------------------------------------------------------------


def test_two_looks_side_by_side_lose_what_each_loses_alone() -> None:
    model, loss = vre().eval(), CrossEntropy(CrossEntropySettings())
    losses, words, _, _ = refocusing().of_captions(model, batch(), sampling_rate=0.0)
    second, _ = loss.of_videos(model, batch(), 0.0)
    FirstPass(CrossEntropySettings()).begin(model)
    first, count = loss.of_videos(model, batch(), 0.0)
    torch.testing.assert_close(losses.sum(2), torch.stack([first, second], 1))
    assert torch.equal(words.sum(1), count)


def test_the_reward_of_a_caption_is_remembered_until_it_comes_again() -> None:
    model, loss = vre().eval(), refocusing()
    losses, *_ = loss.of_captions(model, batch(), 0.0)
    shown = loss(model, batch(), 0.0).shown
    reward = (losses[:, 0] - losses[:, 1]).detach()  # Eq. 20
    # offsets 0, 2, 4 of the videos and ROWS: b's captions are its captions 1 and 0, c has only its caption 2
    kept = loss.rewards.clone()
    torch.testing.assert_close(kept[:4], torch.tensor([reward[0, 0], reward[0, 1], reward[1, 1], reward[1, 0]]))
    torch.testing.assert_close(kept[6], reward[2, 0])
    assert kept[4:6].isnan().all()
    assert float(shown["better"]) == 0  # the first time there is nothing to be better than
    loss.rewards[1] -= 0.5
    loss.rewards[3] += 0.25
    _, better = loss.reward(batch(), losses.detach())
    torch.testing.assert_close(better, torch.tensor([[0, 0.5], [-0.25, 0], [0, 0]]), atol=1e-6, rtol=0)
    torch.testing.assert_close(loss.rewards, kept, equal_nan=True)
    loss.rewards[1] -= 0.5
    loss.rewards[3] += 0.25
    assert float(loss(model, batch(), 0.0).shown["better"]) == pytest.approx(1 / 5)  # a share of the captions


def test_a_better_key_frame_becomes_likelier_and_a_worse_one_less_likely() -> None:
    energies = torch.tensor([[1.0, 0.0, 2.0], [1.0, 0.0, 2.0]], requires_grad=True)
    alpha = energies.softmax(1)[0]
    better = torch.tensor([[0.5, 0.0], [-0.5, 0.0]])
    losses = key_frame_loss(better, energies.log_softmax(1), torch.tensor([2, 2]))
    torch.testing.assert_close(losses[0], torch.stack([-0.5 * alpha[2].log(), torch.tensor(0.0)]))
    torch.testing.assert_close(losses[1], torch.stack([-0.5 * (1 - alpha[2]).log(), torch.tensor(0.0)]))
    losses.sum().backward()
    assert energies.grad is not None
    assert energies.grad[0, 2] < 0 < energies.grad[1, 2]  # downhill: up for the better one, down for the worse


def test_eq_21_as_printed_makes_a_worse_key_frame_likelier() -> None:
    energies = torch.tensor([[1.0, 0.0, 2.0]], requires_grad=True)
    key_frame_loss(torch.tensor([[-0.5]]), energies.log_softmax(1), torch.tensor([2]), "as_printed").sum().backward()
    assert energies.grad is not None
    assert energies.grad[0, 2] < 0


@pytest.mark.parametrize(
    ("worse", "up", "down"),
    [("eq_19", 1, -1), ("lowers", 1, -0.25)],  # in units of 1 - alpha; at alpha = 0.2 blame weighs a quarter of praise
)
def test_under_noise_eq_19_does_not_drift_and_eq_21_raises_the_chosen_frame(worse: Any, up: float, down: float) -> None:
    pulls = []
    for gain in (0.5, -0.5):
        energies = torch.zeros(1, 5, requires_grad=True)
        key_frame_loss(torch.tensor([[gain]]), energies.log_softmax(1), torch.tensor([2]), worse).sum().backward()
        assert energies.grad is not None
        pulls.append(-float(energies.grad[0, 2]) / (0.5 * 0.8))
    assert pulls == pytest.approx([up, down])


@pytest.mark.parametrize("noise", ["shared", "independent"])
def test_looks_that_read_the_same_differ_by_their_noise_alone(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = vre(dropout=0.5)
    memory, states, relevance, key = model.encode_passes(streams())
    same = {name: tensor[:, :1].expand(-1, 2, -1) for name, tensor in states.items()}
    monkeypatch.setattr(model, "encode_passes", lambda streams: (memory, same, relevance, key))
    losses, *_ = refocusing(noise=noise).of_captions(model, batch(), sampling_rate=0.5)
    assert torch.equal(losses[:, 0], losses[:, 1]) == (noise == "shared")
    outputs = teacher_force(model, streams(), CAPTIONS[:, :, 1:]).outputs
    assert not torch.equal(outputs[:, 0] == 0, outputs[:, 1] == 0)  # elsewhere every caption has its own masks


def test_controls_keep_the_size_of_the_rewards_and_not_whose_they_are() -> None:
    gain = torch.zeros(4, 8)
    gain[:3] = torch.arange(24.0).view(3, 8) + 1
    shuffled = refocusing(reward="shuffled")._controlled(gain)
    assert shuffled[3].abs().max() == 0
    assert not torch.equal(shuffled, gain)
    assert torch.equal(shuffled[:3].flatten().sort().values, gain[:3].flatten())
    noise = refocusing(reward="random")._controlled(gain)
    assert noise.min() < 0
    assert float(noise.square().sum() / gain.square().sum()) == pytest.approx(1, abs=0.7)


def test_the_refocusing_module_may_have_a_step_size_of_its_own() -> None:
    model = vre()
    others, own = refocusing(step_size=7).parameter_groups(model)
    assert (others["scale"], own["scale"]) == (1, 7)
    assert {id(one) for one in own["params"]} == {id(one) for one in model.encoder.refocusing.parameters()}
    assert len(others["params"]) + len(own["params"]) == len(list(model.parameters()))


def test_a_frame_that_is_all_but_certain_can_still_be_given_up() -> None:
    energies = torch.tensor([[0.0, 40.0]], requires_grad=True)  # alpha is 1 in float32: Eq. 19 has no gradient left
    key_frame_loss(torch.tensor([[-1.0]]), energies.log_softmax(1), torch.tensor([1])).sum().backward()
    assert energies.grad is not None
    assert energies.grad[0, 1] == pytest.approx(1.0)


def test_a_video_of_one_frame_has_no_choice_and_no_gradient() -> None:
    energies = torch.tensor([[3.0, 1.0]], requires_grad=True)
    relevance = energies.masked_fill(torch.tensor([[False, True]]), float("-inf")).log_softmax(1)
    loss = key_frame_loss(torch.tensor([[-1.0, 1.0]]), relevance, torch.tensor([0])).sum()
    loss.backward()
    assert float(loss.detach()) == 0
    assert energies.grad is not None
    assert energies.grad.abs().max() == 0


@pytest.mark.parametrize(("beta", "moves"), [(0.03, True), (0.0, False)])
def test_only_the_reward_teaches_where_to_look(beta: float, moves: bool) -> None:
    model, loss = vre(), refocusing(beta=beta)
    loss(model, batch(), 0.0)
    loss.rewards += 1.0  # all captions have done better before
    total = loss(model, batch(), 0.0).total
    total.backward()
    assert torch.isfinite(total)
    for name, parameter in model.encoder.refocusing.named_parameters():
        assert parameter.grad is not None
        assert bool(parameter.grad.abs().max() > 0) == moves, name
    assert all(parameter.grad is None for parameter in model.chooser.parameters())


def test_a_loss_for_two_looks_refuses_a_model_that_has_one() -> None:
    with pytest.raises(WatchwordError, match=r"model\.variant=vre"):
        refocusing().begin(vre(variant="kbigru"))
    with pytest.raises(WatchwordError, match=r"model\.name=refocus"):
        refocusing().begin(build_model({"name": "mean_pool"}, {"appearance": 6}, 12))


def test_fixed_key_frames_stay_whatever_is_learned_afterwards() -> None:
    model = vre(feature_dropout=0.5).eval()
    chosen = model.encode_passes(streams())[3]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.fix_key_frames(restart=True)
    assert not torch.equal(model.cell.gates.weight, before["cell.gates.weight"])
    for parameter in model.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter)
    model.train()
    for _ in range(5):  # dropout does not reach them
        assert torch.equal(model.encode_passes(streams())[3], chosen)
    model.fix_key_frames(restart=True)  # again: still those of the first time
    assert torch.equal(model.encode_passes(streams())[3], chosen)
    gentle = vre()
    gentle.fix_key_frames(restart=False)
    assert torch.equal(gentle.cell.gates.weight, before["cell.gates.weight"])


def test_a_key_frame_that_is_drawn_is_drawn_by_its_relevance_and_only_while_training() -> None:
    model = vre(training_key="drawn")
    torch.nn.init.normal_(model.encoder.refocusing.energy.weight, std=4)
    seen = {"appearance": noise_stream([4], locations=1, width=6, seed=4)}
    torch.manual_seed(5)
    with torch.no_grad():
        relevance = model.encode_passes(seen)[2][0].exp()
        keys = torch.cat([model.encode_passes(seen)[3] for _ in range(300)])
        torch.testing.assert_close(keys.bincount(minlength=4) / 300, relevance, atol=0.08, rtol=0)
        assert keys.unique().numel() > 1
        model.eval()
        assert {int(model.encode_passes(seen)[3]) for _ in range(20)} == {int(relevance.argmax())}


# --- the schedule ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty videos whose event must be found, with their videos."""
    folder = tmp_path_factory.mktemp("search")
    write_shapes(folder, ShapesConfig(count=30, seed=2, longest_event=0.4, outside="hidden"), ("appearance_grid",))
    return folder


def schedule(data: Path, **changes: Any) -> Recipe:
    """The phases of the paper, small."""
    common = {"learning_rate": 0.01, "sampling": {"rate": 0.25}}
    values: dict[str, Any] = {
        "seed": 3,
        "save_minutes": 0,
        "data": {
            "captions": data / "captions.jsonl",
            "store": data / "store",
            "streams": ("appearance_grid",),
            "videos_per_batch": 8,
            "captions_per_video": 6,
            "min_count": 1,
            "max_words": 15,
            "max_time_steps": 8,
        },
        "model": SMALL | {"dropout": 0.2},
        "selection": {"by": "val_loss"},
        "phases": [
            {"epochs": 1, "loss": {"name": "first_pass"}} | common,
            {"epochs": 2, "loss": {"name": "refocusing"}, "forget_best": True} | common,
            # it learns nothing and is worse than the joint phase, whose best weights must not be those of the last one
            {"epochs": 1, "loss": {"name": "fixed_focus"}, "begin": "best"} | common | {"learning_rate": 1e-9},
            {
                "epochs": 1,
                "begin": "best",
                "learning_rate": 1e-9,
                "loss": {"name": "reinforce", "rewards": {"CIDEr": 1.0, "ROUGE_L": 1.0}, "rollouts": 2},
            },
        ],
    }
    return Recipe.read(values | changes, "test")


class CutError(Exception):
    pass


@pytest.fixture(scope="module")
def whole(search: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return loop.train(schedule(search), tmp_path_factory.mktemp("schedule") / "whole")


def test_the_schedule_of_the_paper_runs_through(whole: Run) -> None:
    rows = [json.loads(line) for line in (whole.folder / "log.jsonl").read_text().splitlines()]
    assert [row["phase"] for row in rows] == [0, 1, 1, 2, 3]
    assert rows[1]["better"] == 0 < rows[2]["better"] < 1
    assert rows[3]["val_loss"] > rows[2]["val_loss"]
    last = load_file(whole.folder / "last.safetensors")
    found = whole.model()
    assert isinstance(found, Refocus)
    assert (int(found.passes), bool(found.fixed)) == (2, True)
    for name, tensor in found.chooser.state_dict().items():  # of the joint phase, which no later phase changes
        assert torch.equal(tensor, last[f"model.chooser.{name}"])
    name = "read.to_first.weight_hh_l0"
    assert not torch.equal(found.encoder.state_dict()[name], found.chooser.state_dict()[name])  # begun anew


@pytest.mark.parametrize(("phase", "epoch"), [(1, 1), (2, 0)])  # the reward's second epoch; fixed key frames
def test_the_whole_schedule_resumes_bit_for_bit(
    search: Path, whole: Run, tmp_path: Path, phase: int, epoch: int
) -> None:
    def cut(progress: loop.TrainingProgress) -> None:
        if (progress.phase, progress.epoch, progress.batch) == (phase, epoch, 2) and not progress.scores:
            raise CutError

    with pytest.raises(CutError):
        loop.train(schedule(search), tmp_path / "cut", cut)
    loop.resume(tmp_path / "cut")
    one, again = (load_file(folder / "last.safetensors") for folder in (whole.folder, tmp_path / "cut"))
    assert one.keys() == again.keys()
    assert all(torch.equal(tensor.nan_to_num(), again[name].nan_to_num()) for name, tensor in one.items())
    assert (whole.folder / "log.jsonl").read_text() == (tmp_path / "cut" / "log.jsonl").read_text()


def test_rewards_are_kept_with_the_weights(search: Path, tmp_path: Path) -> None:
    phases = schedule(search).model_dump()["phases"][1:2]
    phases[0]["loss"]["step_size"] = 1e-12
    run = loop.train(schedule(search, phases=phases), tmp_path / "run")
    found, last = run.model(), load_file(run.folder / "last.safetensors")
    torch.manual_seed(3)
    fresh = build_model(schedule(search).model, found.widths, found.num_words).state_dict()
    for name, moved in (("encoder.refocusing.energy.weight", False), ("encoder.merge.weight", True)):
        assert torch.equal(last[f"model.{name}"], fresh[name]) != moved, name
    rewards = last["objective.rewards"]
    assert len(rewards) == 21 * 6
    assert rewards.isfinite().all()
    assert len(rewards.unique()) > 100


def test_a_phase_tells_the_model_how_often_to_look_and_may_begin_anew(search: Path, tmp_path: Path) -> None:
    text = (search / "captions.jsonl").read_text().replace('"', " ")
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("\n".join(f"{word} {' '.join(['5'] * 16)}" for word in sorted(set(text.split()))))
    first, _, fixed, _ = schedule(search).model_dump()["phases"]
    skipped = fixed | {"epochs": 0}
    once = loop.train(schedule(search, phases=[skipped, first], word_vectors=vectors), tmp_path / "once")
    assert (int(once.model().passes), bool(once.model().state_dict()["fixed"])) == (1, False)
    best = once.model().state_dict()
    twice = loop.train(schedule(search, phases=[skipped, first, fixed], word_vectors=vectors), tmp_path / "twice")
    last = load_file(twice.folder / "last.safetensors")
    assert (int(last["model.passes"]), bool(last["model.fixed"])) == (2, True)
    name = "read.to_first.weight_hh_l0"
    assert torch.equal(last[f"model.chooser.{name}"], best[f"encoder.{name}"])  # the best of the phase before
    assert not torch.equal(last[f"model.encoder.{name}"], best[f"encoder.{name}"])
    known = last["model.embedding.weight"].eq(5).all(1)  # the phase begins with the word vectors again
    assert known.sum() > 20
    assert not best["embedding.weight"][known].eq(5).all()


def test_phases_with_key_frames_refuse_to_read_a_part_of_the_frames(search: Path, tmp_path: Path) -> None:
    whole = schedule(search)
    part = whole.model_copy(update={"data": whole.data.model_copy(update={"frame_keep_rate": 0.5})})
    with pytest.raises(WatchwordError, match=r"data\.frame_keep_rate=1"):
        loop.train(part, tmp_path / "part")


@pytest.mark.slow
def test_two_processes_remember_the_rewards_of_one(search: Path, tmp_path: Path) -> None:
    phases = [{"epochs": 2, "learning_rate": 0.01, "loss": {"name": "refocusing", "beta": 0.3}}]
    loop.train(schedule(search, phases=phases, model=SMALL), tmp_path / "one")
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
              "-m", "watchword", "train", str(tmp_path / "one" / "recipe.toml"),
              "--output", str(tmp_path / "two")]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(launch, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    one, two = (load_file(tmp_path / name / "last.safetensors")["objective.rewards"] for name in ("one", "two"))
    torch.testing.assert_close(one, two, rtol=0, atol=1e-3)


@pytest.mark.parametrize("benchmark", ["msvd", "msrvtt"])
def test_the_recipe_holds_the_schedule_of_the_paper(benchmark: str) -> None:
    recipe = read_recipe(find_recipe(f"{benchmark}/refocus"))
    names = ["first_pass", "refocusing", "fixed_focus", "reinforce"]
    assert [phase.loss["name"] for phase in recipe.phases] == names
    assert recipe.phases[0].epochs == 5
    assert recipe.phases[1].loss["beta"] == 0.03
    assert set(recipe.phases[3].loss["rewards"]) == {"CIDEr", "ROUGE_L"}
    assert {phase.sampling.rate for phase in recipe.phases[:3] if phase.sampling} == {0.25}
    assert (recipe.data.min_count, recipe.data.frame_keep_rate) == (3, 1)


# --- the pictures ----------------------------------------------------------------------------------------------------


def test_shares_count_the_event_its_border_the_middle_and_chance(search: Path) -> None:
    events = read_events(search / "truth.jsonl")
    assert events == {video: truth.event for video, truth in read_truth(search / "truth.jsonl").items()}
    video = next(iter(events))
    start, end = events[video]

    def looks(key: int) -> Passes:
        return Passes(
            video, np.arange(16.0), 8, key, np.ones(16) / 16, Hypothesis(video, (), 0), Hypothesis(video, (), 0)
        )

    inside = shares([looks(start)], events)
    assert inside["event_key"] == inside["event_or_border_key"] == 1
    assert inside["event_chance"] == pytest.approx((end - start) / 16)
    assert inside["event_middle"] == float(start <= 8 < end)
    beside = shares([looks(end if end < 16 else start - 1)], events)
    assert (beside["event_key"], beside["event_or_border_key"]) == (0, 1)
    assert inside["event_ends_key"] == 1 > beside["event_ends_key"]
    assert beside["after_event_key"] + beside["before_event_key"] == 1
    assert shares([looks(15)], None)["video_ends_key"] == 1
    assert shares([looks(14)], None)["video_ends_chance"] == 2 / 16


def test_key_frames_are_always_among_the_frames_that_are_shown() -> None:
    assert shown_frames(20, (10, 7), 4) == [0, 7, 10, 19]
    assert shown_frames(3, (1, 1), 12) == [0, 1, 2]
    for key in range(32):
        frames = shown_frames(32, (16, key), 8)
        assert {16, key} <= set(frames)
        assert len(frames) == len(set(frames)) == 8


# --- what another key frame would gain -------------------------------------------------------------------------------


def test_references_are_scored_with_every_frame_as_the_key_frame(whole: Run) -> None:
    captioner = Captioner.load(whole.folder)
    clip = read_clips(whole.recipe.data).split("train")[0]
    found = losses_by_key_frame(captioner, clip)
    assert found.losses.shape == (8, len(clip.captions))
    assert found.middle == 4
    forced = captioner.teacher_force([clip])
    np.testing.assert_allclose(found.losses[found.key], [-caption.score for caption in forced], rtol=1e-4)
    assert np.ptp(found.losses, axis=0).max() > 0, "the key frame makes a difference"
    assert found.words == pytest.approx(np.mean([len(caption.words) + 1 for caption in forced]))


def test_a_key_frame_that_all_references_prefer_is_found_and_noise_gains_nothing() -> None:
    random = np.random.default_rng(1)
    better = random.normal(size=(1, 40)).repeat(6, 0)
    better[5] -= 1.5
    clear = gains(
        [KeyFrameLosses("a", better, 3, 5, 8.0), KeyFrameLosses("b", better, 3, 0, 8.0)], {"a": (4, 6), "b": (4, 6)}
    )
    assert clear["oracle"] == pytest.approx((1.5, 0))
    assert clear["chosen"][0] == pytest.approx(0.75)
    assert clear["random"][0] == pytest.approx(0.25)
    assert clear["event"][0] == clear["ends"][0] == clear["event_ends"][0] == pytest.approx(0.75)
    assert clear["outside"][0] == 0
    assert clear["agreement"][0] == clear["best_at_ends"][0] == 1
    assert clear["agreement_chance"][0] == pytest.approx(1 / 6)
    assert clear["reliability"][0] == pytest.approx(1)
    noise = gains([KeyFrameLosses("a", random.normal(size=(6, 40)), 3, 0, 8.0) for _ in range(200)], None)
    assert noise["optimistic"][0] > 0.2
    assert abs(noise["oracle"][0]) < 3 * noise["oracle"][1] < 0.1
    assert abs(noise["reliability"][0]) < 0.1
    assert "event" not in noise


def test_the_command_measures_key_frames(whole: Run, search: Path) -> None:
    words = ["research", "key-frames", str(whole.folder)]
    done = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)["runs"]["whole"]
    assert found["optimistic"]["mean"] >= found["oracle"]["mean"]
    assert CliRunner().invoke(app, words, catch_exceptions=False).stdout.count("+-") == len(found)
    with pytest.raises(WatchwordError, match="the run reads 8 frames"):  # data.max_time_steps; the truth counts 16
        CliRunner().invoke(app, [*words, "--truth", str(search / "truth.jsonl")], catch_exceptions=False)


def test_an_event_is_put_among_frames_of_other_videos_of_its_split(tmp_path: Path) -> None:
    store, lines = Store(tmp_path / "store"), []
    for number in range(12):
        values = np.full((4, 2, 3), number, np.float32) + np.arange(4)[:, None, None] / 10
        store.write(f"v{number}", "grid", StreamArrays(values, np.arange(4.0), np.zeros((2, 4))), {})
        lines.append({"video": f"v{number}", "split": ["train", "val"][number % 2], "captions": [f"caption {number}"]})
    (tmp_path / "captions.jsonl").write_text("\n".join(map(json.dumps, lines)))
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'[data]\ncaptions = "{tmp_path / "captions.jsonl"}"\nstore = "{tmp_path / "store"}"\nstreams = ["grid"]\n'
        '[model]\nname = "mean_pool"\n[[phases]]\nepochs = 1\n'
    )
    words = ["research", "splice", str(recipe), str(tmp_path / "new"), "--frames", "6", "--event", "3"]
    CliRunner().invoke(app, words, catch_exceptions=False)
    events = read_events(tmp_path / "new" / "truth.jsonl")
    assert len(set(events.values())) > 1
    for clip in read_annotations(tmp_path / "new" / "captions.jsonl"):
        number, (start, end) = int(clip.video[1:]), events[clip.video]
        found = Store(tmp_path / "new" / "store").read(clip.video, "grid").values[:, 0, 0]
        assert clip.captions == (f"caption {number}",)
        np.testing.assert_allclose(found[start:end], number + np.array([0.0, 0.2, 0.3]), rtol=1e-3)
        others = np.delete(found, np.arange(start, end)).astype(int)
        assert len({*others.tolist(), number}) == 4  # each of another video ...
        assert set(others % 2) == {number % 2}  # ... of its split
    with pytest.raises(WatchwordError, match="not empty"):
        CliRunner().invoke(app, words, catch_exceptions=False)
    words[3:] = [str(tmp_path / "more"), "--frames", "20"]
    with pytest.raises(WatchwordError, match="needs frames of 16 other videos, there are 5"):
        CliRunner().invoke(app, words, catch_exceptions=False)


def test_the_strip_has_a_yellow_and_a_red_border() -> None:
    pictures = np.zeros((4, 48, 64, 3), np.uint8)
    picture = np.asarray(draw_strips([Strip(pictures, 1, 3, [("GT", "a ball")])], height=48))
    left = [8 + location * (64 + 6) for location in range(4)]
    assert picture[6 + 24, left[3]].tolist() == [205, 40, 40]
    assert picture[6 + 24, left[1] + 4].tolist() == [240, 190, 20]
    assert picture[6 + 24, left[0] + 4].tolist() == [0, 0, 0]


def test_the_command_says_what_it_saw_and_draws_both_figures(tmp_path: Path) -> None:
    drawn = CliRunner().invoke(
        app,
        [
            "research",
            "shapes",
            str(tmp_path / "data"),
            "--count",
            "20",
            "--streams",
            "appearance_grid",
            "--write-videos",
        ],
    )
    assert drawn.exit_code == 0
    phases = [{"epochs": 1, "learning_rate": 0.01, "loss": {"name": "refocusing"}}]
    short = schedule(tmp_path / "data", phases=phases)
    every_frame = short.data.model_copy(update={"max_time_steps": None})  # as the truth counts them
    run = loop.train(short.model_copy(update={"data": every_frame}), tmp_path / "run")
    words = [
        "research",
        "refocus",
        str(run.folder),
        "--truth",
        str(tmp_path / "data" / "truth.jsonl"),
        "--beam",
        "2",
        "--json",
    ]
    done = CliRunner().invoke(app, [*words, "--figures", "2"], catch_exceptions=False)
    summary = json.loads(done.stdout)
    assert summary["videos"] == 2
    assert 0 <= summary["event_chance"] <= 1
    rows = json.loads((run.folder / "key_frames-val.json").read_text())["videos"]
    features = Features(Store(run.recipe.data.store), run.recipe.data)
    keys = Run(run.folder).model().encode_passes(features.read([row["video"] for row in rows]))[3]  # type: ignore[operator]
    assert [row["key"] for row in rows] == keys.tolist()
    assert (run.folder / "key_frames.png").exists()
    assert (run.folder / "locations.png").exists()
    with pytest.raises(WatchwordError, match="not among the 2 videos"):
        CliRunner().invoke(app, [*words, "--ids", "nobody"], catch_exceptions=False)


def test_rewards_keep_their_digits_under_bfloat16() -> None:
    """The effect of a key frame is a hundredth of a nat: eight bits of a caption's loss cannot hold it."""
    model, loss = vre().train(), refocusing()
    loss.begin(model)
    plain = loss.of_captions(model, batch(), 0.0)[0]
    with torch.autocast("cpu", torch.bfloat16):
        losses = loss.of_captions(model, batch(), 0.0)[0]
        total = [loss(model, batch(), 0.0).total for _ in range(2)][1]  # the second has an R_e-1
    total.backward()
    assert losses.dtype == loss.rewards.dtype == torch.float32
    assert (losses.bfloat16().float() != losses).any()
    torch.testing.assert_close(losses, plain, rtol=0.05, atol=0.05)
