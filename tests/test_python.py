"""What a program that imports watchword gets."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import watchword
from tests.captioners import write_captioner
from tests.videos import numbered, write_video
from watchword.captioning.captioner import Captioner
from watchword.captioning.pipeline import DescribeOptions
from watchword.lanes import LaneOptions
from watchword.video import Stride, read_frames
from watchword.video.inputs import as_file

FRAMES = [numbered(index) for index in range(12)]


@pytest.fixture(scope="module")
def captioner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captioner(tmp_path_factory.mktemp("captioner") / "small")


@pytest.fixture(scope="module")
def loaded(captioner: Path) -> Captioner:
    return watchword.load(captioner)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_video(tmp_path_factory.mktemp("clip") / "clip.mp4", FRAMES)


def test_the_package_shows_what_it_offers_and_nothing_else() -> None:
    assert dir(watchword) == sorted([*watchword.__all__, "__version__"])
    assert all(hasattr(watchword, name) for name in dir(watchword))
    with pytest.raises(AttributeError, match="no attribute 'os_path'"):
        watchword.os_path  # noqa: B018


def test_importing_is_quick() -> None:
    code = "import sys, watchword; assert not {'torch', 'numpy', 'av', 'sqlite3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": "src"}, cwd=Path(__file__).parents[1])


@pytest.mark.parametrize("kind", [watchword.VideoMissing, watchword.VideoUnreadable, watchword.WeightsMissing])
def test_errors_are_of_one_family(kind: type[Exception]) -> None:
    assert issubclass(kind, watchword.WatchwordError)


# --- what a video may be ---------------------------------------------------------------------------------------------


def test_bytes_and_file_objects_are_described_as_their_file(loaded: Captioner, clip: Path) -> None:
    wanted = watchword.describe(clip, loaded)
    for video, name in ((clip.read_bytes(), "bytes"), (io.BytesIO(clip.read_bytes()), "file")):
        found = watchword.describe(video, loaded)
        assert (found.caption, found.confidence, str(found.video)) == (wanted.caption, wanted.confidence, name)
    with clip.open("rb") as file:
        assert watchword.describe(file, loaded).video == clip


def test_frames_are_read_bit_by_bit() -> None:
    frames = np.random.default_rng(0).integers(0, 256, (5, 34, 46, 3), dtype=np.uint8)
    with as_file(frames, rate=12.5) as (path, name):
        read = read_frames(path, Stride(1))
    assert str(name) == "frames"
    assert (read.pictures == frames).all()
    np.testing.assert_allclose(read.times, np.arange(5) / 12.5)
    assert not path.exists()


def test_frames_are_described(loaded: Captioner) -> None:
    found = watchword.describe(np.stack(FRAMES), loaded, rate=25)
    assert found.caption
    assert found.seconds == pytest.approx(12 / 25)


@pytest.mark.parametrize(
    ("video", "rate", "message"),
    [
        (b"no video", None, "^cannot read bytes: "),
        (io.BytesIO(b""), None, "^cannot read file: the file is empty"),
        (np.zeros((3, 4, 4), np.uint8), 25, r"frames must be \(F, H, W, 3\)"),
        (np.zeros((3, 4, 4, 3), np.float32), 25, "of uint8"),
        (np.zeros((3, 4, 4, 3), np.uint8), None, "frames need their rate"),
    ],
)
def test_what_is_no_video_is_one_line(loaded: Captioner, video: object, rate: float | None, message: str) -> None:
    with pytest.raises(watchword.VideoUnreadable, match=message):
        watchword.describe(video, loaded, rate=rate)  # type: ignore[arg-type]


# --- many videos -----------------------------------------------------------------------------------------------------


def test_many_videos_come_in_their_order(loaded: Captioner, clip: Path, tmp_path: Path) -> None:
    wanted = loaded.describe(clip, top=2)
    found = list(watchword.describe_many([clip, clip.read_bytes()], loaded, top=2))
    assert [one.caption for one in found] == [wanted.caption] * 2
    assert [len(one.segments[0].captions) for one in found] == [2, 2]
    videos = [clip, tmp_path / "missing.mp4", clip]
    several = list(watchword.describe_many(videos, loaded, return_errors=True))
    assert [type(one) for one in several] == [type(wanted), watchword.VideoMissing, type(wanted)]
    with pytest.raises(watchword.VideoMissing):
        list(watchword.describe_many(videos, loaded))


def test_many_videos_take_the_options_of_one(loaded: Captioner, clip: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[DescribeOptions] = []
    monkeypatch.setattr(Captioner, "describe_input", lambda self, video, options, rate: asked.append(options))
    settings: dict[str, Any] = {"top": 2, "text": True, "language": "en"}
    watchword.describe(clip, loaded, **settings)
    list(watchword.describe_many([clip], loaded, **settings))
    assert asked[0] == asked[1] == DescribeOptions(top=2, lanes=LaneOptions(speech=True, text=True, language="en"))


def test_several_workers_say_what_one_says(captioner: Path, loaded: Captioner, clip: Path, tmp_path: Path) -> None:
    videos = [clip, tmp_path / "missing.mp4", io.BytesIO(clip.read_bytes()), str(clip)]
    found = list(watchword.describe_many(videos, captioner, workers=2, return_errors=True, timeline=True))
    wanted = loaded.describe(clip, timeline=True)
    assert isinstance(found.pop(1), watchword.VideoMissing)
    assert [str(one) for one in found] == [wanted.caption] * 3
    first = found[0]
    assert not isinstance(first, watchword.WatchwordError)
    assert first.confidence == pytest.approx(wanted.confidence, abs=1e-4)


def test_a_library_is_at_hand(tmp_path: Path, loaded: Captioner, clip: Path) -> None:
    library = watchword.Library(tmp_path / "mine.db")
    found = loaded.describe(clip)
    library.add(found, name="clip.mp4", identity="clip", source=clip, explanation=None)
    (hit,) = watchword.search(found.caption, library=tmp_path / "mine.db")
    assert (hit.name, hit.caption) == ("clip.mp4", found.caption)
