"""The feature store: whole or not at all, whoever dies."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import watchword.features.store
from watchword.errors import WatchwordError
from watchword.features.store import Store, settings_key
from watchword.types import StreamArrays

SOURCE = Path(__file__).parents[1] / "src"
SETTINGS = {"backbone": "vgg16", "frames": 3}


def arrays(fill: float = 1.0, *, width: int = 4, dtype: str = "float16") -> StreamArrays:
    boxes = np.array([[0.0, 0.0, 0.5, 1.0], [0.5, 0.0, 1.0, 1.0]])
    return StreamArrays(np.full((3, 2, width), fill, dtype), np.array([0.0, 0.5, 1.0]), boxes)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def leftovers(store: Store) -> list[Path]:
    return list(store.folder.rglob(".*.tmp"))


# --- keeping and finding --------------------------------------------------------------------------------------------


def test_what_is_written_is_read_back(store: Store) -> None:
    mask = np.array([[True, False]] * 3)
    values = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    written = StreamArrays(values, np.array([0.0, 1.5, 3.0]), np.zeros((3, 2, 4)), mask, {"a": "b"})
    store.write("v", "motion", written, SETTINGS)
    read = store.read("v", "motion")
    np.testing.assert_array_equal(read.values, written.values)
    np.testing.assert_array_equal(read.times, written.times)
    np.testing.assert_array_equal(read.boxes, written.boxes)
    assert read.mask is not None
    np.testing.assert_array_equal(read.mask, mask)
    assert read.provenance["a"] == "b"
    assert read.provenance["backbone"] == "vgg16"
    assert read.provenance["frames"] == "3"


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_the_number_format_is_kept(store: Store, dtype: str) -> None:
    store.write("v", "s", arrays(dtype=dtype), {})
    assert store.read("v", "s").values.dtype == dtype


def test_an_array_that_does_not_lie_in_order_is_written_in_order(store: Store) -> None:
    values = np.arange(24, dtype=np.float32).reshape(4, 2, 3).T
    store.write("v", "s", StreamArrays(values, np.zeros(3), np.zeros((2, 4))), {})
    np.testing.assert_array_equal(store.read("v", "s").values, values)


def test_shapes_are_known_without_reading_the_values(store: Store) -> None:
    path = store.write("v", "s", arrays(width=7), {})
    with path.open("r+b") as file:  # if the values were read, the hole would show
        file.seek(-7 * 2 * 3 * 2, os.SEEK_END)
        file.write(b"\xff" * 84)
    assert store.shape("v", "s") == (3, 2, 7)
    assert store.width("s") == 7


def test_it_says_what_it_holds(store: Store) -> None:
    for video in ("b", "a"):
        store.write(video, "appearance", arrays(), SETTINGS)
    store.write("a", "motion", arrays(), {})
    assert store.streams() == ["appearance", "motion"]
    assert store.videos("appearance") == ["a", "b"]
    assert store.settings("appearance") == SETTINGS
    assert store.has("a", "motion")
    assert not store.has("b", "motion")
    assert not store.has("b", "audio")
    assert not Store(store.folder / "nowhere").has("b", "audio")
    assert Store(store.folder / "nowhere").streams() == []


def test_one_stream_with_several_settings_asks_which(store: Store) -> None:
    store.write("v", "s", arrays(1), {"size": 224})
    store.write("v", "s", arrays(2), {"size": 168})
    first, second = settings_key({"size": 224}), settings_key({"size": 168})
    assert store.streams() == sorted([f"s@{first}", f"s@{second}"])
    with pytest.raises(WatchwordError, match=f"several settings.*s@{first} \\(size=224\\)"):
        store.read("v", "s")
    assert store.read("v", f"s@{first}").values[0, 0, 0] == 1
    assert store.read("v", f"s@{second[:5]}").values[0, 0, 0] == 2
    assert not store.has("v", "s@ffffff")
    with pytest.raises(WatchwordError, match="no settings 'ffffff'"):
        store.read("v", "s@ffffff")


def test_the_order_of_settings_does_not_matter_but_their_values_do() -> None:
    assert settings_key({"a": 1, "b": 2}) == settings_key({"b": 2, "a": 1})
    assert settings_key({"a": 1}) != settings_key({"a": 2})


ODD_NAMES = ["../x", "a/b", "a%2Fb", ".", "..", ".hidden", "é😀", "\udc80", "\ud800", " ", "a\nb", "C:\\a"]
LONG_NAMES = ["x" * 5000, "é" * 300]


@pytest.mark.parametrize("video", ODD_NAMES + LONG_NAMES, ids=lambda name: ascii(name)[:12])
def test_any_name_of_a_video_is_one_safe_file(store: Store, video: str) -> None:
    path = store.write(video, "s", arrays(), {})
    assert path.resolve().parent == (store.folder / "s" / settings_key({})).resolve()
    assert path.name.isascii()
    assert len(path.name) < 230
    assert store.videos("s") == [video]
    assert store.has(video, "s")


@given(st.lists(st.text(st.characters(), min_size=1), min_size=2, max_size=2, unique=True))
def test_two_names_are_two_files(names: list[str]) -> None:
    one, other = (watchword.features.store._encode(name) for name in names)
    assert one != other
    assert "/" not in one
    assert not one.startswith(".")


def test_long_names_that_begin_alike_are_kept_apart(store: Store) -> None:
    names = ["x" * 400 + end for end in "ab"]
    for number, name in enumerate(names):
        store.write(name, "s", arrays(number), {})
    assert [store.read(name, "s").values[0, 0, 0] for name in names] == [0, 1]
    assert store.videos("s") == names


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_value_that_is_no_number_is_refused_with_the_videos_name(store: Store, bad: float) -> None:
    broken = arrays()
    broken.values[1, 1, 1] = bad
    with pytest.raises(WatchwordError, match=r"video 'clip7': 1 of 24 values are NaN or infinite"):
        store.write("clip7", "s", broken, {})
    assert not store.has("clip7", "s")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (StreamArrays(np.zeros((3, 4)), np.zeros(3), np.zeros((1, 4))), "shape"),
        (StreamArrays(np.zeros((3, 2, 4)), np.zeros(2), np.zeros((2, 4))), "times"),
        (StreamArrays(np.zeros((3, 2, 4)), np.zeros(3), np.zeros((3, 4))), "boxes"),
        (StreamArrays(np.zeros((3, 2, 4)), np.zeros(3), np.zeros((2, 4)), np.ones((2, 3), bool)), "mask"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(store: Store, wrong: StreamArrays, message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        store.write("v", "s", wrong, {})


def test_a_stream_has_one_width(store: Store) -> None:
    store.write("a", "s", arrays(width=4), {})
    store.write("a", "s", arrays(width=5), {})  # the only video may change its mind
    with pytest.raises(WatchwordError, match="'b' has features of width 4, the others of s have 5"):
        store.write("b", "s", arrays(width=4), {})


@pytest.mark.parametrize("name", ["", "../s", "a@b", ".s", "a/b"])
def test_a_stream_needs_a_plain_name(store: Store, name: str) -> None:
    with pytest.raises(WatchwordError, match="cannot call a stream"):
        store.write("v", name, arrays(), {})


def test_a_missing_video_is_named_with_an_example_of_what_is_there(store: Store) -> None:
    store.write("video1", "s", arrays(), {})
    with pytest.raises(WatchwordError, match=r"no s of video 'video1\.mp4' \(1 others, such as 'video1'\)"):
        store.read("video1.mp4", "s")


def test_a_missing_stream_or_store_is_named(store: Store) -> None:
    with pytest.raises(WatchwordError, match="no feature store at"):
        store.read("v", "appearance")
    store.write("v", "appearance", arrays(), {})
    with pytest.raises(WatchwordError, match="did you mean 'appearance'"):
        store.read("v", "apearance")


@pytest.mark.parametrize("content", [b"", b"no safetensors", b"\xff" * 100])
def test_a_damaged_file_is_named(store: Store, content: bytes) -> None:
    path = store.write("v", "s", arrays(), {})
    path.write_bytes(content)
    with pytest.raises(WatchwordError, match=r"v\.safetensors is damaged .*: delete it"):
        store.read("v", "s")


def test_a_file_that_was_cut_off_is_named(store: Store) -> None:
    path = store.write("v", "s", arrays(), {})
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(WatchwordError, match="is damaged"):
        store.shape("v", "s")


# --- whole or not at all --------------------------------------------------------------------------------------------


def test_a_full_disk_loses_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.write("v", "s", arrays(1), {})

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(WatchwordError, match=r"the disk is full: .* untouched"):
        store.write("v", "s", arrays(2), {})
    assert store.read("v", "s").values[0, 0, 0] == 1
    assert leftovers(store) == []


def test_a_real_limit_on_file_size_loses_nothing(store: Store) -> None:
    """The operating system itself refuses half-way through the file."""
    store.write("v", "s", arrays(1), {})
    code = f"""
        import resource, signal, sys
        import numpy as np
        from watchword.errors import WatchwordError
        from watchword.types import StreamArrays
        from watchword.features.store import Store
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        large = StreamArrays(np.full((100, 1, 4000), 2.0, "f2"), np.zeros(100), np.zeros((1, 4)))
        try:
            Store({str(store.folder)!r}).write("v", "s", large, {{}})
        except WatchwordError as error:
            sys.exit(str(error))
    """
    result = run(code)
    assert result.returncode == 1
    assert "the disk is full" in result.stderr
    assert store.read("v", "s").values[0, 0, 0] == 1
    assert leftovers(store) == []


def run(code: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, check=False
    )


def test_a_writer_that_is_killed_leaves_the_old_file_and_no_half_one(store: Store) -> None:
    store.write("v", "s", arrays(1), {})
    code = f"""
        import os, signal
        import numpy as np
        from watchword.types import StreamArrays
        from watchword.features.store import Store
        os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # the content is in the file, the name is not
        new = StreamArrays(np.full((3, 2, 4), 2.0, "f2"), np.zeros(3), np.zeros((2, 4)))
        Store({str(store.folder)!r}).write("v", "s", new, {{}})
    """
    assert run(code).returncode == -signal.SIGKILL
    (left,) = leftovers(store)
    assert store.videos("s") == ["v"]
    assert store.read("v", "s").values[0, 0, 0] == 1

    Store(store.folder).write("w", "s", arrays(), {})
    assert leftovers(store) == [left], "a young temporary file may belong to a living writer"
    long_ago = time.time() - 2 * watchword.features.store.ABANDONED_SECONDS
    os.utime(left, (long_ago, long_ago))
    Store(store.folder).write("w", "s", arrays(), {})
    assert leftovers(store) == []


def test_a_writer_that_is_killed_before_its_first_video_does_not_confuse_readers(store: Store) -> None:
    store.write("v", "s", arrays(), {"size": 1})
    other = store.folder / "s" / settings_key({"size": 2})
    other.mkdir()
    (other / "settings.json").write_text(json.dumps({"size": 2}))
    assert store.streams() == ["s"]
    assert store.has("v", "s")


def _write_many(folder: str, fill: int) -> None:
    store = Store(folder)
    values = np.full((50, 1, 2000), fill, np.float16)
    for _ in range(30):
        store.write("v", "s", StreamArrays(values, np.zeros(50), np.zeros((1, 4))), {})


def test_two_processes_that_write_the_same_file_never_mix(store: Store) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(str(store.folder), fill)) for fill in (1, 2)]
    for writer in writers:
        writer.start()
    seen = set()
    while any(writer.is_alive() for writer in writers):
        if store.has("v", "s"):
            seen.add(tuple(np.unique(store.read("v", "s").values).tolist()))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    assert seen <= {(1.0,), (2.0,)}
    assert seen
    assert leftovers(store) == []


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(WatchwordError, match=r"cannot write .*file.*: Not a directory"):
        Store(tmp_path / "file").write("v", "s", arrays(), {})
