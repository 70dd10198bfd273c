"""Many videos on the command line: a line as each is done, shards, workers, going on where a job stopped."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.captioners import write_captioner
from tests.test_features import actor_processes
from tests.videos import numbered, write_video
from watchword.captioning import many
from watchword.cli._shared import shard_of
from watchword.cli.library import ParallelAdding
from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.library import Library
from watchword.workers import PATIENCE, Lost

RUN = CliRunner()
ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioner") / "tiny")


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three videos in two folders, one of them no video."""
    folder = tmp_path_factory.mktemp("videos")
    for number, name in enumerate(("day1/IMG_1.mp4", "day2/IMG_1.mp4")):
        (folder / name).parent.mkdir()
        write_video(folder / name, [numbered(5 * number + index) for index in range(6)])
    (folder / "day2" / "IMG_2.mp4").write_bytes(b"no video")
    return folder


def describe(*words: object) -> Any:
    return RUN.invoke(app, ["describe", *map(str, words)])


def rows_of(text: str) -> dict[str, dict[str, Any]]:
    rows = [json.loads(line) for line in text.splitlines()]
    return {Path(row["video"]).relative_to(Path(row["video"]).parents[1]).as_posix(): row for row in rows}


def in_this_process(
    make: Callable[[], Callable[[Any], Any]], items: Iterable[Any], workers: int | None
) -> Iterator[Any]:
    work = make()
    for item in items:
        yield Lost(item, "signal 9") if item.name == "deadly.mp4" else work(item)


def test_json_lines_have_a_line_for_each_video(captioner: Path, videos: Path) -> None:
    done = describe(videos, "--model", captioner, "--format", "jsonl")
    assert done.exit_code == 1
    rows = rows_of(done.stdout)
    assert list(rows) == ["day1/IMG_1.mp4", "day2/IMG_1.mp4", "day2/IMG_2.mp4"]
    assert "finds no video in it" in rows["day2/IMG_2.mp4"]["error"]
    assert (rows["day1/IMG_1.mp4"]["captioner"], rows["day1/IMG_1.mp4"]["schema"]) == ("tiny", 2)
    whole = json.loads(describe(videos, "--model", captioner, "--format", "json").stdout)["videos"]
    assert {key: value for key, value in rows["day1/IMG_1.mp4"].items() if key in whole[0]} == whole[0]


def test_json_lines_go_on_where_a_job_was_killed(captioner: Path, videos: Path, tmp_path: Path) -> None:
    output = tmp_path / "below" / "lines.jsonl"
    words = (videos, "--model", captioner, "--output", output)
    assert describe(*words).exit_code == 1
    first, *others = output.read_text().splitlines(keepends=True)
    output.write_text(first + others[0][:40])  # killed within the second line
    before = rows_of(first)
    assert describe(*words, "--resume").exit_code == 1
    assert output.read_text().startswith(first)
    after = rows_of(output.read_text())
    assert list(after) == ["day1/IMG_1.mp4", "day2/IMG_1.mp4", "day2/IMG_2.mp4"]
    assert before.items() <= after.items()
    complete = output.read_text()
    assert describe(*words, "--resume").exit_code == 0  # nothing is left
    assert output.read_text() == complete
    output.write_text("a list of mine\n")
    assert "is no description" in str(describe(*words, "--resume").exception)


def test_shards_are_all_videos_once() -> None:
    items = list(range(10))
    parts = [shard_of(items, f"{part}/3") for part in (1, 2, 3)]
    assert sorted(item for part in parts for item in part) == items
    assert shard_of(items, None) == items
    for wrong in ("0/3", "4/3", "3", "a/b", "1/0"):
        with pytest.raises(WatchwordError, match="expected K/N"):
            shard_of(items, wrong)


