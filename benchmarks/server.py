"""The server under load: videos uploaded at the same time, and the response times of the page meanwhile.

    python benchmarks/server.py VIDEO [--uploads 50] [--queue 16] [--model RUN]

Starts `watchword serve` on a free port with a library of its own. All uploads begin at once, each from a thread with a
connection of its own, and each is a video of its own to the server (an MP4 ends in a few free bytes that differ).
Another thread asks for the page and for the list of jobs all the time, from before the first upload until all videos
that were taken are described. Prints what was answered, how long it took, and the memory of all processes.
"""

import argparse
import http.client
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


class Memory(threading.Thread):
    """The most that the server and its children held, by process, from /proc; looked at ten times a second."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.pid = pid
        self.most: dict[str, int] = {}
        self.most_together = 0
        self.done = threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.1):
            now = {self.name_of(pid): self.resident(pid) for pid in (self.pid, *self.children())}
            self.most_together = max(self.most_together, sum(now.values()))
            self.most = {name: max(size, self.most.get(name, 0)) for name, size in (self.most | now).items()}

    def children(self) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(path.read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if parent == self.pid:
                found.append(int(path.parent.name))
        return found

    def name_of(self, pid: int) -> str:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        except OSError:
            return "gone"
        kind = next((word.rpartition(".")[2] for word in words if word.startswith("watchword.server.")), "server")
        return f"{kind} {pid}"

    def resident(self, pid: int) -> int:
        try:
            return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, IndexError):
            return 0


def ask(port: int, method: str, path: str, body: bytes | None = None, name: str = "") -> tuple[int, bytes, float]:
    begun = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    try:
        connection.request(method, path, body, {"X-Watchword-Name": name} if name else {})
        response = connection.getresponse()
        return response.status, response.read(), time.perf_counter() - begun
    except OSError as error:
        return 0, str(error).encode(), time.perf_counter() - begun
    finally:
        connection.close()


def expand_state(seconds: Sequence[float]) -> str:
    ordered = sorted(seconds)
    last = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return (
        f"p50 {statistics.median(ordered) * 1000:.0f} ms, p99 {last * 1000:.0f} ms, "
        f"most {ordered[-1] * 1000:.0f} ms, {len(ordered)} times"
    )


def main() -> None:
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("video", type=Path, help="an MP4")
    words.add_argument("--uploads", type=int, default=50)
    words.add_argument("--queue", type=int, default=16)
    words.add_argument("--model")
    asked = words.parse_args()
    video = asked.video.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "watchword", "serve", "--port", "0", "--queue", str(asked.queue)]
        command += ["--library", str(Path(folder) / "library.db"), *(["--model", asked.model] if asked.model else [])]
        begun = time.perf_counter()
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            print(line.strip(), f"after {time.perf_counter() - begun:.1f} s", flush=True)
            measure(int(line.split(":")[3].split("/")[0]), server.pid, video, asked.uploads)
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(60)
            times = os.times()
            print(f"CPU seconds of the server and its children: {times.children_user + times.children_system:.1f}")


def measure(port: int, pid: int, video: bytes, num_uploads: int) -> None:
    memory = Memory(pid)
    memory.start()
    waits: dict[str, list[float]] = {"GET /": [], "GET /api/jobs": []}
    statuses: Counter[int] = Counter()
    done = threading.Event()

    def visit() -> None:
        while not done.wait(0.05):
            for path in ("/", "/api/jobs"):
                status, _, seconds = ask(port, "GET", path)
                statuses[status] += 1
                waits[f"GET {path}"].append(seconds)

    quiet = threading.Thread(target=visit)
    quiet.start()
    time.sleep(3)
    done.set()
    quiet.join()
    for name, seconds in waits.items():
        print(f"{name} before: {expand_state(seconds)}")
        seconds.clear()
    done.clear()

    start = threading.Barrier(num_uploads)
    answers: list[tuple[int, bytes, float]] = []

    def upload(number: int) -> None:
        body = video + (12).to_bytes(4, "big") + b"free" + number.to_bytes(4, "big")
        start.wait()
        answers.append(ask(port, "POST", "/api/videos", body, f"video{number}.mp4"))

    visitor = threading.Thread(target=visit)
    visitor.start()
    begun = time.perf_counter()
    threads = [threading.Thread(target=upload, args=(number,)) for number in range(num_uploads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answered = time.perf_counter() - begun
    while any(state in ask(port, "GET", "/api/jobs")[1] for state in (b'"waiting"', b'"working"')):
        time.sleep(0.5)
    described = time.perf_counter() - begun
    done.set()
    visitor.join()
    memory.done.set()
    print(f"{num_uploads} uploads of {len(video) / 1e6:.1f} MB: {dict(Counter(status for status, _, _ in answers))}")
    for status in sorted({status for status, _, _ in answers}):
        print(f"  {status}: {expand_state([seconds for one, _, seconds in answers if one == status])}")
    print(f"all answered after {answered:.1f} s, all that were taken described after {described:.1f} s")
    for name, seconds in waits.items():
        print(f"{name} meanwhile: {expand_state(seconds)}")
    print(f"answers to these: {dict(statuses)}")
    for name, size in sorted(memory.most.items()):
        print(f"  {name}: at most {size / 1e6:.0f} MB")
    print(f"together at most {memory.most_together / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
