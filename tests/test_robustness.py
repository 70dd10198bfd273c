"""Faults that a user can cause: wrong outputs, odd and damaged videos, bad data, full disks."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.captioners import write_captioner
from tests.videos import numbered, write_video
from watchword.cli.main import app
from watchword.errors import WatchwordError

RUN = CliRunner()


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioners") / "tiny")


@pytest.fixture
def clip(tmp_path: Path) -> Path:
    return write_video(tmp_path / "own.mp4", [numbered(index) for index in range(5)])


# --- outputs -------------------------------------------------------------------------------------------------------

WRITERS = {
    "describe": "describe own.mp4 --format text --output own.mp4",
    "describe by another name": "describe own.mp4 --format text --output folder/../own.mp4",
    "describe a folder": "describe . --format json --output own.mp4",
    "describe a list": "describe --list list.txt --output list.txt",
    "describe's journal": "describe own.txt.part --output own.txt",
    "explain": "explain own.mp4 --output own.mp4",
    "explain into the folder": "explain own.mp4 --output . --format mp4",
    "score": "score refs.json hyps.json --per-video hyps.json",
    "train": "train --videos . --captions captions.jsonl --output . --start none",
    "study": "research study make refs.json hyps.json --show none --output hyps.json",
    "study's key": "research study make refs.json hyps.key.json --show none --output hyps.html",
}


@pytest.mark.parametrize("command", WRITERS.values(), ids=WRITERS)
def test_no_command_writes_over_its_input(
    command: str, captioner: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = clip.parent
    monkeypatch.chdir(folder)
    (folder / "folder").mkdir()
    (folder / "own.txt.part").write_bytes(clip.read_bytes())
    (folder / "list.txt").write_text("own.mp4\n")
    for name in ("hyps.json", "hyps.key.json", "refs.json"):
        (folder / name).write_text(json.dumps({"own": ["a man"] if name == "refs.json" else "a man"}))
    (folder / "captions.jsonl").write_text('{"video": "own", "split": "train", "captions": ["a man"]}\n')
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    model = ["--model", str(captioner)] if command.split()[0] in ("describe", "explain") else []
    done = RUN.invoke(app, [*command.split(), *model])
    assert isinstance(done.exception, WatchwordError)
    assert "is an input of this command" in str(done.exception)
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_an_unknown_suffix_of_the_output_is_refused(clip: Path) -> None:
    done = RUN.invoke(app, ["describe", str(clip), "--output", str(clip.with_name("other.mp4"))])
    assert "unknown suffix of --output '.mp4' (there is: .csv, .json, .srt, .txt, .vtt)" in str(done.exception)
    assert not clip.with_name("other.mp4").exists()
