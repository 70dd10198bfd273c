"""Features that somebody else computed -> the store."""

import errno
import io
import os
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from watchword.cli.main import app
from watchword.data.imports import Rules, import_features, open_features
from watchword.errors import WatchwordError
from watchword.features.store import Store

SOURCE = Path(__file__).parents[1] / "src"
VGG16 = Path(__file__).parents[1] / ".." / "shared" / "data" / "msvd" / "vgg16_fc2_20.npz"


def run(file: Path, store: Path, *options: str, stream: str = "appearance") -> Result:
    words = ["features", "import", str(file), "--store", str(store), "--stream", stream, *options]
    return CliRunner().invoke(app, words)


def imported(file: Path, tmp_path: Path, *options: str) -> Store:
    result = run(file, tmp_path / "store", *options)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return Store(tmp_path / "store")


def frames(num_frames: int = 3, width: int = 4) -> np.ndarray[Any, Any]:
    return np.arange(num_frames * width, dtype=np.float32).reshape(num_frames, width)


# --- the kinds of file ----------------------------------------------------------------------------------------------


def npz_per_video(folder: Path, **arrays: Any) -> Path:
    np.savez_compressed(folder / "features.npz", **arrays)
    return folder / "features.npz"


def npz_packed(folder: Path, **arrays: Any) -> Path:
    names, rows = list(arrays), np.stack(list(arrays.values()))
    np.savez_compressed(folder / "features.npz", ids=np.array(names), feats=rows)
    return folder / "features.npz"


def npz_packed_column_by_column(folder: Path, **arrays: Any) -> Path:
    rows = np.asfortranarray(np.stack(list(arrays.values())))
    np.savez(folder / "features.npz", ids=np.array(list(arrays)).astype("S"), features=rows)
    return folder / "features.npz"


def npy_folder(folder: Path, **arrays: Any) -> Path:
    (folder / "npy").mkdir()
    for name, array in arrays.items():
        np.save(folder / "npy" / f"{name}.mp4.npy", array)
    return folder / "npy"


