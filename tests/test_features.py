"""Videos to streams: the right frames at the right times, kept under a key that holds all that changes the numbers."""

import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file
from torch import Tensor, nn
from typer.testing import CliRunner

from tests.videos import number_of, numbered, write_video
from watchword.backbones.audio import PATCH_SAMPLES, SAMPLE_RATE, YAMNET_MEL, num_patches, patch_times
from watchword.backbones.regions import CLASSES
from watchword.cli.main import app
from watchword.data.dataset import pad_streams
from watchword.errors import WatchwordError
from watchword.features import extraction as extraction_module
from watchword.features.extraction import (
    Extraction,
    Job,
    VideoFile,
    ahead,
    content_of,
    extract_local,
    extract_ray,
    find_videos,
    prepare,
)
from watchword.features.extractors import EXTRACTORS
from watchword.features.networks import (
    AUDIO_BACKBONES,
    DETECTORS,
    IMAGE_BACKBONES,
    WINDOW_BACKBONES,
    WITHOUT_WEIGHTS,
    Backbone,
)
from watchword.features.samplers import describe_flow, on_screen
from watchword.features.specs import ImageSpec, RegionSpec
from watchword.features.store import Store, settings_key
from watchword.types import StreamArrays
from watchword.video import Timeline
from watchword.workers import PATIENCE

ROOT = Path(__file__).parents[1]


class Reader(nn.Module):
    """A picture network that reads the numbers on numbered frames; its grid is the picture in 2 x 4 cells."""

    def forward(self, pictures: Tensor) -> dict[str, Tensor]:
        numbers = torch.tensor([[float(number_of(picture))] for picture in pictures.numpy()])
        cells = nn.functional.adaptive_avg_pool2d(pictures.float().permute(0, 3, 1, 2), (2, 4)).permute(0, 2, 3, 1)
        return {"pooled": numbers, "grid": cells}


class WindowReader(nn.Module):
    """A motion network whose vector is the numbers of its frames, and with two depths."""

    def forward(self, clips: Tensor) -> dict[str, Tensor]:
        numbers = [[float(number_of(picture)) for picture in clip] for clip in clips.numpy()]
        half = clips.float().view(len(clips), 2, -1, *clips.shape[2:]).mean(2)  # (B, 2, H, W, 3)
        return {"pooled": torch.tensor(numbers), "early": half, "late": half[:, :, ::16, ::16]}


class Detector(nn.Module):
    """Sees one thing, in the left half of every picture."""

    class_names = CLASSES

    def detect(self, pictures: Tensor, k: int) -> Any:
        boxes = torch.zeros(len(pictures), k, 4)
        boxes[:, 0] = torch.tensor([0.0, 0.0, 0.5, 1.0])
        mask = torch.arange(k).expand(len(pictures), k) == 0
        return SimpleNamespace(boxes=boxes, scores=mask * 0.9, classes=mask * 16, mask=mask)


class AudioReader(nn.Module):
    """A window's vector is its mean and its last sample."""

    mel = YAMNET_MEL

    def windows(self, samples: Tensor) -> Any:
        count = num_patches(len(samples), YAMNET_MEL)
        starts = [index * YAMNET_MEL.step_samples for index in range(count)]
        rows = [[samples[i : i + PATCH_SAMPLES].mean(), samples[i + PATCH_SAMPLES - 1]] for i in starts]
        times = patch_times(len(samples), YAMNET_MEL)
        return SimpleNamespace(vectors=torch.tensor(rows).view(count, 2), scores=torch.zeros(count, 3), times=times)


@pytest.fixture(autouse=True)
def readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Networks that say what they were shown, beside the real ones."""
    for table, backbone in (
        (IMAGE_BACKBONES, Backbone(lambda tensors: Reader(), 64, layers=("grid",))),
        (WINDOW_BACKBONES, Backbone(lambda tensors: WindowReader(), 64, grid="late", layers=("early", "late"))),
        (DETECTORS, Backbone(lambda tensors: Detector(), 64)),
        (AUDIO_BACKBONES, Backbone(lambda tensors: AudioReader())),
    ):
        monkeypatch.setitem(table, "reader", backbone)
    monkeypatch.setattr("watchword.features.networks.WITHOUT_WEIGHTS", WITHOUT_WEIGHTS | {"reader"})


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seconds, 25 frames a second, each with its number; silent."""
    path = tmp_path_factory.mktemp("video") / "clip.mp4"
    return write_video(path, [numbered(index) for index in range(50)])