def test_a_shard_of_few_videos_may_be_empty(
    captioner: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watchword.lanes.check_lanes", lambda options: None)
    words = ["--sounds", "--format", "srt", "--output", tmp_path / "out"]
    done = describe(videos, "--model", captioner, "--shard", "4/4", *words)
    assert done.exit_code == 0, done.output


def test_a_shard_keeps_the_names_of_all_videos(captioner: Path, videos: Path, tmp_path: Path) -> None:
    done = describe(videos, "--model", captioner, "--shard", "2/3", "--output", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert [path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*.txt")] == ["out/day2/IMG_1.txt"]


def test_workers_write_what_one_process_writes(captioner: Path, videos: Path, tmp_path: Path) -> None:
    words = (videos, "--model", captioner)
    assert describe(*words, "--output", tmp_path / "one").exit_code == 1
    done = describe(*words, "--output", tmp_path / "two", "--workers", "2")
    assert done.exit_code == 1
    assert "finds no video in it" in done.stderr
    one, two = ({path.relative_to(tmp_path / name): path.read_text() for path in (tmp_path / name).rglob("*.txt")}
                for name in ("one", "two"))  # fmt: skip
    assert one == two
    assert len(one) == 2


def test_a_job_of_workers_goes_on_from_its_journal(
    captioner: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "run_local", in_this_process)
    output, part = tmp_path / "all.json", tmp_path / "all.json.part"
    words = (videos / "day1", videos / "day2" / "IMG_1.mp4", "--model", captioner, "--output", output)
    assert describe(*words).exit_code == 0
    wanted = json.loads(output.read_text())
    kept: list[str] = []
    monkeypatch.setattr("watchword.captioning.journal.Journal.close", lambda self: kept.append(part.read_text()))
    assert describe(*words, "--workers", "2").exit_code == 0
    assert json.loads(output.read_text()) == wanted
    first = [line for line in kept[0].splitlines() if "day2" not in line]
    part.write_text("".join(f"{line}\n" for line in first))
    asked: list[Path] = []

    def counted(make: Any, items: Any, workers: Any) -> Iterator[Any]:
        asked.extend(items)
        return in_this_process(make, items, workers)

    monkeypatch.setattr(many, "run_local", counted)
    assert describe(*words, "--workers", "2", "--resume").exit_code == 0
    assert [path.parent.name for path in asked] == ["day2"]
    assert json.loads(output.read_text()) == wanted


def test_a_ray_cluster_gets_whole_paths_and_the_output_those_that_were_given(
    captioner: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[Path] = []

    def cluster(make: Any, items: Any, workers: Any) -> Iterator[Any]:
        assert workers is None  # as many as the cluster has
        given.extend(items)
        return in_this_process(make, items, workers)

    monkeypatch.setattr(many, "run_ray", cluster)
    monkeypatch.chdir(videos)
    (videos / "day1" / "deadly.mp4").write_bytes((videos / "day1" / "IMG_1.mp4").read_bytes())
    try:
        done = describe("day1", "--model", captioner, "--engine", "ray", "--format", "jsonl")
    finally:
        (videos / "day1" / "deadly.mp4").unlink()
    assert all(path.is_absolute() for path in given)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["video"] for row in rows] == ["day1/IMG_1.mp4", "day1/deadly.mp4"]
    assert rows[1]["error"] == "cannot describe day1/deadly.mp4: its worker died, 2 times (signal 9)"


# --- a library, described by workers and written by one process ------------------------------------------------------


def add(library: Path, captioner: Path, *words: object) -> Any:
    return RUN.invoke(app, ["library", "add", *map(str, words), "--model", str(captioner), "--library", str(library)])


def test_workers_describe_for_a_library_that_one_process_writes(
    captioner: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(videos, folder)
    for name, seed in (("deadly.mp4", 20), ("more.mp4", 30)):
        write_video(folder / name, [numbered(seed + index) for index in range(6)])
    shutil.copy(folder / "more.mp4", folder / "second.mp4")
    asked: list[str] = []

    def cluster(make: Any, items: Any, workers: Any) -> Iterator[Any]:
        assert workers is None  # as many as the cluster has
        work = make()
        for task in items:
            asked.append(task.video.name)
            yield Lost(task, "signal 9") if task.video.name == "deadly.mp4" else work(task)

    monkeypatch.setattr(many, "run_ray", cluster)
    path = tmp_path / "library.db"
    done = add(path, captioner, folder, "--engine", "ray")
    assert done.exit_code == 1
    assert "3 videos added, 1 known already, 2 could not be described" in done.stderr
    assert "its worker died, 2 times (signal 9)" in done.stderr
    assert "finds no video in it" in done.stderr
    library = Library(path)
    assert sorted(row.name for row in library.videos()) == ["day1/IMG_1.mp4", "day2/IMG_1.mp4", "more.mp4"]
    one = Library(tmp_path / "one.db")
    assert add(one.path, captioner, folder / "more.mp4").exit_code == 0
    number = next(row.id for row in library.videos() if row.name == "more.mp4")
    assert library.description(number).segments == one.description(1).segments
    assert library.explanation(number) == one.explanation(1)
    asked.clear()
    assert add(path, captioner, folder, "--engine", "ray").exit_code == 1  # the same command continues
    assert asked == ["IMG_2.mp4", "deadly.mp4"]


def test_a_job_that_is_stopped_says_what_failed_and_whose_content_is_gone(
    captioner: Path, videos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(videos / "day2", folder)
    shutil.copy(folder / "IMG_1.mp4", folder / "copy.mp4")
    stop = [False]

    def cluster(make: Any, items: Any, workers: Any) -> Iterator[Any]:
        for task in list(items):
            yield Lost(task, "signal 9")
        (folder / "copy.mp4").unlink()
        if stop[0]:
            raise KeyboardInterrupt

    monkeypatch.setattr(many, "run_ray", cluster)
    done = add(tmp_path / "one.db", captioner, folder, "--engine", "ray")
    assert "0 videos added, 3 could not be described" in done.stderr
    shutil.copy(folder / "IMG_1.mp4", folder / "copy.mp4")
    stop[0] = True
    done = add(tmp_path / "other.db", captioner, folder, "--engine", "ray")
    assert done.stderr.count("signal 9") == 2
    assert "stopped: 0 videos added, 2 could not be described; the same command continues" in done.stderr


def test_a_video_that_another_process_has_is_left_to_it(captioner: Path, videos: Path, tmp_path: Path) -> None:
    path, video = tmp_path / "library.db", videos / "day1" / "IMG_1.mp4"
    script = (
        "import sys; from pathlib import Path; from watchword.library.database import *\n"
        "locks = VideoLocks(Path(sys.argv[1])); other = locks.take('other'); locks.release('other')\n"
        "print(locks.take(identity_of(Path(sys.argv[2]))), locks.take('x'), locks.take('x'), flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, path, video], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "True True False\n"
        done = add(path, captioner, video, "--workers", "2")
        assert "0 videos added, 1 in progress in another process" in done.stderr
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_real_cluster_fills_a_library_also_when_a_worker_is_killed(
    captioner: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    for name, value in PATIENCE.items():
        monkeypatch.setenv(name, value)
    folder, path = tmp_path / "archive", tmp_path / "library.db"
    folder.mkdir()
    for number in range(5):
        write_video(folder / f"video{number}.mp4", [numbered(5 * number + index) for index in range(6)])
    (folder / "broken.mp4").write_bytes(b"no video")
    keep, killed = ParallelAdding.keep, list[int]()

    def kill_one(self: ParallelAdding, *values: Any) -> None:
        if not killed:
            killed.append(actor_processes()[0])
            os.kill(killed[0], signal.SIGKILL)
        keep(self, *values)

    monkeypatch.setattr(ParallelAdding, "keep", kill_one)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        done = add(path, captioner, folder, "--engine", "ray", "--workers", "2")
        assert "5 videos added, 1 could not be described" in done.stderr, done.output
        again = add(path, captioner, folder, "--engine", "ray", "--workers", "2")
    finally:
        ray.shutdown()
    assert killed
    assert "0 videos added, 5 known already, 1 could not be described" in again.stderr
    assert sorted(row.name for row in Library(path).videos()) == [f"video{number}.mp4" for number in range(5)]
