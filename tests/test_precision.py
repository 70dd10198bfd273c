"""bfloat16 is used where a child process has found it clearly faster; a run keeps the precision it began with."""

import json
import sys
from pathlib import Path

import pytest
import torch

from watchword import precision
from watchword.config import Recipe
from watchword.errors import WatchwordError
from watchword.precision import choose_precision, cpu_speedup
from watchword.training import loop

DIES = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
SLOW = "print([1.0, 4.0])"
FAST = "print([3.8, 2.0])"
TALKS = "print('no numbers')"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ACCELERATE_MIXED_PRECISION", raising=False)
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    return tmp_path / "cache" / "precision.json"


@pytest.mark.parametrize(
    ("child", "speedup", "chosen"),
    [(DIES, 0.0, "float32"), (SLOW, 0.25, "float32"), (FAST, 1.9, "bfloat16"), (TALKS, 0.0, "float32")],
)
def test_the_child_decides_once(
    child: str, speedup: float, chosen: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cpu_speedup((sys.executable, "-c", child)) == speedup
    assert list(json.loads(own_cache.read_text()).values()) == [speedup]
    monkeypatch.setattr(precision, "_measured", lambda command: pytest.fail("measured again"))
    assert choose_precision("auto") == chosen
    assert choose_precision("float32") == "float32"
    if speedup:
        assert choose_precision("bfloat16") == "bfloat16"
    else:
        with pytest.raises(WatchwordError, match="set precision=float32"):
            choose_precision("bfloat16")


def test_another_machine_and_a_damaged_cache_are_measured_anew(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cpu_speedup((sys.executable, "-c", FAST)) == 1.9
    monkeypatch.setattr(precision, "_cpu", lambda: "another")
    assert cpu_speedup((sys.executable, "-c", SLOW)) == 0.25
    assert len(json.loads(own_cache.read_text())) == 2
    own_cache.write_text("{")
    assert cpu_speedup((sys.executable, "-c", DIES)) == 0.0


def test_accelerate_may_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "cpu_speedup", lambda: 0.0)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    assert choose_precision("auto") == "bfloat16"


def test_the_probe_itself_runs_here() -> None:
    assert cpu_speedup() >= 0


def test_a_run_trains_in_bfloat16_and_is_resumed_in_it(
    shapes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "cpu_speedup", lambda: 1.0)
    data = {"captions": shapes / "captions.jsonl", "store": shapes / "store", "min_count": 1}
    model = {"name": "soft_attention", "hidden_size": 24, "embedding_size": 12, "attention_size": 12}
    values = {"data": data, "model": model, "phases": [{"epochs": 4, "learning_rate": 0.01}]}
    losses = {}
    for wanted in ("float32", "bfloat16"):
        run = loop.train(Recipe.read(values | {"precision": wanted}, "test"), tmp_path / wanted)
        rows = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
        losses[wanted] = [row["val_loss"] for row in rows]
        assert run.training_data["precision"] == wanted
        assert {tensor.dtype for tensor in run.model().parameters()} == {torch.float32}
    assert losses["bfloat16"] != losses["float32"], "nothing was computed in bfloat16"
    assert losses["bfloat16"][-1] == pytest.approx(losses["float32"][-1], rel=0.1)
    monkeypatch.setattr(precision, "cpu_speedup", lambda: 9.0)
    plain = tmp_path / "float32"
    recipe = (plain / "recipe.toml").read_text()
    (plain / "recipe.toml").write_text(recipe.replace('precision = "float32"', 'precision = "auto"'))
    trainers = []
    monkeypatch.setattr(loop.Trainer, "run_phases", lambda trainer, report: trainers.append(trainer))
    loop.resume(plain)
    assert trainers[0].seen["precision"] == "float32", "the run began with it"