def streams_of(path: Path, streams: str, *words: str) -> dict[str, StreamArrays]:
    """Streams of a video through the networks that read."""
    names = streams.split(",")
    job = prepare(Path("nowhere"), names, [*(f"{name}.backbone=reader" for name in names), *words])
    return Extraction(job).arrays(path, names, [])


# --- when -----------------------------------------------------------------------------------------------------------


def test_appearance_is_the_middle_frame_of_each_part_of_the_video(video: Path) -> None:
    found = streams_of(video, "appearance", "appearance.time_steps=5")["appearance"]  # 0.2, 0.6, 1.0, 1.4, 1.8 s
    assert found.values.shape == (5, 1, 1)
    assert found.values.dtype == np.float16
    assert found.values.ravel().tolist() == [5, 15, 25, 35, 45]
    np.testing.assert_allclose(found.times, [0.2, 0.6, 1.0, 1.4, 1.8], atol=1e-6)


def test_a_window_is_the_frames_around_its_time(video: Path) -> None:
    words = ("motion.time_steps=2", "motion.frames=4", "motion.frame_rate=5")  # 0.5 s and 1.5 s, -0.3 -0.1 +0.1 +0.3
    found = streams_of(video, "motion", *words)["motion"]
    assert found.values.tolist() == [[[5, 10, 15, 20]], [[30, 35, 40, 45]]]
    np.testing.assert_allclose(found.times, [0.48, 1.48], atol=1e-6)  # the frames on screen at 0.5 and 1.5


def test_windows_may_overlap_and_the_video_stands_still_beyond_its_ends(video: Path) -> None:
    words = ("motion.per_second=5", "motion.frames=4", "motion.frame_rate=5")  # 0, 0.2, ... 1.8
    values = streams_of(video, "motion", *words)["motion"].values[:, 0]
    assert values[0].tolist() == [0, 0, 2, 7]
    assert values[1].tolist() == [0, 2, 7, 12]
    assert values[-1].tolist() == [37, 42, 47, 49]
    assert len(values) == 10


def test_windows_and_frames_with_one_sampling_are_at_the_very_same_times(video: Path) -> None:
    found = streams_of(video, "appearance,motion", "appearance.time_steps=9", "motion.time_steps=9")
    frames, windows = (found[name].times.astype(np.float32) for name in ("appearance", "motion"))  # as they are stored
    assert frames.tolist() == windows.tolist()


def test_regions_are_at_the_middle_of_each_three_frames(video: Path) -> None:
    words = ("appearance.time_steps=9", "regions.time_steps=9", "regions.region_backbone=reader", "regions.regions=4")
    found = streams_of(video, "appearance,regions", *words)
    assert found["regions"].times.tolist() == found["appearance"].times[1::3].tolist()
    few = streams_of(video, "regions", "regions.time_steps=1", "regions.region_backbone=reader")["regions"]
    assert len(few.times) == 1  # never none


def test_a_long_stream_comes_in_parts_and_is_whole_in_the_end(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction_module, "CHUNK", 3)
    found = streams_of(video, "appearance,motion", "appearance.per_second=25", "motion.time_steps=7")
    assert found["appearance"].values.ravel().tolist() == list(range(50))
    monkeypatch.setattr(extraction_module, "CHUNK", 64)
    whole = streams_of(video, "motion", "motion.time_steps=7")["motion"]
    assert found["motion"].values.tolist() == whole.values.tolist()


# --- where ----------------------------------------------------------------------------------------------------------


def test_a_grid_cell_has_its_box_row_by_row(video: Path) -> None:
    found = streams_of(video, "appearance_grid", "appearance_grid.time_steps=2")["appearance_grid"]
    assert found.values.shape == (2, 8, 3)
    assert found.boxes[0].tolist() == [0, 0, 0.25, 0.5]
    assert found.boxes[1].tolist() == [0.25, 0, 0.5, 0.5]
    assert found.boxes[7].tolist() == [0.75, 0.5, 1, 1]


