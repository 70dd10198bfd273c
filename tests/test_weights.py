"""Weights arrive right or not at all, and no file runs code."""

import collections
import dataclasses
import importlib.metadata
import os
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from watchword import downloads
from watchword.backbones import weights
from watchword.backbones.formats import read_pickled_arrays, read_torch
from watchword.downloads import PackagedFile
from watchword.errors import WatchwordError


class Malicious:
    """Makes a file when unpickled, if the unpickler lets it."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self.target}",)


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedFile:
    """A packaged whose package nobody has, its file already in the cache, and no way to the network."""
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    content = pickle.dumps({"params": {"layer": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}})
    source = tmp_path / "source.ckpt"
    source.write_bytes(content)
    digest = downloads.sha256_of(source)
    packaged = PackagedFile("tiny", "nobody-has-this==1.0", "tiny.ckpt", digest, len(content), "-", "-")
    packaged.path.parent.mkdir(parents=True)
    source.rename(packaged.path)
    monkeypatch.setitem(weights.WEIGHTS, "tiny", packaged)
    return packaged


def test_packaged_weights_are_converted_once_and_then_need_no_package(packaged: PackagedFile) -> None:
    first = weights.load_weights("tiny")
    assert first["params/layer/kernel"].tolist() == [[0, 1, 2], [3, 4, 5]]
    packaged.path.unlink()
    again = weights.load_weights("tiny")
    assert again.keys() == first.keys()
    assert torch.equal(again["params/layer/kernel"], first["params/layer/kernel"])
    assert weights.is_present("tiny")


def test_a_packaged_file_with_the_wrong_hash_is_not_read(packaged: PackagedFile) -> None:
    packaged.path.write_bytes(b"x" + packaged.path.read_bytes())
    with pytest.raises(WatchwordError, match=r"expected .* changed or damaged; delete it and try again"):
        weights.load_weights("tiny")
    assert not weights.converted_path(packaged).exists()


def test_a_download_with_the_wrong_hash_is_not_kept(packaged: PackagedFile, monkeypatch: pytest.MonkeyPatch) -> None:
    content = packaged.path.read_bytes()
    packaged.path.unlink()

    def take_out(archive: Path, packaged: PackagedFile, folder: Path) -> Path:
        (folder / "member").write_bytes(content + b"more")
        return folder / "member"

    monkeypatch.setattr(downloads, "_download", lambda packaged, folder, report: folder)
    monkeypatch.setattr(downloads, "_take_out", take_out)
    with pytest.raises(WatchwordError, match="not kept"):
        weights.load_weights("tiny")
    assert not weights.is_present("tiny")


def test_without_a_network_the_error_is_one_line_that_names_the_package(
    packaged: PackagedFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    packaged.path.unlink()
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # pip then finds nothing, as on a plane
    with pytest.raises(WatchwordError, match=r"cannot fetch nobody-has-this==1.0 .*are you online\?") as error:
        weights.load_weights("tiny")
    assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_cache_folder_without_permission_says_so(packaged: PackagedFile) -> None:
    folder = weights.converted_path(packaged).parent.parent
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(WatchwordError, match="set WATCHWORD_CACHE to another folder"):
            weights.load_weights("tiny")
    finally:
        folder.chmod(stat.S_IRWXU)


def test_a_cache_folder_that_cannot_be_made_says_so(packaged: PackagedFile) -> None:
    weights.converted_path(packaged).parent.write_text("a file where the folder should be")
    with pytest.raises(WatchwordError, match="set WATCHWORD_CACHE to another folder"):
        weights.load_weights("tiny")


def test_unknown_weights_are_answered_with_the_nearest_name() -> None:
    with pytest.raises(WatchwordError, match="did you mean 'i3d'"):
        weights.load_weights("i3d_")


def test_an_installed_package_is_read_in_place_and_only_at_the_pinned_version() -> None:
    version = importlib.metadata.version("platformdirs")
    packaged = PackagedFile("x", f"platformdirs=={version}", "platformdirs/version.py", "", 0, "", "")
    path = weights.installed_member(packaged)
    assert path is not None
    assert path.name == "version.py"
    assert weights.installed_member(dataclasses.replace(packaged, package="platformdirs==0.0.1")) is None
    assert weights.installed_member(dataclasses.replace(packaged, member="no/such.file")) is None


@pytest.mark.parametrize("protocol", [3, 4])  # 5 and those before 3 name other functions: refused
def test_pickled_arrays_keep_shape_order_and_type(tmp_path: Path, protocol: int) -> None:
    arrays = {
        "plain": np.arange(6, dtype=np.float32).reshape(2, 3),
        "columns": np.asfortranarray(np.arange(6, dtype=np.float64).reshape(2, 3)),
        "swapped": np.arange(3, dtype=">i4"),
        "nested": collections.OrderedDict(small=np.float32([7]), zero=np.zeros((0, 2), np.float32)),
    }
    path = tmp_path / "arrays.ckpt"
    path.write_bytes(pickle.dumps(arrays, protocol=protocol))
    read = read_pickled_arrays(path)
    assert list(read) == ["plain", "columns", "swapped", "nested/small", "nested/zero"]
    assert read["columns"].tolist() == read["plain"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert read["swapped"].tolist() == [0, 1, 2]
    assert read["columns"].dtype == torch.float64
    assert read["nested/zero"].shape == (0, 2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda evil: evil,
        lambda evil: {"params": evil},
        lambda evil: {"params": np.array([evil], dtype=object)},
    ],
    ids=["bare", "in a dictionary", "inside an array of objects"],
)
def test_a_malicious_pickle_is_refused_and_nothing_runs(tmp_path: Path, wrap: object) -> None:
    target, path = tmp_path / "it_ran", tmp_path / "evil.ckpt"
    path.write_bytes(pickle.dumps(wrap(Malicious(target))))  # type: ignore[operator]
    with pytest.raises(WatchwordError, match=r"cannot read .*evil.ckpt"):
        read_pickled_arrays(path)
    torch.save(wrap(Malicious(target)), tmp_path / "evil.pth")  # type: ignore[operator]
    with pytest.raises(WatchwordError, match="could run code"):
        weights.load_user_weights(tmp_path / "evil.pth")
    assert not target.exists()
    pickle.loads(path.read_bytes())  # the trap is real: the open unpickler falls into it
    assert target.exists()


@pytest.mark.parametrize("name", ["builtins.eval", "builtins.getattr", "numpy.load", "numpy.core.multiarray.scalar"])
def test_a_pickle_may_name_nothing_but_arrays(tmp_path: Path, name: str) -> None:
    module, _, attribute = name.rpartition(".")
    path = tmp_path / "evil.ckpt"
    path.write_bytes(f"c{module}\n{attribute}\n.".encode())
    with pytest.raises(WatchwordError, match=f"asks for {name}"):
        read_pickled_arrays(path)


@pytest.mark.parametrize("content", [b"", b"not a pickle", pickle.dumps([1, 2]), pickle.dumps({"a": "text"})])
def test_a_pickle_of_something_else_is_one_clear_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "other.ckpt"
    path.write_bytes(content)
    with pytest.raises(WatchwordError, match="cannot read") as error:
        read_pickled_arrays(path)
    assert "\n" not in str(error.value)


def test_an_array_shorter_than_its_shape_is_refused(tmp_path: Path) -> None:
    content = pickle.dumps({"a": np.zeros((5, 7), np.float32)}, protocol=3)
    path = tmp_path / "short.ckpt"
    path.write_bytes(content.replace(b"K\x05K\x07", b"K\x09K\x07"))  # says 9 rows, carries 5
    with pytest.raises(WatchwordError, match="does not match its bytes"):
        read_pickled_arrays(path)


def test_a_users_checkpoint_may_be_wrapped_and_parallel(tmp_path: Path) -> None:
    tensors = {"conv1.weight": torch.ones(2, 2)}
    parallel = {f"module.{name}": value for name, value in tensors.items()}
    torch.save({"epoch": 3, "state_dict": parallel}, tmp_path / "a.pth")
    torch.save(collections.OrderedDict(tensors), tmp_path / "b.pickle", _use_new_zipfile_serialization=False)
    safetensors.torch.save_file(tensors, tmp_path / "c.safetensors")
    for name in ("a.pth", "b.pickle", "c.safetensors"):
        read = weights.load_user_weights(tmp_path / name)
        assert list(read) == ["conv1.weight"]
        assert torch.equal(read["conv1.weight"], tensors["conv1.weight"])


def test_a_users_file_that_is_no_checkpoint_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "a.pth").write_text("hello")
    (tmp_path / "a.safetensors").write_text("hello")
    torch.save([1, 2], tmp_path / "list.pth")
    torch.save({"epoch": 1}, tmp_path / "empty.pth")
    for name in ("a.pth", "a.safetensors", "list.pth", "empty.pth", "missing.pth"):
        with pytest.raises(WatchwordError) as error:
            weights.load_user_weights(tmp_path / name)
        assert "\n" not in str(error.value)
    with pytest.raises(WatchwordError, match="no state dictionary"):
        read_torch(tmp_path / "empty.pth")
