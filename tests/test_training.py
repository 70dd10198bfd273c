"""Training on drawn videos: what is learned, what is kept, what is refused."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageColor
from safetensors.torch import load_file

from tests.conftest import noise_stream
from watchword.config import Phase, Recipe, Sampling, Schedule, write_toml
from watchword.data.dataset import Slot, keep_frames
from watchword.decoding import Hypotheses, StepModel, mbr_decode, rescore, teacher_force
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.losses.objective import CrossEntropy, CrossEntropySettings, ScheduledSampling, word_losses
from watchword.models import build_model
from watchword.tensors import BOS, EOS, PAD, UNK, Batch, Stream, Streams
from watchword.training import loop
from watchword.training.curves import COLOURS, curves_of
from watchword.training.evaluation import Search, evaluate, open_split, video_losses
from watchword.training.run import Run
from watchword.types import StreamArrays

SMALL = {"name": "soft_attention", "hidden_size": 16, "embedding_size": 8, "attention_size": 8}


def recipe(shapes: Path, **changes: Any) -> Recipe:
    values: dict[str, Any] = {
        "seed": 3,
        "data": {
            "captions": shapes / "captions.jsonl",
            "store": shapes / "store",
            "videos_per_batch": 8,
            "captions_per_video": 3,
            "min_count": 1,
        },
        "model": SMALL,
        "phases": [{"epochs": 2, "learning_rate": 0.01}],
    }
    return Recipe.read(values | changes, "test")


def weights(folder: Path, name: str = "last") -> dict[str, torch.Tensor]:
    return load_file(folder / f"{name}.safetensors")


def log_rows(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def assert_close(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    torch.testing.assert_close(dict(one), dict(other), rtol=0, atol=1e-6)


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        assert torch.equal(tensor, other[name]), f"{name} differs"


def test_a_curve_leaves_out_epochs_without_a_score_and_shows_scores_times_100() -> None:
    rows = [{"loss": 3.0}, {"loss": 2.0, "CIDEr": 0.5}, {"CIDEr": float("nan")}, {"CIDEr": float("inf")}]
    assert curves_of(rows, {"CIDEr": "CIDEr", "Bleu_4": "BLEU-4"}, 100.0) == {"CIDEr": [(2, 50.0)]}


def test_training_lowers_the_loss_and_fills_the_run_folder(shapes: Path, tmp_path: Path) -> None:
    loop.train(recipe(shapes, phases=[{"epochs": 8, "learning_rate": 0.03}]), tmp_path / "run")
    rows = log_rows(tmp_path / "run")
    assert [row["epoch"] for row in rows] == list(range(1, 9))
    assert rows[-1]["loss"] < 0.75 * rows[0]["loss"]
    assert {"CIDEr", "Bleu_4", "val_loss"} <= rows[-1].keys()
    colours = {colour for _, colour in Image.open(tmp_path / "run" / "curves.png").getcolors(1 << 16) or []}
    assert {ImageColor.getrgb(colour) for colour in COLOURS} <= colours
    seen = json.loads((tmp_path / "run" / "data.json").read_text())
    assert set(seen["splits"]) == {"train", "val", "test"}
    assert list((tmp_path / "run").glob("events.out.*"))


PHASES = [{"epochs": 3, "patience": 2}, {"epochs": 5}, {"epochs": 0}]


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ({"phase": 0, "epoch": 1, "waited": 0}, "phase 1 of 3, epoch 1 of 3"),
        ({"phase": 0, "epoch": 3, "waited": 2}, "phase 1 of 3, epoch 3 of 3"),
        ({"phase": 1, "epoch": 4, "waited": 9}, "phase 2 of 3, epoch 4 of 5"),
        ({"phase": 1, "epoch": 5, "waited": 0}, ""),
        ({"phase": 2, "epoch": 0, "waited": 0}, ""),
    ],
)
def test_a_training_that_is_not_at_its_end_is_known(
    shapes: Path, tmp_path: Path, place: dict[str, int], told: str
) -> None:
    run = Run(tmp_path)
    (tmp_path / "recipe.toml").write_text(write_toml(recipe(shapes, phases=PHASES).model_dump()))
    assert run.unfinished() == ""  # a folder without its place in training
    run.keep_last({"model.x": torch.zeros(1)}, place)
    assert run.unfinished() == told


def test_patience_ends_a_training_too(shapes: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.toml").write_text(write_toml(recipe(shapes, phases=PHASES[:1]).model_dump()))
    Run(tmp_path).keep_last({"model.x": torch.zeros(1)}, {"phase": 0, "epoch": 2, "waited": 2})
    assert Run(tmp_path).unfinished() == ""


def test_the_best_weights_are_those_of_the_best_validation(shapes: Path, tmp_path: Path) -> None:
    run = loop.train(recipe(shapes, phases=[{"epochs": 5, "learning_rate": 0.03}]), tmp_path / "run")
    rows = log_rows(run.folder)
    again = evaluate([run], "val", Search(beam=1), ("CIDEr",))
    assert again.scores.corpus["CIDEr"] == pytest.approx(max(row["CIDEr"] for row in rows), abs=1e-9)


def test_the_running_mean_of_the_weights_forgets_its_first_steps(shapes: Path, tmp_path: Path) -> None:
    layer = torch.nn.Linear(1, 1, bias=False)
    mean = loop.running_mean(layer, decay=0.5)  # type: ignore[arg-type]
    for value in (8.0, 4.0, 6.0):
        layer.weight.data.fill_(value)
        mean.update_parameters(layer)  # the first is copied, then 9/11 and 9/12 of the way, as both are above 1 - decay
    assert mean.module.weight.item() == pytest.approx(4.7272727 + (6 - 4.7272727) * 0.75)


def test_a_phase_that_averages_keeps_the_mean_and_learns_as_if_it_did_not(shapes: Path, tmp_path: Path) -> None:
    for name, ema_decay in (("plain", 0.0), ("mean", 0.9)):
        phases = [{"epochs": 2, "learning_rate": 0.02, "ema_decay": ema_decay}]
        loop.train(recipe(shapes, phases=phases), tmp_path / name)
    plain, mean = weights(tmp_path / "plain"), weights(tmp_path / "mean")
    assert_same(plain, {name: tensor for name, tensor in mean.items() if not name.startswith("mean.")})
    kept = weights(tmp_path / "mean", "model")
    assert any(not torch.equal(tensor, plain[f"model.{name}"]) for name, tensor in kept.items())


KILLED = """
import os, signal, sys
from pathlib import Path
from watchword.config import read_recipe
from watchword.training import loop
import torch; torch.set_num_threads(1)
seen = 0
def report(progress):
    global seen
    seen += 1
    if seen == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