def test_boxes_are_in_the_whole_picture_also_when_only_its_middle_was_seen(video: Path) -> None:
    words = [f"{name}.{word}" for name in ("appearance", "regions") for word in ("aspect=crop", "pixels=96")]
    words += ["regions.region_backbone=reader", "regions.regions=2"]
    found = streams_of(video, "appearance,regions", *words)  # 128 x 96: 16 pixels are lost on either side
    assert found["appearance"].boxes.tolist() == [[0.125, 0, 0.875, 1]]
    regions = found["regions"]
    assert regions.boxes[0].tolist() == [[0.125, 0, 0.5, 1], [0, 0, 0, 0]]
    assert regions.mask is not None
    assert regions.mask[0].tolist() == [True, False]
    assert regions.provenance["things"].splitlines()[0] == "dog 0.90"


def test_both_halves_of_a_window_stand_side_by_side_in_its_grid(video: Path) -> None:
    found = streams_of(video, "motion_grid,motion_layers")
    grid = found["motion_grid"].values  # (5, 16, 6): 4 x 4 cells, two halves of three colours
    late = found["motion_layers.2"].values  # (10, 16, 3)
    assert grid.shape == (5, 16, 6)
    assert late.shape == (10, 16, 3)
    assert np.array_equal(grid[:, :, :3], late[::2])
    assert np.array_equal(grid[:, :, 3:], late[1::2])
    assert found["motion_layers.1"].values.shape == (10, 49, 3)  # 64 x 64 averaged to 7 x 7


def test_the_times_of_layers_lie_in_the_middle_of_the_halves_of_their_window(video: Path) -> None:
    words = ("motion_layers.time_steps=1", "motion_layers.frames=4", "motion_layers.frame_rate=5")
    found = streams_of(video, "motion_layers", *words)["motion_layers.1"]
    np.testing.assert_allclose(found.times, [1.0 - 0.2, 1.0 + 0.2], atol=1e-6)


def test_flow_to_the_right_is_in_the_first_direction_and_where_it_is() -> None:
    motion = torch.zeros(3, 2, 8, 100)
    motion[:, 0, :2, :25] = 2.0  # two hundredths of the width
    described = describe_flow(motion)
    assert described[0, 0].tolist() == pytest.approx([2, 0, 0, 0, 0, 0, 0, 0, 4])
    assert described.sum() == pytest.approx(6)
    down = describe_flow(motion.flip(1))
    assert down[0, 0, 2] == pytest.approx(2)  # a quarter turn on: y grows downwards


def test_the_cells_of_flow_are_those_of_its_vector_and_know_where_they_are(video: Path) -> None:
    words = [f"{name}.{word}" for name in ("flow", "flow_grid") for word in ("time_steps=2", "frames=3", "pixels=32")]
    found = Extraction(prepare(video.parent, ["flow", "flow_grid"], words)).arrays(video, ["flow", "flow_grid"], [])
    assert found["flow_grid"].values.shape == (2, 16, 9)
    np.testing.assert_array_equal(found["flow_grid"].values.reshape(2, 1, 144), found["flow"].values)
    assert found["flow_grid"].boxes[6].tolist() == [0.5, 0.25, 0.75, 0.5]


# --- sound ----------------------------------------------------------------------------------------------------------


def test_a_silent_video_has_an_audio_stream_without_time_steps(video: Path, tmp_path: Path) -> None:
    job = prepare(tmp_path, ["audio"], ["audio.backbone=reader"])
    assert not Extraction(job).extract(VideoFile("clip", video)).problem
    arrays = Store(tmp_path).read("clip", "audio")
    assert arrays.values.shape == (0, 1, 2)
    stream = pad_streams([arrays, StreamArrays(np.ones((3, 1, 2)), np.arange(3.0), arrays.boxes)])
    assert stream.mask.flatten(1).sum(1).tolist() == [0, 3]
    assert stream.values[0].abs().sum() == 0


def test_sound_in_blocks_is_the_sound_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [numbered(index) for index in range(25)]
    path = write_video(tmp_path / "loud.mp4", pictures, tone=440.0, tone_seconds=5.0)
    whole = streams_of(path, "audio")["audio"]
    assert len(whole.times) == num_patches(5 * SAMPLE_RATE, YAMNET_MEL)
    for size in (1, 2, 3):
        monkeypatch.setattr(extraction_module, "WINDOWS_AT_ONCE", size)
        parts = streams_of(path, "audio")["audio"]
        assert np.array_equal(parts.values, whole.values)
        np.testing.assert_allclose(parts.times, whole.times, atol=1e-5)


