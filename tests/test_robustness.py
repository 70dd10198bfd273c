"""Faults that a user can cause: wrong outputs, odd and damaged videos, bad data, full disks."""

import contextlib
import errno
import json
import os
import random
import signal
import subprocess
import wave
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from PIL import Image
from typer.testing import CliRunner

from benchmarks import faults
from tests.captioners import write_captioner
from tests.libraries import add, found
from tests.videos import numbered, write_video
from watchword.atomic_io import DiskFull, path_of, whole_file
from watchword.captioning.captioner import Captioner
from watchword.captioning.pipeline import DescribeOptions, caption_video
from watchword.cli.main import app
from watchword.errors import WatchwordError
from watchword.features.store import Store
from watchword.library import Library
from watchword.research.charts import new_figure, save_figure, save_picture
from watchword.types import StreamArrays
from watchword.video import At, probe, read_audio, read_frames
from watchword.video.formats import find_paths
from watchword.video.transforms import CentreCrop, Size, Squash

RUN = CliRunner()


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioners") / "tiny")


@pytest.fixture(autouse=True)
def without_transnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cuts by histogram, whatever weights this machine has."""
    monkeypatch.setattr("watchword.captioning.segmentation.is_present", lambda name: False)


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
    "train": "train --videos . --captions captions.jsonl --output . --init-from none",
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
    assert "unknown suffix of --output '.mp4' (there is: .csv, .json, .jsonl, .srt, .txt, .vtt)" in str(done.exception)
    assert not clip.with_name("other.mp4").exists()


@pytest.mark.parametrize("words", [["describe", "--format", "json"], ["explain", "--format", "html"]])
def test_text_does_not_get_the_name_of_a_video(words: list[str], captioner: Path, clip: Path) -> None:
    other = clip.with_name("other.mkv")
    other.write_bytes(b"precious")
    done = RUN.invoke(app, [*words, str(clip), "--output", str(other), "--model", str(captioner)])
    assert "unknown suffix of --output" in str(done.exception)
    assert other.read_bytes() == b"precious"


def killed_while_writing(path: Path) -> None:
    with whole_file(path) as file:
        file.write(b"half")
        file.flush()
        path_of(file).read_bytes()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_kill_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(b"before")
    assert faults.in_child(lambda: killed_while_writing(path)) == "died by signal 9"
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with whole_file(path) as file:
        path_of(file).write_bytes(b"after")  # as what writes by path alone
    assert path.read_bytes() == b"after"


# --- odd and damaged videos ----------------------------------------------------------------------------------------


def describe(*words: str | Path) -> Result:
    return RUN.invoke(app, ["describe", *map(str, words)])


def test_a_frame_that_is_shown_for_days_is_one_segment_of_one_frame(captioner: Path, tmp_path: Path) -> None:
    days = write_video(tmp_path / "days.mkv", [numbered(1), numbered(200)], [0, 900_000_000])
    done = describe(days, "--model", captioner, "--format", "json")
    (segment,) = json.loads(done.stdout)["videos"][0]["segments"]
    assert segment["start"] == 0
    assert segment["end"] == pytest.approx(900_000, abs=1)


def test_slides_become_a_segment_each(captioner: Path, tmp_path: Path) -> None:
    """Each slide is shown for ten minutes but for a short animation, which belongs to the slide after it."""
    times = [600_000 * slide + 200 * step for slide in range(3) for step in range(5)]
    slides = write_video(tmp_path / "slides.mkv", [numbered(80 * (time // 600_000)) for time in times], times)
    segments = list(caption_video(Captioner.load(captioner), slides, DescribeOptions()))
    assert [segment.start for segment in segments] == pytest.approx([0, 600], abs=1)  # the last one ends at once
    assert all(len(segment.geometry["appearance"].times) <= 6 for segment in segments)


def write_late_stream(path: Path) -> Path:
    """An flv file with a sound stream that begins after the part that FFmpeg probes."""
    raw = write_video(path, [numbered(index) for index in range(4)], codec="flv").read_bytes()
    videos, position = [], 13
    while position < len(raw):
        size = int.from_bytes(raw[position + 1 : position + 4], "big")
        videos += [raw[position + 11 : position + 11 + size]] if raw[position] == 9 else []
        position += size + 15

    def tag(kind: int, time: int, data: bytes) -> bytes:
        head = bytes([kind]) + len(data).to_bytes(3, "big") + time.to_bytes(3, "big") + bytes(4)
        return head + data + (len(head) + len(data)).to_bytes(4, "big")

    pictures = b"".join(tag(9, 40 * index, videos[index % 4]) for index in range(400))
    path.write_bytes(b"FLV\1\1\0\0\0\x09\0\0\0\0" + pictures + tag(8, 16_000, b"\x3e" + bytes(200)) + pictures[:500])
    return path


def test_a_video_that_the_demuxer_trips_over_stops_nobody(captioner: Path, clip: Path, tmp_path: Path) -> None:
    late = write_late_stream(tmp_path / "late.flv")
    done = describe(late, clip, "--model", captioner)
    assert done.exit_code == 0, done.output
    assert "late.flv: " in done.stdout
    assert "own.mp4: " in done.stdout
    assert "late.flv is damaged: reading stops at 16.00 s (IndexError: list index out of range)" in done.stderr


def test_an_edit_list_that_hides_every_frame_is_one_line(clip: Path) -> None:
    raw = clip.read_bytes()
    entry = raw.index(b"elst") + 16  # of one entry: its media time
    clip.write_bytes(raw[:entry] + (10**6).to_bytes(4, "big") + raw[entry + 4 :])
    with pytest.raises(WatchwordError, match="none of its frames can be decoded"):
        probe(clip)


# --- names and folders ---------------------------------------------------------------------------------------------

LONG = "x" * 300  # no file can have this name: the system refuses it as it refuses a folder that may not be entered


def test_sound_of_many_channels_is_mixed_and_does_not_crash(tmp_path: Path) -> None:
    """PyAV counts the planes of more than eight channels wrong, and reads memory that is not theirs."""
    path = tmp_path / "many.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(45)
        file.setsampwidth(2)
        file.setframerate(16_000)
        file.writeframes(np.tile(np.arange(45, dtype="<i2") * 256, 1600).tobytes())

    def check() -> None:
        np.testing.assert_allclose(read_audio(path), np.full(1600, 22 / 128), atol=1e-6)

    assert faults.in_child(check) == "ok"


@pytest.mark.parametrize("size", [Squash(224, 224), CentreCrop(224)])
@pytest.mark.parametrize("shape", [(90_000, 1, 3), (1, 90_000, 3)])
def test_a_picture_of_a_shape_that_cannot_be_scaled_is_one_clear_line(
    shape: tuple[int, ...], size: Size, tmp_path: Path
) -> None:
    path = tmp_path / "line.png"
    Image.fromarray(np.full(shape, 128, np.uint8)).save(path)
    with pytest.raises(WatchwordError, match=r"crop or scale it first|ask for a smaller size"):
        read_frames(path, At((0.0,)), size)


def test_a_name_that_the_system_refuses_stops_no_other_video(captioner: Path, clip: Path) -> None:
    done = describe(f"{LONG}/a.mp4", clip, "--model", captioner)
    assert done.exit_code == 1
    assert "own.mp4: " in done.stdout
    assert "File name too long" in done.stderr
    assert done.exception is None or isinstance(done.exception, SystemExit)


@pytest.mark.parametrize("words", [["describe", "own.mp4", "--model", LONG], ["library", "list", "--library", LONG]])
def test_a_captioner_or_library_that_cannot_be_reached_is_one_line(
    words: list[str], clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(clip.parent)
    with pytest.raises(WatchwordError, match=r"cannot read x+: File name too long"):
        RUN.invoke(app, words, catch_exceptions=False)


def test_a_folder_that_cannot_be_entered_is_reported_once(clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the tests may be root, who may enter all."""
    secret = clip.parent / "secret"
    secret.mkdir()
    scandir = os.scandir

    def refuse(path: str) -> object:
        if Path(path) == secret:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    lines: list[str] = []
    assert find_paths([str(clip.parent)], report=lines.append) == [clip]
    assert lines == [f"cannot enter {secret}: Permission denied; what is in it is left out"]


