"""Children of the server: whatever a video does to its decoder, the server stays."""

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchword.errors import WatchwordError
from watchword.server.subprocesses import ProcessDied, Subprocess


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> Iterator[Subprocess]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    child = Subprocess("misbehaving_process", silence_seconds=60)
    yield child
    child.stop()


def ask(child: Subprocess, do: str, cpu_seconds: float = 10, **words: str) -> list[dict[str, object]]:
    return list(child.request({"do": do, "cpu_seconds": cpu_seconds, **words}))


def is_alive(child: Subprocess) -> bool:
    return ask(child, "echo", words="still here")[0]["said"] == "still here"


def test_a_child_answers_again_and_again_and_is_one_process(child: Subprocess) -> None:
    first, second = (ask(child, "echo", words=words)[0] for words in ("one", "two\nlines"))
    assert (first["said"], second["said"]) == ("one", "two\nlines")
    assert first["pid"] == second["pid"] != os.getpid()


def test_a_crash_is_told_and_the_next_question_is_answered(child: Subprocess) -> None:
    with pytest.raises(ProcessDied, match=r"crashed \(SIGSEGV\)") as caught:
        ask(child, "crash")
    assert not caught.value.is_final
    assert is_alive(child)


def test_a_question_has_its_own_cpu_time(child: Subprocess) -> None:
    begun = time.process_time()
    with pytest.raises(ProcessDied, match="too much time") as caught:
        ask(child, "spin", cpu_seconds=0.3)
    assert caught.value.is_final
    assert time.process_time() - begun < 1
    assert is_alive(child)


def test_memory_is_limited(child: Subprocess) -> None:
    with pytest.raises(WatchwordError, match="too much memory"):
        ask(child, "swell")
    assert is_alive(child)


def test_no_file_can_be_written(child: Subprocess, tmp_path: Path) -> None:
    path = tmp_path / "note"
    assert ask(child, "write", path=str(path)) == [{"errno": errno.EFBIG}]
    assert not path.read_bytes()


def test_what_a_library_prints_is_not_an_answer(child: Subprocess) -> None:
    assert ask(child, "print") == [{"said": "hello"}]


def test_a_silent_child_is_given_up(child: Subprocess) -> None:
    assert is_alive(child)
    child.silence_seconds = 0.5
    with pytest.raises(ProcessDied, match="no response"):
        ask(child, "sleep")
    child.silence_seconds = 60
    assert is_alive(child)


def test_a_child_that_babbles_is_not_believed(child: Subprocess) -> None:
    with pytest.raises(ProcessDied, match="invalid JSON"):
        ask(child, "babble")
    assert is_alive(child)


def test_a_problem_is_told_as_it_is_and_a_bug_ends_the_child_alone(
    child: Subprocess, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(WatchwordError, match="it is a poem"):
        ask(child, "refuse")
    with pytest.raises(WatchwordError, match="ZeroDivisionError"):
        ask(child, "break")
    assert "misbehaving_process.py" in capfd.readouterr().err  # for whoever mends it
    assert is_alive(child)


def test_an_answer_that_nobody_waits_for_is_not_taken_for_the_next(child: Subprocess) -> None:
    answers = child.request({"do": "sleep", "cpu_seconds": 10})
    assert next(answers) == {"said": "good night"}
    answers.close()
    assert is_alive(child)


def test_a_child_ends_with_its_server_even_when_that_is_killed(tmp_path: Path) -> None:
    script = (
        "from watchword.server.subprocesses import Subprocess\n"
        "child = Subprocess('misbehaving_process', silence_seconds=60)\n"
        "print(next(child.request({'do': 'echo', 'words': '', 'cpu_seconds': 60}))['pid'], flush=True)\n"
        "list(child.request({'do': 'sleep', 'cpu_seconds': 60}))\n"
    )
    path = os.pathsep.join([str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": path}
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment, text=True) as server:
        assert server.stdout is not None
        pid = int(server.stdout.readline())
        server.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 20
    while _runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _runs(pid)


def _runs(pid: int) -> bool:
    """A process whose parent is gone may stay as a zombie where nobody collects it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
