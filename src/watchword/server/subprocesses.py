"""Processes that a film may break: whatever it does to its decoder, the server stays.

A child is asked, one line of JSON each way, and answers until it says that it is done. It can write no file, its memory
and the CPU time of each question are limited, and it ends when its server does, however that ends. It is killed when
it is silent for too long, and started anew when it is asked again. JSON and not pickles: a decoder that was taken over
by a film can say wrong things about that film, and nothing else.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import watchword
from watchword.errors import WatchwordError

Message = dict[str, Any]
LONGEST_LINE = 1 << 28  # bytes: the evidence of a film of many hours is some ten million


class ChildDied(WatchwordError):  # noqa: N818 - it is what happened
    """The process ended in the middle of an answer; `is_final` when it would do so again."""

    def __init__(self, reason: str, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Child:
    """One process, started when it is first asked. One thread asks at a time; any thread may stop it."""

    def __init__(self, program: str, *words: str, silence_seconds: float) -> None:
        self.program, self.words, self.silence_seconds = program, words, silence_seconds
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: queue.Queue[bytes] = queue.Queue()

    def ask(self, question: Message) -> Generator[Message]:
        """What the child says, until it is done; WatchwordError where it says that there is a problem."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        process = self.process
        assert process is not None
        assert process.stdin is not None
        with suppress(OSError):  # it died: reading finds out why
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
        try:
            while True:
                message = self._read(process)
                if message.get("trace"):
                    print(message["trace"], file=sys.stderr)
                if message.get("ends"):
                    process.wait()
                if "problem" in message:
                    break
                if message == {"done": True}:
                    return
                yield message
        except GeneratorExit:  # nobody wants the rest, which must not be taken for the next answer
            self.stop()
            raise
        raise WatchwordError(str(message["problem"]))

    def stop(self) -> None:
        """At once, whatever it is doing."""
        process = self.process
        if process is not None:
            process.kill()
            process.wait()  # so that whoever asks next finds it dead

    def _start(self) -> None:
        ours = str(Path(watchword.__file__).parents[1])  # a child of the same code, however that was found
        path = os.pathsep.join(filter(None, (ours, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-P", "-m", self.program, *self.words]
        env = {"OMP_WAIT_POLICY": "passive", **os.environ, "PYTHONPATH": path}  # waiting threads leave their core alone
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=env, start_new_session=True,  # Ctrl-C is for the server
        )  # fmt: skip
        self.lines = queue.Queue()
        for listen, pipe in ((self.lines.put, self.process.stdout), (_print, self.process.stderr)):
            threading.Thread(target=_collect, args=(pipe, listen), daemon=True).start()

    def _read(self, process: "subprocess.Popen[bytes]") -> Message:
        try:
            line = self.lines.get(timeout=self.silence_seconds)
        except queue.Empty:
            self.stop()
            raise ChildDied(f"nothing came for {self.silence_seconds:g} s", is_final=True) from None
        if not line:
            raise _died(process.wait())
        try:
            message = json.loads(line)
            if isinstance(message, dict):
                return message
        except ValueError:
            pass
        self.stop()
        raise ChildDied("its decoder went mad", is_final=True)


def _collect(pipe: IO[bytes], listen: Callable[[bytes], None]) -> None:
    """An empty line is the end."""
    with pipe:
        while line := pipe.readline(LONGEST_LINE):
            listen(line)
    listen(b"")


def _print(line: bytes) -> None:
    """Through us: the child may write no file, and our error output may be one."""
    sys.stderr.write(line.decode("utf-8", "backslashreplace"))


def _died(status: int) -> ChildDied:
    if status == -signal.SIGXCPU:
        return ChildDied("it takes too much time to decode", is_final=True)
    by = signal.Signals(-status).name if status < 0 else f"status {status}"
    return ChildDied(f"its decoder crashed ({by})", is_final=False)


# --- inside the child ----------------------------------------------------------------------------------------------

Answer = Callable[[Message], Iterator[Message]]


def answer_questions(answer: Answer, memory_bytes: int) -> None:
    """The child's life: limits itself, then answers what comes in, until the other end is gone."""
    say = _voice()
    questions: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(questions,), daemon=True).start()
    limit_memory(memory_bytes)
    while True:
        question = json.loads(questions.get())
        limit_time(question["cpu_seconds"])
        try:
            for message in answer(question):
                say(message)
            say({"done": True})
        except WatchwordError as error:
            say({"problem": str(error)})
        except MemoryError:
            say({"problem": "it takes too much memory", "ends": True})
            return  # what else failed for want of memory?
        except Exception as error:
            problem = f"it cannot be read ({type(error).__name__}: {error})"
            say({"problem": problem, "trace": traceback.format_exc(), "ends": True})
            return


def _voice() -> Callable[[Message], None]:
    """The pipe to the server is for messages alone: whatever a library prints goes to the error output."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def say(message: Message) -> None:
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    return say


def _listen(questions: "queue.Queue[bytes]") -> None:
    """Nobody is left to answer to when the input ends: also in the middle of a film, also after a kill."""
    for line in sys.stdin.buffer:
        questions.put(line)
    os._exit(0)


def limit_memory(memory_bytes: int) -> None:
    """So much more than is in use now; and no file, and no picture of the memory, is written from here on."""
    try:
        import resource
    except ImportError:  # Windows: a silent child is still killed
        return
    used = 0
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        used = next((int(line.split()[1]) << 10 for line in status if line.startswith("VmData:")), 0)
    for kind, most in (
        (resource.RLIMIT_DATA, used + memory_bytes), (resource.RLIMIT_FSIZE, 0), (resource.RLIMIT_CORE, 0),
    ):  # fmt: skip
        with suppress(ValueError, OSError):  # lower already
            resource.setrlimit(kind, (most, most))


def limit_time(cpu_seconds: float) -> None:
    """From now on; CPU seconds, because a busy machine is not the film's fault."""
    try:
        import resource
    except ImportError:
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    most = int(spent.ru_utime + spent.ru_stime + cpu_seconds) + 1
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