def hdf5_per_video(folder: Path, **arrays: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "features.h5", "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return folder / "features.h5"


def hdf5_in_groups(folder: Path, **arrays: Any) -> Path:
    return hdf5_per_video(folder, **{f"{name}/c3d_features": array for name, array in arrays.items()})


def hdf5_packed(folder: Path, **arrays: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    with h5py.File(folder / "features.hdf5", "w") as file:
        file["ids"] = list(arrays)
        file["feats"] = np.stack(list(arrays.values()))
    return folder / "features.hdf5"


KINDS = [
    npz_per_video,
    npz_packed,
    npz_packed_column_by_column,
    npy_folder,
    hdf5_per_video,
    hdf5_in_groups,
    hdf5_packed,
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_store(tmp_path: Path, kind: Any) -> None:
    store = imported(kind(tmp_path, video1=frames(), video2=frames() + 1), tmp_path)
    assert store.videos("appearance") == ["video1", "video2"]
    read = store.read("video2", "appearance")
    np.testing.assert_array_equal(read.values, (frames() + 1)[:, None, :])
    np.testing.assert_array_equal(read.times, [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(read.boxes, [[0.0, 0.0, 1.0, 1.0]])
    assert read.values.dtype == np.float16
    assert read.provenance["times"] == "unknown: evenly over 0..1"
    assert read.provenance["imported_as"] == "video2"


def test_eight_bit_square_roots_are_decoded_and_their_axes_found(tmp_path: Path) -> None:
    coded = np.arange(2 * 5 * 3, dtype=np.uint8).reshape(2, 5, 3)  # (videos, D, F)
    np.savez(
        tmp_path / "coded.npz", ids=np.array(["a", "b"]), feats=coded, scale=np.float32(0.5), frame_index=np.arange(3)
    )
    store = imported(tmp_path / "coded.npz", tmp_path)
    assert store.shape("b", "appearance") == (3, 1, 5)
    assert store.read("b", "appearance").values[1, 0, 2] == (coded[1, 2, 1] * 0.5) ** 2
    assert store.settings("appearance")["coding"] == "8-bit square roots"


# --- shapes, times, boxes, number formats ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((4,), "", (1, 1, 4)),
        ((3, 4), "", (3, 1, 4)),
        ((4, 3), "DF", (3, 1, 4)),
        ((3, 9, 4), "", (3, 9, 4)),
        ((3, 2, 5, 4), "", (3, 10, 4)),
        ((3, 4, 2, 5), "FDHW", (3, 10, 4)),
        ((9, 4), "ND", (1, 9, 4)),
    ],
)
def test_one_to_four_axes_become_time_steps_locations_and_width(
    tmp_path: Path, shape: tuple[int, ...], layout: str, expected: tuple[int, int, int]
) -> None:
    store = imported(npz_per_video(tmp_path, v=np.ones(shape)), tmp_path, "--layout", layout)
    assert store.shape("v", "appearance") == expected


def test_a_grid_lies_row_by_row(tmp_path: Path) -> None:
    array = np.zeros((1, 4, 2, 3))  # F D H W
    array[0, :, 1, 0] = 7
    read = imported(npz_per_video(tmp_path, v=array), tmp_path, "--layout", "fdhw").read("v", "appearance")
    (place,) = np.flatnonzero(read.values[0, :, 0])
    np.testing.assert_allclose(read.boxes[place], [0.0, 0.5, 1 / 3, 1.0], atol=1e-6)


def test_a_square_number_of_places_is_a_grid_and_any_other_is_anywhere(tmp_path: Path) -> None:
    store = imported(npz_per_video(tmp_path, grid=np.ones((1, 4, 3)), regions=np.ones((1, 5, 3))), tmp_path)
    np.testing.assert_array_equal(
        store.read("grid", "appearance").boxes, [[0, 0, 0.5, 0.5], [0.5, 0, 1, 0.5], [0, 0.5, 0.5, 1], [0.5, 0.5, 1, 1]]
    )
    np.testing.assert_array_equal(store.read("regions", "appearance").boxes, [[0, 0, 1, 1]] * 5)


@pytest.mark.parametrize(
    ("options", "times"),
    [([], [0, 0.5, 1]), (["--fps", "0.5"], [0, 2, 4]), (["--duration", "8"], [0, 4, 8])],
)
def test_times_are_as_told(tmp_path: Path, options: list[str], times: list[float]) -> None:
    store = imported(npz_per_video(tmp_path, v=frames()), tmp_path, *options)
    np.testing.assert_array_equal(store.read("v", "appearance").times, times)


def test_half_precision_rounds_by_no_more_than_it_says_and_single_precision_does_not(tmp_path: Path) -> None:
    values = np.random.default_rng(0).gamma(1.0, 3.0, (5, 64)).astype(np.float32)
    file = npz_per_video(tmp_path, v=values)
    half = imported(file, tmp_path / "half").read("v", "appearance").values[:, 0].astype(np.float32)
    assert np.abs(half / values - 1)[values > 1e-3].max() < 0.0005
    single = imported(file, tmp_path / "single", "--dtype", "float32").read("v", "appearance").values[:, 0]
    np.testing.assert_array_equal(single, values)


def test_settings_make_the_key_and_files_of_one_kind_share_it(tmp_path: Path) -> None:
    for name in ("train", "test"):
        (tmp_path / name).mkdir()
        store = imported(npz_per_video(tmp_path / name, **{name: frames()}), tmp_path, "--settings", "backbone=vgg16")
    assert store.streams() == ["appearance"]
    assert store.videos("appearance") == ["test", "train"]
    assert store.settings("appearance")["backbone"] == "vgg16"
    imported(tmp_path / "train" / "features.npz", tmp_path, "--settings", "backbone=vgg19")
    assert len(store.streams()) == 2


def test_numbered_msvd_videos_get_their_real_names(tmp_path: Path) -> None:
    (tmp_path / "youtube_mapping.txt").write_text("-4wsuPCjDBc_5_15 vid1\n")
    store = imported(npz_per_video(tmp_path, vid1=frames()), tmp_path, "--names", str(tmp_path / "youtube_mapping.txt"))
    assert store.videos("appearance") == ["-4wsuPCjDBc_5_15"]


# --- once more, and what goes wrong ---------------------------------------------------------------------------------


def test_what_is_there_is_skipped_unless_told_otherwise(tmp_path: Path) -> None:
    file = npz_per_video(tmp_path, a=frames(), b=frames())
    imported(file, tmp_path)
    np.savez(file, a=frames() + 1, c=frames())
    result = run(file, tmp_path / "store")
    assert "1 videos imported, 1 were there before, 0 not" in result.output
    store = Store(tmp_path / "store")
    assert store.read("a", "appearance").values[0, 0, 0] == 0
    imported(file, tmp_path, "--overwrite")
    assert store.read("a", "appearance").values[0, 0, 0] == 1


def test_bad_videos_are_listed_and_the_rest_is_imported(tmp_path: Path) -> None:
    nan, large = frames(), frames() * 1e6
    nan[1, 2] = np.nan
    file = npz_per_video(
        tmp_path,
        a=frames(),
        nan=nan,
        large=large,
        text=np.array(["x"]),
        objects=np.array([{}], dtype=object),
        narrow=frames(width=3),
        empty=np.zeros((0, 4)),
        deep=np.zeros((1, 1, 1, 1, 1)),
        z=frames(),
    )
    result = run(file, tmp_path / "store")
    assert result.exit_code == 1
    assert Store(tmp_path / "store").videos("appearance") == ["a", "z"]
    assert "2 videos imported, 0 were there before, 7 not imported" in result.output
    lines = [line for line in result.output.splitlines() if line.startswith("watchword: ")]
    assert len(lines) == 7
    for line, words in zip(
        lines,
        [
            "'nan': 1 of 12 values are NaN or infinite",
            "'large' has values up to 1.1e+07, too large for float16: --dtype float32",
            "'text' holds <U1 instead of numbers",
            "'objects': it holds Python objects (a pickle), which can run code",
            "'narrow' has features of width 3, the others of appearance have 4",
            "'empty' is empty: shape (0, 4)",
            "'deep' has shape (1, 1, 1, 1, 1), expected 1 to 4 axes",
        ],
        strict=True,
    ):
        assert words in line


class Trap:
    """What a hostile pickle does: something, when it is read."""

    def __reduce__(self) -> Any:
        return (os.mkdir, ("pickle_was_run",))


@pytest.mark.parametrize("ids", [False, True])
def test_no_pickle_is_ever_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: bool) -> None:
    monkeypatch.chdir(tmp_path)
    trap = np.array([Trap()], dtype=object)
    file = npz_per_video(tmp_path, ids=trap, feats=np.ones((1, 3))) if ids else npz_per_video(tmp_path, v=trap)
    assert run(file, tmp_path / "store").exit_code == 1
    assert not (tmp_path / "pickle_was_run").exists()


def test_a_packed_file_that_ends_early_keeps_what_came_before(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.ones((3, 2, 4), np.float32))
    names = io.BytesIO()
    np.save(names, np.array(["a", "b", "c"]))
    with zipfile.ZipFile(tmp_path / "cut.npz", "w") as archive:
        archive.writestr("ids.npy", names.getvalue())
        archive.writestr("feats.npy", content.getvalue()[:-20])
    result = run(tmp_path / "cut.npz", tmp_path / "store")
    assert result.exit_code == 1
    assert "2 videos imported, 0 were there before, 1 not imported" in result.output
    assert "it ends at video 3 of 3" in result.output
    assert Store(tmp_path / "store").videos("appearance") == ["a", "b"]


def test_damaged_bytes_inside_a_zip_are_noticed(tmp_path: Path) -> None:
    file = npz_per_video(tmp_path, a=np.random.default_rng(0).random((50, 50)), b=frames())
    raw = bytearray(file.read_bytes())
    raw[2000:2100] = bytes(100)
    file.write_bytes(raw)
    result = run(file, tmp_path / "store")
    assert result.exit_code == 1
    assert "cannot read video 'a'" in result.output
    assert Store(tmp_path / "store").videos("appearance") == ["b"]


@pytest.mark.parametrize("name", ["x.npz", "x.h5"])
@pytest.mark.parametrize("content", [b"", b"not at all", b"PK\x03\x04 half a zip"])
def test_a_broken_file_is_one_clear_line(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(WatchwordError, match=f"cannot read .*{name}: .*is it whole"), open_features(tmp_path / name):
        pass


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"ids": np.array(["a"]), "feats": np.ones((2, 3))}, r"1 ids but features of shape \(2, 3\)"),
        ({"ids": np.array(["a", "a"]), "feats": np.ones((2, 3))}, "video 'a' is there twice"),
        ({"ids": np.array([1, 2]), "feats": np.ones((2, 3))}, "ids must be a list of names"),
        ({"a": np.ones(3), "a.mp4": np.ones(3)}, "video 'a' is there twice"),
        ({}, "no arrays"),
    ],
)
def test_arrays_that_make_no_sense_are_one_clear_line(tmp_path: Path, arrays: dict[str, Any], message: str) -> None:
    file = npz_per_video(tmp_path, **arrays)
    with pytest.raises(WatchwordError, match=message), open_features(file):
        pass


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "bfloat16"], "--dtype must be float16 or float32"),
        (["--layout", "FX"], "--layout 'FX'"),
        (["--layout", "FN"], "--layout 'FN'"),
        (["--layout", "FHD"], "--layout 'FHD'"),
        (["--fps", "0"], "--fps must be above 0"),
        (["--duration", "-1"], "--duration must be above 0"),
        (["--fps", "1", "--duration", "2"], "give one"),
        (["--settings", "vgg16"], "expected key=value"),
    ],
)
def test_a_wrong_option_is_one_clear_line(tmp_path: Path, options: list[str], message: str) -> None:
    result = run(npz_per_video(tmp_path, v=frames()), tmp_path / "store", *options)
    assert isinstance(result.exception, WatchwordError)
    assert message in str(result.exception)


