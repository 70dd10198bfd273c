"""Every command of the README and the docs is run, in the order in which a reader meets it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.conftest import graph_or_skip
from tests.preloaded import Preloaded
from tests.videos import numbered, write_video

ROOT = Path(__file__).parents[1]
DOCUMENTS = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^( *)```(sh|python)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def blocks(document: str) -> list[tuple[str, str]]:
    """(language, text) of the fenced blocks that say they can be run."""
    found = []
    for indent, language, text in BLOCK.findall((ROOT / document).read_text("utf-8")):
        found.append((language, "\n".join(line.removeprefix(indent) for line in text.splitlines())))
    return found


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """A reader's folder: the files that the documents speak of, small."""
    folder = tmp_path / "desk"
    (folder / "holiday").mkdir(parents=True)
    rows = [f"video{number},a dog runs along the beach" for number in range(12)]
    (folder / "holiday" / "captions.csv").write_text("\n".join(["video,caption", *rows]))
    random = np.random.default_rng(0)
    videos = {f"video{number}": random.random((5, 8), np.float32) for number in range(3)}
    np.savez(folder / "vgg16.npz", **videos)
    (folder / "c3d").mkdir()
    for name, values in videos.items():
        np.save(folder / "c3d" / f"{name}.npy", values)
    with h5py.File(folder / "MSVD_APPEARANCE_28.hdf5", "w") as file:
        for number in (1, 2):
            file[f"vid{number}"] = random.random((28, 8), np.float32)
    (folder / "youtube_mapping.txt").write_text("-4wsuPCjDBc_5_15 vid1\n-7KMZQEsJW4_205_208 vid2\n")
    with h5py.File(folder / "resnet_grids.h5", "w") as file:
        file["video0"] = random.random((4, 8, 7, 7), np.float32)
    write_video(folder / "clip.mp4", [numbered(index) for index in range(25)])
    (folder / "videos").mkdir()
    shutil.copy(folder / "clip.mp4", folder / "videos" / "beach.mp4")
    return folder


@pytest.fixture(scope="module")
def preloaded() -> Iterator[Preloaded]:
    with Preloaded(environment(ROOT)) as process:
        yield process


def run(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return python(arguments_of(line), folder)


def arguments_of(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    assert words[0] == "watchword", f"a document may only run watchword, not {words[0]}"
    return ["-m", *words]


def python(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, *arguments]
    return subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)


def environment(folder: Path) -> dict[str, str]:
    own = {"PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "WATCHWORD_LIBRARY": str(folder / "library.db")}
    return {**os.environ, **own}


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_the_commands_of_a_document_work_as_they_stand(document: str, desk: Path, preloaded: Preloaded) -> None:
    for language, text in blocks(document):
        commands = (
            [["-c", text]] if language == "python" else [arguments_of(line) for line in text.splitlines() if line]
        )
        for arguments in commands:
            done = preloaded.run(arguments, desk, environment(desk))
            assert done.returncode == 0, f"{arguments}\n{done.stderr}"


@pytest.mark.slow
def test_the_first_command_of_the_readme_says_what_stands_below_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fetches the captioner's backbone and the video: where that cannot be done there is nothing to see."""
    graph_or_skip("clip_vit_b16")
    monkeypatch.delenv("WATCHWORD_MODEL")
    text = (ROOT / "README.md").read_text()
    assert "pip install . && watchword describe --example\n" in text
    done = python(["-m", "watchword", "describe", "--example", "--top", "3"], tmp_path)
    if "are you online?" in done.stderr:
        pytest.skip("the example video cannot be fetched here")
    assert done.returncode == 0, done.stderr
    told = dict(re.findall(r"^(?:or: )?(.+) \((0\.\d\d)\)$", done.stdout, re.MULTILINE))
    shown = re.search(r"```\n(.+) \((0\.\d\d)\)\n```", text)
    assert len(told) == 3, done.stdout
    assert shown, "the README shows no caption"
    # Which of nearly equal ones comes first, and the last digit, is the machine's: another CPU adds up the same
    # products in another order, and one vote goes another way.
    assert shown[1] in told
    assert float(told[shown[1]]) == pytest.approx(float(shown[2]), abs=0.06)


@pytest.mark.slow
def test_the_demo_speaks_of_videos_it_has_not_seen(tmp_path: Path) -> None:
    done = run("watchword research demo --count 60 --epochs 4", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Test videos" in done.stdout
    assert (tmp_path / "watchword-demo" / "run" / "model.safetensors").exists()


def test_the_readme_and_ci_run_the_same_test_command() -> None:
    assert "pip install '.[test]' && pytest" in (ROOT / "README.md").read_text()
    script = (ROOT / ".ci" / "run").read_text()
    assert "pip install -q '.[test]'" in script
    assert script.rstrip().endswith("pytest")


@pytest.mark.parametrize("verb", ["", "train", "score", "features", "search", "library add"])
def test_help_is_there_without_waiting_for_torch(verb: str, tmp_path: Path) -> None:
    code = (
        "import sys; from watchword.cli.main import app\n"
        f"try: app({[*verb.split(), '--help']!r})\nexcept SystemExit: pass\n"
        "slow = {'torch', 'numpy', 'watchword.text.ptb'} & set(sys.modules)\n"
        "assert not slow, slow"
    )
    done = python(["-c", code], tmp_path)
    assert done.returncode == 0, done.stderr


def test_a_mistake_is_one_line_and_status_one(tmp_path: Path) -> None:
    for words, message in (
        ("watchword train missing.toml", "no recipe missing.toml"),
        ("watchword train", "name a recipe"),
        ("watchword evaluate nowhere", "nowhere"),
        ("watchword compare nowhere", "nowhere"),
        ("watchword train --resume nowhere", "nowhere"),
    ):
        done = run(words, tmp_path)
        assert done.returncode == 1, words
        assert message in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert done.stderr.startswith("watchword: ")
