"""Runs of one recipe under several seeds are one system; differences are paired over videos."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.training.evaluation import common_name, read_systems
from watchword.training.run import Run

VERBS = ("runs", "sleeps", "eats", "jumps", "sings")
CAPTIONS = {f"video{row}": [f"a dog {VERBS[row % 5]} in the park", f"the dog {VERBS[row % 5]}"] for row in range(40)}


def evaluated(folder: Path, name: str, right: int, *, seed: int = 1, hidden: int = 64, videos: int = 40) -> Run:
    """A run folder whose captions fit the first `right` videos."""
    run = Run(folder / name)
    run.folder.mkdir()
    captions = folder / "captions.jsonl"
    rows = [{"video": video, "split": "test", "captions": said} for video, said in CAPTIONS.items()]
    captions.write_text("".join(json.dumps(row) + "\n" for row in rows))
    recipe = f'seed = {seed}\n[data]\ncaptions = "../captions.jsonl"\nstore = "../store"\nstreams = ["appearance"]\n'
    recipe += f'[model]\nname = "soft_attention"\nhidden_size = {hidden}\n[[phases]]\nepochs = 1\n'
    (run.folder / "recipe.toml").write_text(recipe)
    said = {video: f"a dog {VERBS[row % 5]}" if row < right else "a cat" for row, video in enumerate(CAPTIONS)}
    results = [{"image_id": video, "caption": caption} for video, caption in list(said.items())[:videos]]
    (run.folder / "predictions-test.json").write_text(json.dumps(results))
    (run.folder / "scores-test.json").write_text(json.dumps({"scores": {"CIDEr": right / 40}, "beam": 5}))
    return run


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    return [
        evaluated(tmp_path, "plain_1", 10),
        evaluated(tmp_path, "plain_2", 14, seed=2),
        evaluated(tmp_path, "wide_1", 30, hidden=96),
        evaluated(tmp_path, "wide_2", 34, seed=2, hidden=96),
    ]


def test_seeds_of_one_recipe_are_averaged(runs: list[Run]) -> None:
    plain, wide = read_systems(runs, "test")
    assert (plain.name, plain.seeds, wide.name, wide.seeds) == ("plain", (1, 2), "wide", (1, 2))
    low, high = plain.of_seeds("CIDEr")
    assert low < high
    assert plain.mean("CIDEr") == pytest.approx((low + high) / 2)
    own = plain.estimate("CIDEr")
    assert own.low < own.value < own.high


def test_a_difference_is_paired_over_videos(runs: list[Run]) -> None:
    plain, wide = read_systems(runs, "test")
    found = wide.minus(plain, "CIDEr")
    assert found.value == pytest.approx(wide.mean("CIDEr") - plain.mean("CIDEr"))
    assert 0 < found.low < found.value < found.high
    apart = (wide.estimate("CIDEr").high - plain.estimate("CIDEr").low) - found.value
    assert found.high - found.value < apart, "videos that both get right or wrong do not widen the interval"
    itself = plain.minus(plain, "CIDEr")
    assert (itself.value, itself.low, itself.high) == (0, 0, 0)


def test_the_command_prints_a_row_for_each_system(runs: list[Run]) -> None:
    folders = [str(run.folder) for run in runs]
    done = CliRunner().invoke(app, ["compare", *folders, "--intervals", "--markdown"])
    assert done.exit_code == 0, done.output
    rows = {line.split("|")[1].strip(): line.split("|")[2:-1] for line in done.stdout.splitlines() if "|" in line}
    assert rows["plain"][0].strip() == "1, 2"
    assert rows["plain"][-1].strip() == ""
    assert rows["wide"][-1].strip().startswith("+")
    done = CliRunner().invoke(app, ["compare", *folders, "--intervals", "--json"])
    plain, wide = json.loads(done.stdout)
    assert wide["difference"]["CIDEr"]["value"] == pytest.approx(
        wide["scores"]["CIDEr"]["value"] - plain["scores"]["CIDEr"]["value"]
    )


def test_runs_on_other_videos_are_not_compared(runs: list[Run], tmp_path: Path) -> None:
    short = evaluated(tmp_path, "short", 3, videos=39)
    with pytest.raises(WatchwordError, match="short and plain_1 were scored on other test videos"):
        read_systems([*runs, short], "test")


def test_a_folder_without_a_recipe_stands_alone(runs: list[Run]) -> None:
    (runs[1].folder / "recipe.toml").unlink()
    assert [system.name for system in read_systems(runs, "test")] == ["plain_1", "plain_2", "wide"]


def test_the_name_of_a_system_is_what_its_runs_share() -> None:
    assert common_name(["clip_s1", "clip_2", "clip-seed3"]) == "clip"
    assert common_name(["clip_1"]) == "clip_1"
    assert common_name(["a", "b"]) == "a+b"
    assert common_name(["1", "2"]) == "1+2"