loop.train(read_recipe(Path(sys.argv[1])), Path(sys.argv[2]), report)
"""


@pytest.mark.parametrize("batches", [3, 30])  # within the first epoch, within the second phase
def test_a_killed_run_resumes_to_the_same_weights_bit_for_bit(shapes: Path, tmp_path: Path, batches: int) -> None:
    phases = [
        {"epochs": 2, "learning_rate": 0.01, "sampling": {"kind": "constant", "rate": 0.3}},
        {"epochs": 2, "learning_rate": 0.005, "optimizer": "rmsprop", "begin": "best", "ema_decay": 0.9},
    ]
    whole = recipe(shapes, phases=phases, save_minutes=0)
    loop.train(whole, tmp_path / "whole")
    cut = tmp_path / "cut"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(tmp_path / "whole" / "recipe.toml"), str(cut), str(batches)]
    killed = subprocess.run(command, env=env, check=False)
    assert killed.returncode == -signal.SIGKILL
    loop.resume(cut)
    assert_same(weights(tmp_path / "whole"), weights(cut))
    assert_same(weights(tmp_path / "whole", "model"), weights(cut, "model"))
    assert (cut / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()


@pytest.mark.slow
def train_by_two(recipe: Path, folder: Path) -> None:
    """Two processes on this machine's CPU."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2",
              "--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0",
              "-m", "watchword", "train", str(recipe), "--output", str(folder)]  # fmt: skip
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(launch, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_two_processes_give_the_loss_curve_of_one(shapes: Path, tmp_path: Path) -> None:
    """The same batches, half of each in each process: sums of words and of losses are shared."""
    alone = recipe(shapes, model=SMALL | {"dropout": 0.0})
    loop.train(alone, tmp_path / "one")
    train_by_two(tmp_path / "one" / "recipe.toml", tmp_path / "two")
    for one, two in zip(log_rows(tmp_path / "one"), log_rows(tmp_path / "two"), strict=True):
        assert two["loss"] == pytest.approx(one["loss"], rel=1e-4)
        assert two["val_loss"] == pytest.approx(one["val_loss"], rel=1e-4)


def test_a_word_weighs_the_same_in_a_short_and_in_a_long_caption(tmp_path: Path) -> None:
    """Two people say "go", one says "go on and on and on": after "go" the end must come with probability 2/3.

    Batches hold captions of like length; were each batch's mean loss taken, it would be 0.78, and captions get short.
    """
    captions = ["go", "go", "go on and on and on"]
    rows = [{"video": split, "split": split, "captions": captions} for split in ("train", "val")]
    (tmp_path / "captions.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    whole = np.array([[0, 0, 1, 1]], np.float32)
    for video in ("train", "val"):
        Store(tmp_path / "store").write(video, "appearance", StreamArrays(np.ones((1, 1, 2)), np.zeros(1), whole), {})
    values = {
        "data": {
            "captions": tmp_path / "captions.jsonl",
            "store": tmp_path / "store",
            "captions_per_video": 2,
            "videos_per_batch": 1,
            "min_count": 1,
        },
        "model": {"name": "mean_pool", "hidden_size": 8, "embedding_size": 8, "dropout": 0.0},
        "phases": [{"epochs": 150, "learning_rate": 0.02, "schedule": {"last_epochs": 50, "last_rate": 0.002}}],
        "selection": {"every": 150},
    }
    run = loop.train(Recipe.read(values, "test"), tmp_path / "run")
    batch = next(loop.Trainer(run.recipe, run).data.features.batches(["train"], 1))
    go = torch.tensor([[run.vocabulary.encode(["go", "on"])]])
    with torch.no_grad():
        model = run.model()
        after = model.log_probabilities(teacher_force(model, batch.streams, go).outputs)[0, 0, 1].exp()
    assert float(after[EOS]) == pytest.approx(2 / 3, abs=0.04)


def test_a_run_can_start_from_the_weights_of_another(shapes: Path, tmp_path: Path) -> None:
    first = loop.train(recipe(shapes, phases=[{"epochs": 3, "learning_rate": 0.02}]), tmp_path / "first")
    gentle = [{"epochs": 1, "learning_rate": 1e-9}]
    second = loop.train(recipe(shapes, init_from=first.folder, phases=gentle, seed=9), tmp_path / "second")
    assert_close(second.model().state_dict(), first.model().state_dict())
    assert Run(second.folder).recipe.init_from is not None
    with pytest.raises(WatchwordError, match="made differently"):
        loop.train(recipe(shapes, init_from=first.folder, model=SMALL | {"hidden_size": 12}), tmp_path / "third")


@pytest.mark.parametrize("model", [SMALL, SMALL | {"name": "refocus", "variant": "kbigru", "spatial": "none"}])
def test_text_only_training_learns_captions_without_videos(shapes: Path, tmp_path: Path, model: dict[str, Any]) -> None:
    lines = (shapes / "captions.jsonl").read_text().splitlines()
    videos = [json.loads(line) for line in lines]
    unseen = [video | {"video": f"unseen_{video['video']}"} for video in videos]
    (tmp_path / "text.jsonl").write_text("".join(json.dumps(video) + "\n" for video in unseen))
    data = {"captions": tmp_path / "text.jsonl", "store": shapes / "store", "min_count": 1, "text_only": True}
    phases = [{"epochs": 8, "learning_rate": 0.03}]
    loop.train(recipe(shapes, data=data, model=model, phases=phases), tmp_path / "text_only")
    rows = log_rows(tmp_path / "text_only")
    assert rows[-1]["val_loss"] < 0.8 * rows[0]["val_loss"]
    said = evaluate([Run(tmp_path / "text_only")], "val", Search(beam=1), ("CIDEr",)).captions
    assert len({caption.text for caption in said}) == 1, "it has seen something"
    phases = [{"epochs": 2, "learning_rate": 0.03}]
    seeing = recipe(shapes, model=model, init_from=tmp_path / "text_only", phases=phases)
    loop.train(seeing, tmp_path / "seeing")
    first = log_rows(loop.train(recipe(shapes, model=model), tmp_path / "anew").folder)[0]
    assert log_rows(tmp_path / "seeing")[0]["loss"] < first["loss"]
    with pytest.raises(WatchwordError, match="lacks appearance of"):
        loop.train(recipe(shapes, data=data | {"text_only": False}, model=model), tmp_path / "none")


def test_a_run_can_take_the_words_of_another_to_be_one_ensemble_with_it(shapes: Path, tmp_path: Path) -> None:
    once = [{"epochs": 1}]
    first = loop.train(recipe(shapes, phases=once), tmp_path / "first")
    rows = (first.folder / "vocabulary.txt").read_text().splitlines()
    (tmp_path / "words.txt").write_text("\n".join([*rows, "aardvark\t5"]) + "\n")  # a word that its captions lack
    second = loop.train(recipe(shapes, phases=once, vocabulary=tmp_path / "words.txt"), tmp_path / "second")
    assert second.vocabulary.words == (*first.vocabulary.words, "aardvark")
    third = loop.train(recipe(shapes, phases=once, vocabulary=tmp_path / "words.txt", seed=9), tmp_path / "third")
    assert evaluate([second, third], "val", Search(beam=1)).runs == ("second", "third")
    with pytest.raises(WatchwordError, match="do not share a vocabulary"):
        evaluate([first, second], "val", Search(beam=1))


@pytest.mark.parametrize(("by", "mbr_samples"), [("CIDEr", [7]), ("val_loss", [])])
def test_captions_vote_in_validation_only_where_they_choose_the_weights(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, mbr_samples: list[int]
) -> None:
    asked: list[int] = []

    def noted(model: StepModel, streams: Streams, num_captions: int, max_words: int, **named: Any) -> Hypotheses:
        asked.append(num_captions)
        return mbr_decode(model, streams, num_captions, max_words, **named)

    monkeypatch.setattr("watchword.training.evaluation.mbr_decode", noted)
    loop.train(recipe(shapes, phases=[{"epochs": 1}], selection={"by": by, "mbr_samples": 7}), tmp_path / "run")
    assert sorted(set(asked)) == mbr_samples


def test_early_stopping_waits_as_long_as_it_was_told(shapes: Path, tmp_path: Path) -> None:
    phases = [{"epochs": 30, "learning_rate": 1e-9, "patience": 2}]  # nothing improves
    loop.train(recipe(shapes, phases=phases, selection={"by": "CIDEr"}), tmp_path / "run")
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("forget", [True, False])
def test_a_phase_may_forget_the_best_weights_of_the_phases_before(shapes: Path, tmp_path: Path, forget: bool) -> None:
    phases = [{"epochs": 1, "learning_rate": 0.01}, {"epochs": 1, "learning_rate": 1.0, "forget_best": forget}]
    run = loop.train(recipe(shapes, phases=phases, selection={"by": "val_loss"}), tmp_path / "run")
    first, second = log_rows(run.folder)
    assert second["val_loss"] > first["val_loss"]
    name = "to_words.weight"
    assert torch.equal(run.model().state_dict()[name], weights(run.folder)[f"model.{name}"]) == forget


def test_what_was_best_before_a_phase_survives_a_kill_in_its_first_epoch(shapes: Path, tmp_path: Path) -> None:
    """The first epoch of a phase may replace the best weights that the phase began with."""
    phases = [{"epochs": 2, "learning_rate": 0.02}, {"epochs": 2, "learning_rate": 0.01, "begin": "best"}]
    whole = recipe(shapes, phases=phases)
    loop.train(whole, tmp_path / "whole")

    class CutError(Exception):
        pass

    def cut(progress: loop.TrainingProgress) -> None:  # after validation, before the position is kept
        if progress.phase == 1 and progress.scores:
            raise CutError

    with pytest.raises(CutError):
        loop.train(whole, tmp_path / "cut", cut)
    loop.resume(tmp_path / "cut")
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "cut"))


