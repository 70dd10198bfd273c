"""Benchmarks: found below one data folder, used as far as they are at hand, and every run says how far that is."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.conftest import SHARED
from tests.videos import numbered, write_video
from watchword.cli.main import app
from watchword.config import Data, Recipe, read_recipe
from watchword.data.benchmarks import (
    BENCHMARKS,
    benchmark_videos,
    captions_path,
    data_folder,
    read_clips,
    settings_of,
    store_path,
    take_inventory,
)
from watchword.errors import WatchwordError
from watchword.features.extraction import prepare
from watchword.features.store import Store, settings_key
from watchword.research.shapes.folder import write_shapes
from watchword.research.shapes.videos import ShapesConfig
from watchword.training import loop
from watchword.training.evaluation import Search, evaluate
from watchword.training.run import Run

TINY = {"name": "soft_attention", "hidden_size": 8, "embedding_size": 6, "attention_size": 4}


@pytest.fixture(autouse=True)
def own_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No config file and no data folder of the person who runs the tests."""
    monkeypatch.setattr("watchword.preferences.user_config_path", lambda name: tmp_path / "config" / name)
    monkeypatch.delenv("WATCHWORD_DATA", raising=False)
    monkeypatch.delenv("WATCHWORD_FEATURES", raising=False)
    return tmp_path / "config" / "watchword" / "config.toml"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with an MSVD of 40 drawn videos; the first of each split has no features."""
    folder = tmp_path / "data"
    monkeypatch.setenv("WATCHWORD_DATA", str(folder))
    write_shapes(folder / "msvd", ShapesConfig(count=40))
    (folder / "features").mkdir()
    (folder / "msvd" / "store").rename(folder / "features" / "msvd")
    rows = [json.loads(line) for line in (folder / "msvd" / "captions.jsonl").read_text().splitlines()]
    for split in ("train", "val", "test"):
        forget(folder, next(row["video"] for row in rows if row["split"] == split))
    return folder


def forget(root: Path, *videos: str, stream: str = "appearance") -> None:
    for video in videos:
        next((root / "features" / "msvd" / stream).rglob(f"{video}.safetensors")).unlink()


def tiny(**changes: object) -> Recipe:
    data = {"benchmark": "msvd", "min_count": 1, "streams": ("appearance",), **changes}
    return Recipe.read({"data": data, "model": TINY, "phases": [{"epochs": 1}]}, "test")


def test_the_data_folder_is_named_by_the_environment_or_else_by_the_config_file(
    own_config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WatchwordError, match=r"export WATCHWORD_DATA=FOLDER, or write .* into .*config\.toml"):
        data_folder()
    own_config.parent.mkdir(parents=True)
    (tmp_path / "here").mkdir()
    own_config.write_text(f"data = '{tmp_path / 'here'}'\n")
    assert data_folder() == tmp_path / "here"
    monkeypatch.setenv("WATCHWORD_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.setenv("WATCHWORD_DATA", str(tmp_path / "gone"))
    with pytest.raises(WatchwordError, match="gone does not exist"):
        data_folder()
    monkeypatch.delenv("WATCHWORD_DATA")
    own_config.write_text("data = ")
    with pytest.raises(WatchwordError, match=r"cannot read .*config\.toml"):
        data_folder()


def test_own_captions_and_store_go_over_those_of_the_benchmark(root: Path, tmp_path: Path) -> None:
    assert store_path(Data(benchmark="msvd")) == root / "features" / "msvd"
    assert captions_path(Data(benchmark="msvd")) == root / "msvd"
    mine = Data(benchmark="msvd", captions=tmp_path / "a", store=tmp_path / "b")
    assert (captions_path(mine), store_path(mine)) == (tmp_path / "a", tmp_path / "b")


def test_features_may_lie_outside_of_the_data_folder(
    own_config: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "features").rename(tmp_path / "elsewhere")
    own_config.parent.mkdir(parents=True)
    own_config.write_text(f"features = '{tmp_path / 'elsewhere'}'\n")
    assert store_path(Data(benchmark="msvd")) == tmp_path / "elsewhere" / "msvd"
    assert len(read_clips(tiny().data).clips) == 37
    assert re.search(r"appearance\W+[1-9]", check("msvd").stdout)
    monkeypatch.setenv("WATCHWORD_FEATURES", str(tmp_path / "third"))
    assert store_path(Data(benchmark="msvd_small")) == tmp_path / "third" / "msvd_small"


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("data.benchmark=msvdd", "did you mean 'msvd'"),
        ("data.optional_streams=['motion']", "'motion' is none of the streams appearance"),
        ("data.optional_streams=['appearance']", "at least one of the streams must be required"),
    ],
)
def test_a_slip_in_the_data_table_is_one_line(root: Path, tmp_path: Path, word: str, message: str) -> None:
    (tmp_path / "recipe.toml").write_text("[data]\nbenchmark = 'msvd'\n")
    with pytest.raises(WatchwordError, match=message):
        read_clips(read_recipe(tmp_path / "recipe.toml", [word]).data)


def test_a_recipe_without_benchmark_and_store_is_refused() -> None:
    with pytest.raises(WatchwordError, match="name a benchmark, or captions and store"):
        Recipe.read({"data": {"captions": "captions.jsonl"}}, "recipe.toml")


def test_videos_without_a_required_stream_are_left_out_and_counted(root: Path) -> None:
    clips = read_clips(Data(benchmark="msvd"))
    used = clips.used()
    assert {split: row["of"] for split, row in used.items()} == {"train": 1200, "val": 100, "test": 670}
    assert sum(row["videos"] for row in used.values()) == len(clips.clips) == 37
    assert str(clips) == ", ".join(f"{split} {used[split]['videos']} of {used[split]['of']:,}" for split in used)
    one = clips.split("test")[0].video
    forget(root, one, stream="motion")
    both = read_clips(Data(benchmark="msvd", streams=("appearance", "motion"))).used()
    assert both["test"]["videos"] == used["test"]["videos"] - 1
    assert (both["train"], both["test"]["sha256"] == used["test"]["sha256"]) == (used["train"], False)
    optional = Data(benchmark="msvd", streams=("appearance", "motion"), optional_streams=("motion",))
    assert read_clips(optional).used() == used
    assert len(read_clips(Data(benchmark="msvd", text_only=True)).clips) == 40


def test_own_data_that_lacks_features_is_still_refused(root: Path) -> None:
    own = tiny(benchmark=None, captions=root / "msvd", store=root / "features" / "msvd")
    with pytest.raises(WatchwordError, match=r"lacks appearance of 1 of \d+ videos"):
        loop.train(own, root / "run")


def test_without_any_features_the_command_that_makes_them_is_named(root: Path) -> None:
    data = Data(benchmark="msvd", streams=("motion_layers.1", "motion_layers.2@ab", "appearance"))
    with pytest.raises(WatchwordError, match="features extract --benchmark msvd --streams motion_layers,appearance"):
        read_clips(data)


def test_a_run_and_its_scores_say_what_data_they_stand_on(root: Path, tmp_path: Path) -> None:
    first = loop.train(tiny(), tmp_path / "first")
    used = first.training_data["used"]
    assert used == read_clips(Data(benchmark="msvd")).used()
    assert "captions =" not in (first.folder / "recipe.toml").read_text(), "a path of this machine"
    done = CliRunner().invoke(app, ["evaluate", str(first.folder), "--split", "test", "--beam", "1"])
    line = f"test {used['test']['videos']} of 670 videos, data {used['test']['sha256']}"
    assert done.exit_code == 0
    assert line in done.output
    kept = Run(first.folder).scores("test")["data"]
    assert kept == used["test"] | {"trained_on": used["train"]["sha256"]}

    forget(root, read_clips(Data(benchmark="msvd")).split("train")[0].video)
    second = loop.train(tiny(), tmp_path / "second")
    CliRunner().invoke(app, ["evaluate", str(second.folder), "--split", "test", "--beam", "1"])
    both = ["compare", str(first.folder), str(second.folder)]
    done = CliRunner().invoke(app, both)
    assert "warning: trained on different data" in done.output
    assert done.output.count(line) == 1
    forget(root, read_clips(Data(benchmark="msvd")).split("test")[0].video)
    evaluated = evaluate([second], "test", Search(beam=1), ("CIDEr",))
    (second.folder / "scores-test.json").write_text(evaluated.scores_json())
    done = CliRunner().invoke(app, both)
    assert "scored on different data" in done.output
    assert f"first: {line}" in done.output


def test_a_run_is_not_resumed_with_other_training_videos(root: Path, tmp_path: Path) -> None:
    run = loop.train(tiny(), tmp_path / "run")
    clips = read_clips(Data(benchmark="msvd"))
    forget(root, clips.split("test")[0].video)
    loop.resume(run.folder)  # test videos were not learned from
    forget(root, clips.split("train")[0].video)
    with pytest.raises(WatchwordError, match="has changed since it was begun"):
        loop.resume(run.folder)


def test_optional_streams_of_an_ensemble_are_those_that_no_run_requires(
    root: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = read_clips(Data(benchmark="msvd")).split("val")[0].video
    forget(root, one, stream="motion")
    both = {"streams": ("appearance", "motion")}
    caplog.set_level("INFO", "watchword")
    lenient = loop.train(tiny(**both, optional_streams=("motion",)), tmp_path / "lenient")
    number = len(read_clips(Data(benchmark="msvd")).split("train"))
    assert f"train videos have: motion of {number}" in caplog.text
    words = {"vocabulary": lenient.folder / "vocabulary.txt"}
    strict = loop.train(tiny(**both).model_copy(update=words), tmp_path / "strict")
    said = [len(evaluate(runs, "val", Search(beam=1), ("CIDEr",)).captions) for runs in ([lenient], [lenient, strict])]
    assert said[0] == said[1] + 1


# --- videos --------------------------------------------------------------------------------------------------------


def video_set(folder: Path, names: list[str]) -> None:
    rows = [{"video": Path(name).stem, "split": "train", "captions": ["a dot"], "path": name} for name in names]
    folder.mkdir(parents=True)
    (folder / "pictures.jsonl.gz").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        write_video(folder / name, [numbered(index) for index in range(4)])


def test_motion_and_sound_are_not_extracted_from_still_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHWORD_DATA", str(tmp_path))
    video_set(tmp_path / "msrvtt", ["clips/video1.mp4", "frames/video2.mp4"])
    words = ["features", "extract", "--benchmark", "msrvtt", "--streams", "flow,flow_grid", "--workers", "1"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert Store(tmp_path / "features" / "msrvtt").videos("flow") == ["video1"]
    assert "2 of 2 clips" in done.output
    assert "1 videos extracted" in done.output
    again = CliRunner().invoke(app, words)
    assert "0 videos extracted, 2 were there before" in again.output


def test_msvd_as_people_have_it_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_DATA", str(tmp_path))
    (tmp_path / "msvd" / "YouTubeClips").mkdir(parents=True)
    (tmp_path / "msvd" / "AllVideoDescriptions.txt").write_text("-4wsuPCjDBc_5_15 a squirrel eats\nabc_1_2 a dog\n")
    (tmp_path / "msvd" / "train_list.txt").write_text("-4wsuPCjDBc_5_15\nabc_1_2\n")
    video = tmp_path / "msvd" / "YouTubeClips" / "-4wsuPCjDBc_5_15.avi"
    with pytest.raises(WatchwordError, match="captions of 2 videos, but it has no videos: put them into clips/"):
        benchmark_videos("msvd")
    video.with_name("other.avi").touch()
    with pytest.raises(WatchwordError, match="none of its 1 videos is named like -4wsuPCjDBc_5_15"):
        benchmark_videos("msvd")
    video.touch()
    clips, total = benchmark_videos("msvd")
    assert ([clip.path for clip in clips], total) == ([video], 2)


@pytest.mark.parametrize("there", [False, True])
def test_a_data_folder_without_captions_is_one_line(
    there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHWORD_DATA", str(tmp_path))
    if there:
        (tmp_path / "msvd" / "clips").mkdir(parents=True)
    with pytest.raises(WatchwordError, match=r"no captions .*msvd: expected captions\.jsonl"):
        read_clips(Data(benchmark="msvd"))


def test_videos_and_a_benchmark_are_not_named_together() -> None:
    done = CliRunner().invoke(app, ["features", "extract", "video.mp4", "--benchmark", "msvd"])
    assert "name videos or a --benchmark, not both" in str(done.exception)


@pytest.mark.skipif(not (SHARED / "msrvtt" / "pictures.jsonl.gz").exists(), reason="the shared data is not here")
def test_the_benchmarks_at_hand_have_the_counts_that_the_documents_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_DATA", str(SHARED))
    counts = {"msvd": (1180, 99, 622), "msrvtt": (3444, 244, 1135)}
    for name, expected in counts.items():
        clips, _ = benchmark_videos(name)
        assert tuple(sum(clip.split == split for clip in clips) for split in ("train", "val", "test")) == expected
        stills = sum(BENCHMARKS[name].is_still(clip) for clip in clips)
        assert stills == {"msvd": 0, "msrvtt": sum(expected) - 719}[name]


def test_the_keys_of_the_benchmarks_features_stay(tmp_path: Path) -> None:
    """Hours of extraction hang on them."""
    names = BENCHMARKS["msrvtt"].streams
    job = prepare(tmp_path, names, settings_of("msrvtt", names))
    assert {name: settings_key(job.settings(name)) for name in names} == {
        "appearance": "7a6c2f1b",
        "appearance_token": "7a6c2f1b",
        "appearance_grid": "af678df5",
        "appearance_layers": "eb6b42b1",
        "regions": "33c32bf8",
        "motion": "4fb518ed",
        "motion_grid": "4fb518ed",
        "audio": "1d9e1fb7",
    }
    assert BENCHMARKS["msvd"].settings == BENCHMARKS["msrvtt"].settings
    small = (*BENCHMARKS["msvd_small"].streams, "regions", "motion", "motion_grid")
    job = prepare(tmp_path, small, settings_of("msvd_small", small))
    assert {name: settings_key(job.settings(name)) for name in small} == {
        "appearance": "86041fbe",
        "appearance_grid": "87652da7",
        "appearance_layers": "87652da7",
        "regions": "8c5ed0c3",
        "motion": "02bbdfd8",
        "motion_grid": "02bbdfd8",
    }


def check(*words: object) -> Any:
    return CliRunner().invoke(app, ["data", "check", *map(str, words)])


def test_a_benchmark_is_counted_and_what_is_missing_is_told(root: Path) -> None:
    done = check("msvd")
    assert done.exit_code == 1
    assert re.search(r"official\W+1,200\W+100\W+670", done.stdout)
    rows = [json.loads(line) for line in (root / "msvd" / "captions.jsonl").read_text().splitlines()]
    splits = Counter(row["split"] for row in rows)
    assert re.search(rf"captions\W+{splits['train']}\W+{splits['val']}\W+{splits['test']}", done.stdout)
    less = (splits[split] - 1 for split in ("train", "val", "test"))  # the first of each split has no features
    assert re.search(r"appearance\W+{}\W+{}\W+{}".format(*less), done.stdout)
    assert f"missing: captions of {1200 - splits['train']:,} train videos" in done.stdout
    assert f"missing: 40 videos, such as clips/{rows[0]['video']}.mp4" in done.stdout
    assert "features extract" not in done.stdout


def test_a_folder_elsewhere_is_counted_without_the_data_folder(tmp_path: Path) -> None:
    write_shapes(tmp_path / "mine", ShapesConfig(count=10))
    (tmp_path / "mine" / "clips").mkdir()
    rows = [json.loads(line) for line in (tmp_path / "mine" / "captions.jsonl").read_text().splitlines()]
    (tmp_path / "mine" / "clips" / f"{rows[0]['video']}.avi").touch()
    done = check("msvd", tmp_path / "mine")
    assert "missing: 9 videos" in done.stdout
    assert "missing: features: watchword features extract --benchmark msvd" in done.stdout
    (tmp_path / "mine" / "captions.jsonl").unlink()
    (tmp_path / "mine" / "captions.csv").unlink(missing_ok=True)
    done = check("msvd", tmp_path / "mine")
    assert done.exit_code == 1
    assert "MSVD: 1 video below" in done.stdout
    assert re.search(r"missing: captions \(no captions in .*\); to be had from https://www.cs.utexas.edu", done.stdout)
    assert "there is no folder" in str(check("msvd", tmp_path / "nowhere").exception)
    assert "did you mean 'msvd'" in str(check("msdv").exception)


def test_the_real_msvd_is_counted() -> None:
    folder = SHARED / "msvd"
    if not folder.is_dir():
        pytest.skip(f"no real data in {folder}")
    found = take_inventory("msvd", folder)
    assert found.captioned == found.sizes
    assert (found.num_captions, sum(found.with_video.values())) == (80837, 1901)  # two of the 80,839 captions are blank