def test_a_folder_that_is_named_and_cannot_be_entered_stops_no_other_video(
    captioner: Path, clip: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = clip.parent / "secret"
    secret.mkdir()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != secret and access(path, mode))
    done = describe(secret, clip, "--model", captioner)
    assert done.exit_code == 1
    assert "own.mp4: " in done.stdout
    assert f"cannot read {secret}" in done.stderr


def test_an_empty_name_is_not_the_current_folder() -> None:
    with pytest.raises(WatchwordError, match="an empty name is no video"):
        find_paths([""])
    address = "https://www.example.com/watch?v=x*y"  # not a pattern: reading it says how to save it
    assert find_paths([address]) == [Path(address)]


# --- full disks ----------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 60 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("only root may mount a disk")
    yield folder
    subprocess.run(["umount", folder], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 12))


def test_a_library_on_a_full_disk_can_be_read_and_emptied(small_disk: Path) -> None:
    library = Library(small_disk / "library.db")
    videos = [add(library, "a man is playing a guitar", identity=str(number)) for number in range(3)]
    fill(small_disk)
    library = Library(small_disk / "library.db")  # as the next command opens it
    assert library.count() == 3
    assert found(library, "guitar") == ["a man is playing a guitar"] * 3
    with pytest.raises(DiskFull, match="disk"):
        add(library, "a dog runs " * 10_000, identity="new")
    for video in videos:
        assert library.remove(video)
    assert library.count() == 0