def test_a_run_that_was_killed_before_anything_was_kept_begins_again(shapes: Path, tmp_path: Path) -> None:
    loop.train(recipe(shapes), tmp_path / "whole")
    cut = tmp_path / "cut"
    cut.mkdir()
    (cut / "recipe.toml").write_text((tmp_path / "whole" / "recipe.toml").read_text())
    (cut / "log.jsonl").write_text("{}\n")
    loop.resume(cut)
    assert_same(weights(tmp_path / "whole"), weights(cut))
    assert (cut / "log.jsonl").read_text() == (tmp_path / "whole" / "log.jsonl").read_text()


def test_a_mistake_in_a_later_phase_shows_before_the_first(shapes: Path, tmp_path: Path) -> None:
    phases = [{"epochs": 1}, {"epochs": 1, "loss": {"name": "cros_entropy"}}]
    with pytest.raises(WatchwordError, match="did you mean 'cross_entropy'"):
        loop.train(recipe(shapes, phases=phases), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("key", "value"), [("dropout", 2), ("hidden_size", 0), ("embedding_size", -1), ("attention_size", 0)]
)
def test_sizes_that_make_no_sense_are_one_line(shapes: Path, tmp_path: Path, key: str, value: float) -> None:
    with pytest.raises(WatchwordError, match=f"model soft_attention: {key}"):
        loop.train(recipe(shapes, model=SMALL | {key: value}), tmp_path / "run")


