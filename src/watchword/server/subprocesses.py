"""Processes with limits, in which videos are decoded: a file that crashes a decoder does not crash the server.

A process gets requests and sends responses, one line of JSON each. It cannot write files. Its memory and the CPU time
of each request are limited. It ends with the server, however that ends. It is killed when it is silent for too long,
and started again for the next request. JSON, not pickles: a decoder that a file has taken over can lie about that
file, and nothing else.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import watchword
from watchword.errors import WatchwordError

Message = dict[str, Any]
MAX_LINE = 1 << 28  # bytes: the explanation of a video of many hours has some ten million


class ProcessDied(WatchwordError):  # noqa: N818
    """The process ended within a response; `is_final` when a retry would end the same way."""

    def __init__(self, reason: str, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final


class Subprocess:
    """One process, started for its first request. One thread sends requests at a time; any thread may stop it."""

    def __init__(
        self, module: str, *arguments: str, silence_seconds: float, environment: Mapping[str, str] | None = None
    ) -> None:
        self.module, self.arguments, self.silence_seconds = module, arguments, silence_seconds
        self.environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.lines: queue.Queue[bytes] = queue.Queue()

    def request(self, request: Message) -> Generator[Message]:
        """The messages of the response; WatchwordError where the process reports an error."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        process = self.process
        assert process is not None
        assert process.stdin is not None
        with suppress(OSError, ValueError):  # it died or was stopped: reading finds out why
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        try:
            while True:
                message = self._read(process)
                if message.get("trace"):
                    print(message["trace"], file=sys.stderr)
                if message.get("ends"):
                    process.wait()
                if "error" in message:
                    break
                if message == {"done": True}:
                    return
                yield message
        except GeneratorExit:  # the rest of this response must not be read as the next one
            self.stop()
            raise
        raise WatchwordError(str(message["error"]))

    def stop(self) -> None:
        """Kills it. The next request starts another."""
        process = self.process
        if process is not None:
            process.kill()
            process.wait()
            _close_input(process)

    def _start(self) -> None:
        source = str(Path(watchword.__file__).parents[1])  # the process runs the same code
        path = os.pathsep.join(filter(None, (source, os.environ.get("PYTHONPATH"))))
        command = [sys.executable, "-P", "-m", self.module, *self.arguments]
        env = {**os.environ, **self.environment, "PYTHONPATH": path}
        if self.process is not None:
            _close_input(self.process)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=True,  # Ctrl-C is for the server
        )
        self.lines = queue.Queue()
        for receive, pipe in ((self.lines.put, self.process.stdout), (_print, self.process.stderr)):
            threading.Thread(target=_collect, args=(pipe, receive), daemon=True).start()

    def _read(self, process: "subprocess.Popen[bytes]") -> Message:
        try:
            line = self.lines.get(timeout=self.silence_seconds)
        except queue.Empty:
            self.stop()
            raise ProcessDied(f"no response for {self.silence_seconds:g} s", is_final=True) from None
        if not line:
            raise _died(process.wait())
        try:
            message = json.loads(line)
            if isinstance(message, dict):
                return message
        except ValueError:
            pass
        self.stop()
        raise ProcessDied("its decoder process sent invalid JSON", is_final=True)


def _close_input(process: "subprocess.Popen[bytes]") -> None:
    """Its readers close the other pipes."""
    with suppress(OSError):  # a request that nobody read is flushed once more
        assert process.stdin is not None
        process.stdin.close()


def _collect(pipe: IO[bytes], receive: Callable[[bytes], None]) -> None:
    """An empty line is the end."""
    with pipe:
        while line := pipe.readline(MAX_LINE):
            receive(line)
    receive(b"")


def _print(line: bytes) -> None:
    """Through the server: the process may write no file, and the server's stderr may be one."""
    sys.stderr.write(line.decode("utf-8", "backslashreplace"))


def _died(status: int) -> ProcessDied:
    if status == -signal.SIGXCPU:
        return ProcessDied("it takes too much time to decode", is_final=True)
    by = signal.Signals(-status).name if status < 0 else f"status {status}"
    return ProcessDied(f"its decoder crashed ({by})", is_final=False)


# --- inside the process --------------------------------------------------------------------------------------------

Handler = Callable[[Message], Iterator[Message]]


def serve_requests(handle: Handler, memory_bytes: int) -> None:
    """The main loop of a process: sets its limits, then handles requests until the server closes its input."""
    send = _sender()
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    limit_memory(memory_bytes)
    while True:
        request = json.loads(requests.get())
        limit_time(request["cpu_seconds"])
        try:
            for message in handle(request):
                send(message)
            send({"done": True})
        except WatchwordError as error:
            send({"error": str(error)})
        except MemoryError:
            send({"error": "it takes too much memory", "ends": True})
            return  # other objects may be broken too
        except Exception as error:
            line = f"it cannot be read ({type(error).__name__}: {error})"
            send({"error": line, "trace": traceback.format_exc(), "ends": True})
            return


def _sender() -> Callable[[Message], None]:
    """Only messages go through the pipe to the server: what libraries print goes to stderr."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def send(message: Message) -> None:
        pipe.write(json.dumps(message).encode() + b"\n")
        pipe.flush()

    return send


def _listen(requests: "queue.Queue[bytes]") -> None:
    """The end of the input is the end of the server: the process ends too, whatever it is doing."""
    for line in sys.stdin.buffer:
        requests.put(line)
    os._exit(0)


def limit_memory(memory_bytes: int) -> None:
    """So much more than is in use now; no files and no core dumps from here on."""
    try:
        import resource
    except ImportError:  # Windows: a silent process is still killed
        return
    used = 0
    with suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        used = next((int(line.split()[1]) << 10 for line in status if line.startswith("VmData:")), 0)
    for kind, most in (
        (resource.RLIMIT_DATA, used + memory_bytes),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        with suppress(ValueError, OSError):  # lower already
            resource.setrlimit(kind, (most, most))


def limit_time(cpu_seconds: float) -> None:
    """From now on; CPU seconds, so that a busy machine does not count."""
    try:
        import resource
    except ImportError:
        return
    spent = resource.getrusage(resource.RUSAGE_SELF)
    most = int(spent.ru_utime + spent.ru_stime + cpu_seconds) + 1
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_CPU, (most, resource.getrlimit(resource.RLIMIT_CPU)[1]))