@pytest.mark.parametrize(
    ("name", "message"), [("x.pkl", "expected .npz"), ("no.npz", "no such file"), (".", "no .npy")]
)
def test_what_cannot_be_imported_is_named(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "x.pkl").write_bytes(b"")
    with pytest.raises(WatchwordError, match=message), open_features(tmp_path / name):
        pass


def test_a_full_disk_stops_the_import_at_once_with_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = npz_per_video(tmp_path, **{f"v{number}": frames() for number in range(9)})
    really, calls = os.replace, []

    def full_after_four(source: Path, target: Path) -> None:
        calls.append(target)
        if len(calls) > 5:  # settings.json is the first
            raise OSError(errno.ENOSPC, "No space left on device")
        really(source, target)

    monkeypatch.setattr(os, "replace", full_after_four)
    result = run(file, tmp_path / "store")
    assert result.exit_code == 1
    assert "4 videos imported, 0 were there before, 5 not imported" in result.output
    assert result.output.count("the disk is full") == 1
    assert len(calls) == 6


def test_the_error_line_reaches_the_terminal_without_a_traceback(tmp_path: Path) -> None:
    words = ["features", "import", str(tmp_path / "none.npz"), "--store", str(tmp_path), "--stream", "s"]
    result = subprocess.run(
        [sys.executable, "-m", "watchword", *words],
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert result.stderr.startswith("watchword: no such file or folder: ")
    assert result.stderr.count("\n") == 1


def test_one_video_at_a_time_is_in_memory(tmp_path: Path) -> None:
    np.savez_compressed(
        tmp_path / "large.npz", ids=np.array([f"v{i}" for i in range(50)]), feats=np.zeros((50, 20, 20_000), np.float32)
    )
    tracemalloc.start()
    with open_features(tmp_path / "large.npz") as file:
        outcomes = list(import_features(file, Store(tmp_path / "store"), "s", Rules()))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not any(outcome.problem for outcome in outcomes)
    assert peak < 20e6, "the whole array is 80 MB, one video 1.6 MB"


@pytest.mark.slow
@pytest.mark.skipif(not VGG16.exists(), reason="the shared data is not on this machine")
def test_the_whole_of_msvd_comes_in(tmp_path: Path) -> None:
    store = imported(VGG16, tmp_path)
    with np.load(VGG16) as file:
        ids, feats, scale = file["ids"].tolist(), file["feats"], file["scale"]
    assert store.videos("appearance") == sorted(ids)
    for row in range(0, len(ids), 197):
        read = store.read(ids[row], "appearance")
        expected = ((feats[row].astype("f4") * scale) ** 2).T
        np.testing.assert_allclose(read.values[:, 0], expected, rtol=2**-11, atol=1e-7)