@pytest.mark.parametrize("split", ["train", "val"])
def test_captions_without_a_word_are_one_line(shapes: Path, tmp_path: Path, split: str) -> None:
    rows = [json.loads(line) for line in (shapes / "captions.jsonl").read_text().splitlines()]
    for row in rows:
        if row["split"] == split:
            row["captions"] = ["...", "?"]
    (tmp_path / "captions.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    values = recipe(shapes).model_dump()
    values["data"]["captions"] = tmp_path / "captions.jsonl"
    with pytest.raises(WatchwordError, match="has a word"):
        loop.train(Recipe.read(values, "test"), tmp_path / "run")


def test_features_that_changed_since_training_are_noticed(shapes: Path, tmp_path: Path) -> None:
    run = loop.train(recipe(shapes, phases=[{"epochs": 1}]), tmp_path / "run")
    seen = json.loads((run.folder / "data.json").read_text())
    seen["streams"]["appearance"] = "99 numbers, settings 00000000"
    (run.folder / "data.json").write_text(json.dumps(seen))
    with pytest.raises(WatchwordError, match="was trained on appearance of 99 numbers"):
        evaluate([run], "test", Search(), ("CIDEr",))


@pytest.mark.parametrize("split", ["test", "train"])
def test_selecting_on_test_or_train_is_refused(shapes: Path, split: str) -> None:
    with pytest.raises(WatchwordError, match="select on 'val'"):
        recipe(shapes, selection={"split": split})


def test_a_run_folder_is_not_overwritten(shapes: Path, tmp_path: Path) -> None:
    loop.train(recipe(shapes, phases=[{"epochs": 1}]), tmp_path / "run")
    with pytest.raises(WatchwordError, match="holds a run already"):
        loop.train(recipe(shapes), tmp_path / "run")


def test_a_loss_that_explodes_is_one_line_and_keeps_what_was_learned(shapes: Path, tmp_path: Path) -> None:
    phases = [{"epochs": 1}, {"epochs": 3, "learning_rate": 1e37, "clip": 1e38}]
    with pytest.raises(WatchwordError, match=r"the loss became .*smaller\s+phases.1.learning_rate"):
        loop.train(recipe(shapes, phases=phases), tmp_path / "run")
    assert Run(tmp_path / "run").model() is not None


def test_a_full_disk_while_saving_is_one_line_and_loses_nothing(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    loop.train(recipe(shapes, phases=[{"epochs": 1}]), folder)
    before = weights(folder)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    run = Run(folder)
    with pytest.raises(WatchwordError, match="the disk is full"):
        run.keep_last({"x": torch.zeros(2)}, {})
    assert_same(before, weights(folder))
    assert not list(folder.glob(".*.tmp"))


def test_weights_and_words_that_do_not_belong_together_are_refused(shapes: Path, tmp_path: Path) -> None:
    run = loop.train(recipe(shapes, phases=[{"epochs": 1}]), tmp_path / "run")
    words = (run.folder / "vocabulary.txt").read_text().splitlines()
    (run.folder / "vocabulary.txt").write_text("\n".join(["zebra", *words[1:]]) + "\n")
    with pytest.raises(WatchwordError, match="not the one that"):
        run.model()


def test_changed_captions_are_noticed_before_they_are_scored(shapes: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    captions.write_text((shapes / "captions.jsonl").read_text())
    values = recipe(shapes).model_dump()
    values["data"]["captions"] = captions
    run = loop.train(Recipe.read(values, "test"), tmp_path / "run")
    rows = [json.loads(line) for line in captions.read_text().splitlines()]
    for row in rows:
        row["split"] = {"train": "test", "test": "train"}.get(row["split"], row["split"])
    captions.write_text("\n".join(json.dumps(row) for row in rows))
    with pytest.raises(WatchwordError, match="not what run was trained on"):
        evaluate([run], "test", Search(), ("CIDEr",))


def test_missing_features_are_named_before_the_first_batch(shapes: Path, tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    extra = {"video": "nowhere", "split": "train", "captions": ["a man"]}
    captions.write_text((shapes / "captions.jsonl").read_text() + json.dumps(extra))
    values = recipe(shapes).model_dump()
    values["data"]["captions"] = captions
    with pytest.raises(WatchwordError, match=r"lacks appearance of 1 of .* 'nowhere' the first"):
        loop.train(Recipe.read(values, "test"), tmp_path / "run")


def test_an_ensemble_of_runs_is_evaluated_as_one(shapes: Path, tmp_path: Path) -> None:
    runs = [loop.train(recipe(shapes, seed=seed, phases=[{"epochs": 1}]), tmp_path / f"run{seed}") for seed in (1, 2)]
    result = evaluate(runs, "test", Search(beam=3), ("BLEU", "CIDEr"))
    assert len(result.captions) == 8
    assert result.runs == ("run1", "run2")


def test_the_losses_of_videos_add_up_to_the_validation_loss(shapes: Path, tmp_path: Path) -> None:
    run = loop.train(recipe(shapes, phases=[{"epochs": 1}]), tmp_path / "run")
    clips = open_split([run], "val")[0].split("val")
    losses, words = video_losses(run, clips)
    assert losses.sum() / words.sum() == pytest.approx(log_rows(run.folder)[0]["val_loss"], rel=1e-5)
    alone = video_losses(run, clips[1:2])
    assert alone[0][0] == pytest.approx(losses[1], rel=1e-5)
    assert alone[1][0] == words[1]


# --- the data as batches -------------------------------------------------------------------------------------------


def test_an_epoch_holds_every_caption_once_and_little_padding(shapes: Path, tmp_path: Path) -> None:
    data = loop.Trainer(recipe(shapes), Run(tmp_path)).data
    slots = data.plan((1, 0, 0))
    said = [(group.video, row) for slot in slots for group in slot.groups for row in group.captions]
    assert len(said) == len(set(said)) == data.num_captions
    assert data.plan((1, 0, 0)) == slots
    assert data.plan((1, 0, 1)) != slots
    padded = real = 0
    for slot in slots:
        targets = data.batch(slot).captions[:, :, 1:]
        padded, real = padded + targets.numel(), real + int((targets != PAD).sum())
    assert real / padded > 0.8


def test_the_shares_of_processes_make_up_the_batch(shapes: Path, tmp_path: Path) -> None:
    data = loop.Trainer(recipe(shapes), Run(tmp_path)).data
    slot = data.plan((0,))[0]
    shares = [slot.share(rank, 3) for rank in range(3)]
    assert sorted(map(str, slot.groups)) == sorted(str(group) for share in shares for group in share.groups)
    lonely = Slot(slot.groups[:1]).share(1, 2)  # one video for two processes: the second computes, and weighs nothing
    assert data.batch(lonely).num_words == 0


# --- losses --------------------------------------------------------------------------------------------------------


def toy() -> tuple[Any, Batch]:
    torch.manual_seed(0)
    model = build_model(SMALL | {"dropout": 0.0}, {"appearance": 6}, 10)
    captions = torch.tensor([[[BOS, 5, UNK, EOS], [BOS, 7, EOS, PAD]], [[BOS, 8, EOS, PAD], [PAD] * 4]])
    return model, Batch(("a", "b"), {"appearance": noise_stream([3, 2])}, captions)


def test_the_frame_keep_rate_keeps_its_share_of_every_videos_time_steps_in_order() -> None:
    lengths = torch.tensor([7, 3, 1])
    mask = torch.arange(7) < lengths.unsqueeze(-1)  # (B, F)
    times = torch.arange(7.0).expand(3, 7)
    stream = Stream(times[:, :, None, None] + 1, mask.unsqueeze(-1), times, torch.zeros(3, 7, 1, 4))
    seen = set()
    for _ in range(200):
        part = keep_frames({"appearance": stream}, 0.5)["appearance"]
        assert part.mask[..., 0].tolist() == [[True] * 4, [True] * 2 + [False] * 2, [True] + [False] * 3]
        for row, length in enumerate(lengths.tolist()):
            time_steps = part.times[row][part.mask[row, :, 0]].tolist()
            assert time_steps == sorted(set(time_steps))
            assert max(time_steps) < length
            assert part.values[row, : len(time_steps), 0, 0].tolist() == [time_step + 1 for time_step in time_steps]
        seen.add(tuple(part.times[0].tolist()))
    assert len(seen) > 25  # of the 35 ways to draw 4 of 7


def test_streams_of_the_same_instants_keep_the_same_ones() -> None:
    frames, windows = noise_stream([6, 4, 6]), noise_stream([6, 4, 0], locations=1)
    sparse = noise_stream([3, 2, 3])
    sparse = Stream(sparse.values, sparse.mask, 2 * sparse.times, sparse.boxes)  # every second instant
    alone = set()
    for _ in range(50):
        part = keep_frames({"frames": frames, "windows": windows, "sparse": sparse}, 0.5)
        for row in (0, 1):
            kept = part["frames"].times[row][part["frames"].mask[row].any(-1)]
            assert torch.equal(kept, part["windows"].times[row][part["windows"].mask[row].any(-1)])
        swapped = keep_frames({"windows": windows, "frames": frames}, 0.5)["frames"]
        alone.add(tuple(swapped.times[2].tolist()))  # a video without windows, the stream that others follow
        assert part["sparse"].mask.any(-1).sum(1).tolist() == [2, 1, 2]
    assert len(alone) > 10  # of 20


def test_cross_entropy_counts_real_words_and_never_unknown_ones() -> None:
    model, batch = toy()
    loss = CrossEntropy(CrossEntropySettings())(model, batch, 0.0)
    assert int(loss.weight) == 6  # 5 EOS, 7 EOS, 8 EOS
    spoken = Batch(batch.videos, batch.streams, batch.captions[:, 1:])  # "7 EOS" of the first video alone
    with torch.no_grad():
        total = CrossEntropy(CrossEntropySettings())(model, spoken, 0.0).total
        scored = rescore(model, batch.streams, spoken.captions[:, :, 1:])
    assert float(total) == pytest.approx(-float(scored[0]), rel=1e-5)


def test_label_smoothing_is_shared_by_the_words_that_can_be_said() -> None:
    logits = torch.tensor([[float("-inf"), 1.0, 2.0, 3.0]])
    log_probs = logits.log_softmax(-1)[0]
    by_hand = -0.9 * log_probs[2] - 0.1 * log_probs[1:].mean()
    assert float(word_losses(logits, torch.tensor([2]), 0.1)) == pytest.approx(float(by_hand), rel=1e-6)


def test_scheduled_sampling_replaces_the_share_of_words_it_was_told() -> None:
    model, _ = toy()
    torch.manual_seed(0)
    outputs, words = torch.randn(50, 40, 16), torch.full((50, 40), 9)
    words[:, 20:] = PAD
    heard = ScheduledSampling(model, 0.25)(outputs, words)
    assert (heard[:, 20:] == PAD).all()
    replaced = float((heard[:, :20] != 9).float().mean())
    drawn_nine = float(model.log_probabilities(outputs)[..., 9].exp().mean().detach())
    assert replaced == pytest.approx(0.25 * (1 - drawn_nine), abs=0.04)


def test_the_inverse_sigmoid_schedule_is_the_papers() -> None:
    sampling = Sampling(kind="inverse_sigmoid", eta=24)
    assert sampling.at(0) == pytest.approx(1 - 24 / 25)
    assert sampling.at(24) == pytest.approx(1 - 24 / (24 + 2.718281828), abs=1e-9)


def test_schedules_warm_up_step_down_and_end_low() -> None:
    warm = Schedule(warmup_epochs=3, warmup_from=1e-7, last_epochs=7, last_rate=1e-6)
    assert warm.rate(1e-4, 0, 30) == pytest.approx(1e-7)
    assert warm.rate(1e-4, 1.5, 30) == pytest.approx((1e-7 + 1e-4) / 2)
    assert warm.rate(1e-4, 3, 30) == pytest.approx(1e-4)
    assert warm.rate(1e-4, 22.99, 30) == pytest.approx(1e-4)
    assert warm.rate(1e-4, 23, 30) == pytest.approx(1e-6)
    steps = Schedule(decay=0.8, decay_every=30)
    assert [steps.rate(1.0, epoch, 100) for epoch in (0, 29.9, 30, 60)] == pytest.approx([1, 1, 0.8, 0.64])
    assert Phase().schedule.rate(0.5, 17, 30) == 0.5


def test_one_folder_has_one_training_at_a_time(shapes: Path, tmp_path: Path) -> None:
    refused = []

    def try_again(progress: loop.TrainingProgress) -> None:
        for begin in (lambda: loop.resume(tmp_path / "run"), lambda: Run(tmp_path / "run").lock().__enter__()):
            with pytest.raises(WatchwordError, match="another process is training in"):
                begin()
            refused.append(progress.batch)

    loop.train(recipe(shapes, phases=[{"epochs": 1}], selection={"by": "val_loss"}), tmp_path / "run", try_again)
    assert refused
    with Run(tmp_path / "run").lock():
        pass


def test_the_lock_of_a_killed_training_is_gone(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with Run(tmp_path).lock():
            os.write(writer, b"locked")
            signal.pause()
    assert os.read(reader, 6) == b"locked"
    with pytest.raises(WatchwordError, match="another process"), Run(tmp_path).lock():
        pass
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with Run(tmp_path).lock():
        pass