def test_extraction_stops_at_the_first_video_that_finds_no_space(
    clip: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*_: object, **__: object) -> Path:
        raise DiskFull("the disk is full")

    def arrays(*_: object, **__: object) -> dict[str, StreamArrays]:
        return {"appearance": StreamArrays(np.zeros((1, 1, 2)), np.zeros(1), np.zeros((1, 4)))}

    monkeypatch.setattr(Store, "write", full)
    monkeypatch.setattr("watchword.features.extraction.Extraction.arrays", arrays)
    other = clip.with_name("other.mp4")
    other.write_bytes(clip.read_bytes())
    words = ["features", "extract", str(clip), str(other), "--streams", "appearance", "--workers", "1"]
    done = RUN.invoke(app, [*words, "--store", str(tmp_path / "features")])
    assert isinstance(done.exception, WatchwordError)
    assert "the disk is full" in str(done.exception)


def test_a_figure_on_a_full_disk_leaves_the_one_before(small_disk: Path) -> None:
    outputs = {small_disk / "picture.png": save_picture, small_disk / "figure.pdf": save_figure}
    things = Image.effect_noise((64, 64), 50), new_figure(2, 1)
    for thing, (path, save) in zip(things, outputs.items(), strict=True):
        save(thing, path)  # type: ignore[operator]
    before = {path: path.read_bytes() for path in outputs}
    assert [content[:4] for content in before.values()] == [b"\x89PNG", b"%PDF"]
    fill(small_disk)
    for thing, (path, save) in zip(things, outputs.items(), strict=True):
        with pytest.raises(DiskFull):
            save(thing, path)  # type: ignore[operator]
        with pytest.raises(WatchwordError, match="unknown suffix"):
            save(thing, path.with_suffix(".xyz"))  # type: ignore[operator]
    assert {path: path.read_bytes() for path in small_disk.iterdir() if path.name != "filler"} == before


def test_the_campaign_of_faults_runs(captioner: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One video of thousands: benchmarks/faults.py is run by hand."""
    assert faults.try_videos(1, seed=0, model=str(captioner), streams=["appearance"])
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert summary["tried"] == {"describe": 1, "extract": 1, "upload": 1}
    assert sum(summary["outcomes"].values()) == 3
    assert faults.mutate(b"abc" * 999, random.Random(1)) == faults.mutate(b"abc" * 999, random.Random(1))


def test_the_campaign_sees_a_crash_and_a_bug() -> None:
    assert faults.in_child(lambda: None) == "ok"
    assert faults.in_child(lambda: os.kill(os.getpid(), signal.SIGKILL)) == "died by signal 9"
    assert "ZeroDivisionError" in faults.in_child(lambda: print(1 / 0))


def test_the_campaign_kills_a_command_after_its_cpu_time() -> None:
    assert faults.run("models", kill_after=0.0) is None
    done = faults.run("--version", kill_after=100)
    assert done is not None
    assert (done.returncode, done.stdout.split()[0]) == (0, "watchword")