# --- settings and the store -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    ["time_steps=27", "per_second=2", "every=2", "pixels=192", "aspect=crop", "backbone=efficientnet_lite1"],
)
def test_whatever_changes_the_numbers_changes_the_key(word: str) -> None:
    keys = {
        settings_key(prepare(Path("nowhere"), ["appearance"], words).settings("appearance"))
        for words in ([], [f"appearance.{word}"])
    }
    assert len(keys) == 2


def test_the_key_holds_what_the_weights_are_not_where_they_lie(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).write_bytes(b"same")
    (tmp_path / "three").write_bytes(b"other")
    one, two, three = (
        prepare(tmp_path, ["motion"], ["motion.backbone=c3d", f"motion.weights={tmp_path / name}"]).settings("motion")
        for name in ("one", "two", "three")
    )
    assert one == two != three
    assert one["pixels"] == 112


def test_equal_specs_pass_the_network_once(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    read = Reader.forward
    monkeypatch.setattr(Reader, "forward", lambda self, pictures: calls.append(len(pictures)) or read(self, pictures))
    streams_of(video, "appearance,appearance_grid", "appearance.time_steps=4", "appearance_grid.time_steps=4")
    assert calls == [4]


@pytest.mark.parametrize(
    ("stream", "words", "message"),
    [
        ("apearance", [], "did you mean 'appearance'"),
        ("appearance", ["time_steps=3"], "expected stream.key=value"),
        ("appearance", ["motion.time_steps=3"], "unknown stream in --settings 'motion'"),
        ("appearance", ["appearance.time_step=3"], "did you mean 'time_steps'"),
        ("appearance", ["appearance.time_steps=0"], "time_steps = '0'"),
        ("appearance", ["appearance.time_steps=3", "appearance.per_second=2"], "give one"),
        ("appearance", ["appearance.backbone=resnet101"], "no package carries the weights of resnet101"),
        ("appearance", ["appearance.weights=nowhere.pth"], "cannot read the weights nowhere.pth"),
        ("motion", ["motion.backbone=i4d"], "unknown motion network 'i4d'; did you mean 'i3d'"),
        ("motion", ["motion.backbone=resnext3d", "motion.precision=bfloat16"], "precision is a setting of .* i3d, not"),
    ],
)
def test_a_mistake_in_the_settings_is_reported_before_a_video_is_opened(
    stream: str, words: list[str], message: str
) -> None:
    with pytest.raises(WatchwordError, match=message):
        prepare(Path("nowhere"), [stream], words)


def test_weights_that_cannot_be_had_are_one_line_that_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(name: str) -> None:
        raise WatchwordError(f"cannot fetch {name}: are you online?")

    monkeypatch.setattr("watchword.features.networks.load_weights", offline)
    with pytest.raises(WatchwordError, match=r"are you online.*watchword weights get i3d"):
        Extraction(prepare(Path("nowhere"), ["motion"])).load()


# --- videos ----------------------------------------------------------------------------------------------------------


def test_videos_are_found_in_folders_by_patterns_and_by_name(tmp_path: Path) -> None:
    for name in ("a.mp4", "below/b.WEBM", "below/notes.txt", "c.mp4"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert [video.video for video in find_videos([str(tmp_path)])] == ["a", "below/b", "c"]
    assert [video.video for video in find_videos([f"{tmp_path}/*.mp4", f"{tmp_path}/a.mp4"])] == ["a", "c"]
    assert [video.video for video in find_videos([f"{tmp_path}/below/notes.txt"])] == ["notes"]
    with pytest.raises(WatchwordError, match="no file matches"):
        find_videos([f"{tmp_path}/*.avi"])


def test_a_video_is_called_by_its_path_below_the_folder_that_is_named(tmp_path: Path) -> None:
    for name in ("one/clip.mp4", "two/clip.mp4", "two/same.mp4", "two/same.mov"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    everything = ["one/clip", "two/clip", "two/same.mov", "two/same.mp4"]
    assert [video.video for video in find_videos([str(tmp_path)])] == everything
    assert [video.video for video in find_videos([f"{tmp_path}/one", f"{tmp_path}/two"])] == everything
    (tmp_path / "two" / "clip.mp4").unlink()
    names = ["clip", "same.mov", "same.mp4"]  # that of clip.mp4 alone, whatever else is named
    assert [video.video for video in find_videos([f"{tmp_path}/one", f"{tmp_path}/two"])] == names
    (tmp_path / "two" / "clip.mp4").touch()
    assert [video.video for video in find_videos([f"{tmp_path}/*/clip.mp4"])] == ["one/clip", "two/clip"]
    assert [video.video for video in find_videos([f"{tmp_path}/one", f"{tmp_path}/one/../one/clip.mp4"])] == ["clip"]


# --- the command ----------------------------------------------------------------------------------------------------


def extract(*words: object) -> Any:
    return CliRunner().invoke(app, ["features", "extract", *map(str, words)])


SMALL = ("--streams", "appearance", "--settings", "appearance.backbone=reader", "--workers", "1")


def test_one_bad_video_does_not_stop_the_rest(video: Path, tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    (folder / "a_bad.mp4").write_bytes(b"this is no video")
    content = video.read_bytes()
    (folder / "good.mp4").write_bytes(content)
    done = extract(folder, tmp_path / "missing.mp4", "--store", tmp_path / "store", *SMALL)
    assert done.exit_code == 1
    assert "1 videos extracted" in done.output
    assert "2 failed" in done.output
    assert f"watchword: cannot read {folder / 'a_bad.mp4'}" in done.output
    assert f"watchword: cannot read {tmp_path / 'missing.mp4'}: no such file" in done.output
    assert Store(tmp_path / "store").videos("appearance") == ["good"]


def test_a_bug_over_one_video_stops_no_other(video: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Reader, pictures: Tensor) -> dict[str, Tensor]:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(Reader, "forward", broken)
    done = extract(video, "--store", tmp_path / "store", *SMALL)
    assert done.exit_code == 1
    assert f"watchword: cannot extract {video}: RuntimeError: out of memory" in done.output


def test_what_is_there_is_skipped_and_made_again_when_asked(video: Path, tmp_path: Path) -> None:
    words = (video, "--store", tmp_path, *SMALL)
    assert "1 videos extracted" in extract(*words).output
    (path,) = tmp_path.rglob("clip.safetensors")
    made = path.stat().st_mtime_ns
    assert "0 videos extracted, 1 were there before" in extract(*words).output
    assert path.stat().st_mtime_ns == made
    assert "1 videos extracted" in extract(*words, "--overwrite").output
    assert path.stat().st_mtime_ns > made
    more = extract(*words[:-2], "--settings", "appearance.time_steps=3", "--workers", 1)
    assert "1 videos extracted" in more.output  # other numbers beside the first
    assert len(Store(tmp_path).keys("appearance")) == 2


def test_videos_of_one_name_in_two_folders_are_extracted(video: Path, tmp_path: Path) -> None:
    other = write_video(tmp_path / "other.mp4", [numbered(index) for index in range(7)])
    for name, source in (("day1", video), ("day2", other)):
        (tmp_path / "videos" / name).mkdir(parents=True)
        (tmp_path / "videos" / name / "IMG_1.mp4").write_bytes(source.read_bytes())
    store = tmp_path / "store"
    assert "2 videos extracted" in extract(tmp_path / "videos", "--store", store, *SMALL).output
    assert Store(store).videos("appearance") == ["day1/IMG_1", "day2/IMG_1"]
    assert "1 videos extracted" in extract(tmp_path / "videos" / "day1", "--store", store, *SMALL).output
    done = extract(tmp_path / "videos" / "day2", "--store", store, *SMALL)  # would be called IMG_1 as well
    assert done.exit_code == 1
    assert "0 videos extracted, 0 were there before, 1 failed" in done.output
    assert f"{store} has another video 'IMG_1'" in done.output
    assert "1 videos extracted" in extract(tmp_path / "videos" / "day2", "--store", store, *SMALL, "--overwrite").output


def test_a_store_of_before_has_no_fingerprints_and_is_taken_as_it_is(tmp_path: Path) -> None:
    video = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(9)])
    words = (video, "--store", tmp_path / "store", *SMALL)
    extract(*words)
    (path,) = (tmp_path / "store").rglob("clip.safetensors")
    with safe_open(path, "numpy") as file:
        tensors, header = {name: file.get_tensor(name) for name in file.keys()}, file.metadata()  # noqa: SIM118
    assert header.pop("content") == content_of(video)
    save_file(tensors, path, header)
    write_video(video, [numbered(index) for index in range(7)])
    assert "1 were there before, 0 failed" in extract(*words).output


def test_a_damaged_video_is_extracted_and_warned_of(tmp_path: Path) -> None:
    pictures = [numbered(index) for index in range(100)]
    path = write_video(tmp_path / "cut.mkv", pictures)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    done = extract(path, "--store", tmp_path / "store", *SMALL)
    assert done.exit_code == 0
    assert "warning: " in done.output
    assert str(path) in done.output
    assert Store(tmp_path / "store").videos("appearance") == ["cut"]


def test_videos_come_from_a_list_too(video: Path, tmp_path: Path) -> None:
    (tmp_path / "videos.txt").write_text(f"{video}\n\n")
    assert extract("--list", tmp_path / "videos.txt", "--store", tmp_path / "store", *SMALL).exit_code == 0
    assert Store(tmp_path / "store").videos("appearance") == ["clip"]


# --- many videos -----------------------------------------------------------------------------------------------------


def test_what_is_made_ahead_comes_in_order_and_its_error_where_it_is_wanted() -> None:
    def items() -> Iterator[int]:
        yield from range(20)
        raise WatchwordError("the end")

    made = ahead(items())
    assert [next(made) for _ in range(20)] == list(range(20))
    with pytest.raises(WatchwordError, match="the end"):
        next(made)
    endless = ahead(iter(int, 1))
    next(endless)
    endless.close()  # nobody hangs when the reader goes


def many(folder: Path, count: int) -> list[VideoFile]:
    folder.mkdir()
    content = write_video(folder / "video0.mp4", [numbered(index) for index in range(25)]).read_bytes()
    for index in range(1, count):
        (folder / f"video{index}.mp4").write_bytes(content)
    return find_videos([str(folder)])


FAST = ["appearance.time_steps=6", "appearance.pixels=64"]  # the real network, at the size of a stamp


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_its_video_done(tmp_path: Path) -> None:
    videos = many(tmp_path / "videos", 12)
    outcomes = []
    for outcome in extract_local(prepare(tmp_path / "store", ["appearance"], FAST), videos, workers=2):
        if not outcomes:
            victim = multiprocessing.active_children()[0].pid
            assert victim
            os.kill(victim, signal.SIGKILL)
        outcomes.append(outcome)
    assert not [outcome.problem for outcome in outcomes if outcome.problem]
    assert Store(tmp_path / "store").videos("appearance") == sorted(video.video for video in videos)


@pytest.mark.slow
def test_an_extraction_that_was_killed_goes_on_with_nothing_half_written(tmp_path: Path) -> None:
    videos, store = many(tmp_path / "videos", 16), tmp_path / "store"
    words = [sys.executable, "-m", "watchword", "features", "extract", str(tmp_path / "videos"), "--store", str(store)]
    words += ["--streams", "appearance,appearance_grid", "--workers", "2"]
    for word in FAST:
        words += ["--settings", word, "--settings", word.replace(".", "_grid.", 1)]
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL)
    while process.poll() is None and len(list(store.rglob("*.safetensors"))) < 7:
        time.sleep(0.02)
    process.kill()
    process.wait()
    time.sleep(1)  # the workers see that nobody listens
    there = {path: path.stat().st_mtime_ns for path in store.rglob("[!.]*.safetensors")}
    assert there
    for path in there:
        Store(store).read(path.stem, path.parts[-3])
    done = subprocess.run([*words, "--workers", "1"], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for stream in ("appearance", "appearance_grid"):
        assert Store(store).videos(stream) == sorted(video.video for video in videos)


@pytest.mark.slow
def test_a_ray_cluster_does_the_same_also_when_a_worker_is_killed(tmp_path: Path, monkeypatch: Any) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    for name, value in PATIENCE.items():
        monkeypatch.setenv(name, value)
    videos = many(tmp_path / "videos", 6)
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        outcomes = []
        for outcome in extract_ray(prepare(tmp_path / "store", ["appearance"], FAST), videos, workers=2):
            if not outcomes:
                os.kill(actor_processes()[0], signal.SIGKILL)
            outcomes.append(outcome)
    finally:
        ray.shutdown()
    assert not [outcome.problem for outcome in outcomes if outcome.problem]
    job = prepare(tmp_path / "here", ["appearance"], FAST)
    here = {outcome.video.video for outcome in extract_local(job, videos, 1)}
    assert Store(tmp_path / "store").videos("appearance") == sorted(here)
    one, other = (Store(tmp_path / name).read("video3", "appearance").values for name in ("store", "here"))
    np.testing.assert_allclose(one, other, atol=1e-2)


def actor_processes() -> list[int]:
    """Processes of our actors: Ray names a process after the actor that it hosts."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(b"ray::_Actor"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_ray_that_is_not_installed_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(WatchwordError, match=r"pip install 'watchword\[ray\]'"):
        list(extract_ray(prepare(tmp_path, ["appearance"]), [VideoFile("a", tmp_path / "a.mp4")]))


@pytest.mark.slow
def test_the_real_networks_give_every_stream_its_shape(tmp_path: Path) -> None:
    """One short video with sound through all of them; fetches weights that are not here."""
    path = write_video(tmp_path / "clip.mp4", [numbered(index) for index in range(30)], tone=440.0, tone_seconds=1.2)
    names = [
        "appearance",
        "appearance_grid",
        "motion",
        "motion_grid",
        "motion_layers",
        "regions",
        "flow",
        "flow_grid",
        "audio",
    ]
    words = [f"{name}.time_steps={1 if 'motion' in name or 'flow' in name else 3}" for name in names[:-1]]
    found = Extraction(prepare(tmp_path, names, words)).arrays(path, names, [])
    assert {name: arrays.values.shape for name, arrays in found.items()} == {
        "appearance": (3, 1, 1280),
        "appearance_grid": (3, 49, 1280),
        "motion": (1, 1, 1024),
        "motion_grid": (1, 49, 2048),
        "motion_layers.1": (2, 49, 192),
        "motion_layers.2": (2, 49, 480),
        "motion_layers.3": (2, 49, 832),
        "motion_layers.4": (2, 49, 1024),
        "regions": (1, 16, 1280),
        "flow": (1, 1, 144),
        "flow_grid": (1, 16, 9),
        "audio": (1, 1, 1024),
    }
    grid, pooled = found["appearance_grid"].values.astype(np.float32), found["appearance"].values.astype(np.float32)
    np.testing.assert_allclose(grid.mean(1), pooled[:, 0], atol=2e-3)
    assert all(np.isfinite(arrays.values).all() for arrays in found.values())


SAMPLED = [(1, [0]), (5, [*range(5)]), (8, [*range(8)]), (24, [*range(1, 24, 3)])]


@pytest.mark.parametrize(("frames", "expected"), SAMPLED)
def test_a_frame_is_sampled_once_and_short_videos_have_fewer(frames: int, expected: list[int]) -> None:
    timeline = Timeline(np.arange(frames, dtype=float), float(frames))
    times = ImageSpec(time_steps=8).instants(timeline)
    assert on_screen(timeline, times).tolist() == expected


# The keys of stores: hours of extraction hang on them. A field may be renamed, its alias in the hash may not.
KEYS = {
    "appearance": "152b40aa",
    "appearance_token": "152b40aa",
    "appearance_grid": "152b40aa",
    "appearance_layers": "152b40aa",
    "motion": "d896f22b",
    "motion_grid": "d896f22b",
    "motion_layers": "d896f22b",
    "regions": "07681948",
    "flow": "a46f2c62",
    "flow_grid": "a46f2c62",
    "audio": "f4c7c0b8",
}


def test_the_store_key_of_every_default_spec_stays_what_it_was() -> None:
    job = Job(Path(), {stream: extractor.spec for stream, extractor in EXTRACTORS.items()})
    assert {stream: settings_key(job.settings(stream)) for stream in EXTRACTORS} == KEYS


def test_old_names_of_settings_are_read() -> None:
    old = RegionSpec.read({"moments": 9, "eye": "resnet18", "eye_weights": "x"}, "test")
    new = RegionSpec.read({"time_steps": 9, "region_backbone": "resnet18", "region_weights": "x"}, "test")
    assert old == new
    assert old.model_dump(by_alias=True)["eye"] == "resnet18"
