"""Which captioner is used: shown, chosen, kept, and told with every output."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.captioners import write_captioner
from tests.videos import numbered, write_video
from watchword.captioning.bundle import choose_bundle
from watchword.cli._shared import LazyCaptioner
from watchword.cli.main import app
from watchword.preferences import config_file

RUN = CliRunner()


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watchword.preferences.user_config_path", lambda name: tmp_path / "config" / name)
    monkeypatch.delenv("WATCHWORD_MODEL", raising=False)
    monkeypatch.setenv("WATCHWORD_OFFLINE", "1")


def watchword(*words: object) -> Any:
    return RUN.invoke(app, list(map(str, words)))


def test_a_choice_is_kept_shown_and_ended() -> None:
    assert watchword("captioner", "light").exit_code == 0
    assert config_file().read_text() == 'model = "light"\n'
    assert choose_bundle()[0].name == "light"
    (line,) = [line for line in watchword("captioner").stdout.splitlines() if line.startswith("*")]
    assert line.split()[1] == "light"
    assert f"chosen in {config_file()}" in line
    config_file().write_text('# mine\ndata = "here"\nmodel = "light"\n')
    assert "no choice is kept" in watchword("captioner", "default").stderr
    assert config_file().read_text() == '# mine\ndata = "here"\n'


def test_a_run_of_ones_own_is_kept_by_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_captioner(tmp_path / "runs" / "mine")
    monkeypatch.chdir(tmp_path)
    assert watchword("captioner", "runs/mine").exit_code == 0
    assert choose_bundle()[0].folder == tmp_path / "runs" / "mine"
    assert str(tmp_path / "runs" / "mine") in watchword("captioner").stdout


def test_a_job_notes_whose_captions_it_has() -> None:
    assert LazyCaptioner(None).choice == "default"
    watchword("captioner", "light")
    assert (LazyCaptioner(None).choice, LazyCaptioner("runs/mine").choice) == ("light", "runs/mine")


def test_a_captioner_that_is_not_there_is_not_kept() -> None:
    assert "unknown captioner 'heavy'" in str(watchword("captioner", "heavy").exception)
    assert not config_file().exists()


def test_a_variable_that_comes_first_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHWORD_MODEL", "light")
    assert "WATCHWORD_MODEL is set and comes first" in watchword("captioner", "light").stderr


def test_the_output_says_which_captioner_was_used(tmp_path: Path) -> None:
    captioner = write_captioner(tmp_path / "mine")
    clip = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(6)])
    watchword("captioner", captioner)
    assert "captions by mine; watchword captioner shows others" in watchword("describe", clip).stderr
    assert "captions by" not in watchword("describe", clip, "--model", captioner).stderr
    explained = watchword("explain", clip, "--output", tmp_path / "clip.json")
    assert "captions by mine" in explained.stderr
    added = watchword("library", "add", clip, "--library", tmp_path / "library.db")
    assert "captions by mine" in added.stderr


def test_a_server_downloads_what_is_missing_before_its_limited_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from watchword.cli import serve

    started: list[str] = []
    monkeypatch.setattr(serve.subprocess, "run", lambda words, check: started.append(words[-1]))
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    monkeypatch.setenv("WATCHWORD_MODEL", "light")
    serve.fetch_default()
    monkeypatch.delenv("WATCHWORD_MODEL")
    monkeypatch.setenv("WATCHWORD_OFFLINE", "1")
    serve.fetch_default()
    assert started == []
    monkeypatch.delenv("WATCHWORD_OFFLINE")
    serve.fetch_default()
    assert started == ["from watchword.cli.serve import _fetch; _fetch()"]
    (tmp_path / "downloads" / "clip_vit_b16").mkdir(parents=True)
    serve.fetch_default()
    assert len(started) == 1
