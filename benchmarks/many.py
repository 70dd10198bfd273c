"""What does one more video cost in a job of many? CPU seconds, bytes of output, memory of a process.

    python benchmarks/many.py VIDEOS [--model light] [--workers 1] [--few 4] [--many 16]
    python benchmarks/many.py VIDEOS --library [--model light] [--workers 2] [--many 10]

`watchword describe --format jsonl` is run as a command over the first few and over more videos of a folder; the
difference is the cost of one more, without start-up. CPU seconds count all workers; the memory is that of the largest
process.

`--library`: the first videos are added to a library by one process, and by a Ray cluster of this machine with so many
workers. What comes before the first video is in the library is start-up; the rest is shared among the other videos.
CPU seconds count every process that the command starts, Ray's own too, up to the last half second of each (Linux only).
"""

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

from watchword.video.formats import VIDEO_SUFFIXES, files_below


def measure(videos: list[Path], model: str, workers: int) -> tuple[float, int, float]:
    """CPU seconds, bytes of the output, and megabytes of the largest process."""
    with tempfile.TemporaryDirectory() as folder:
        output, listed = Path(folder) / "captions.jsonl", Path(folder) / "videos.txt"
        listed.write_text("".join(f"{path}\n" for path in videos))
        command = [sys.executable, "-m", "watchword", "describe", "--list", str(listed), "--output", str(output)]
        process = subprocess.Popen(
            [*command, "--model", model, "--workers", str(workers)],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        _, status, usage = os.wait4(process.pid, 0)
        if os.waitstatus_to_exitcode(status) not in (0, 1):  # 1: a video could not be read
            raise SystemExit(f"the command failed: {command}")
        return usage.ru_utime + usage.ru_stime, output.stat().st_size, usage.ru_maxrss / 1024


class Family:
    """CPU seconds of a command and of all processes below it, which are known by a word in their environment."""

    def __init__(self, command: list[str]) -> None:
        self.mark = f"WATCHWORD_BENCHMARK={uuid.uuid4().hex}"
        self.seconds: dict[str, float] = {}
        name, _, value = self.mark.partition("=")
        given = {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1", name: value}
        self.process = subprocess.Popen(command, env={**os.environ, **given}, stdout=subprocess.PIPE, text=True)
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()

    def watch(self) -> None:
        while not self.is_over.wait(0.5):
            self.look()

    def look(self) -> float:
        """CPU seconds so far, those of processes that have ended included."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if self.mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                    fields = (folder / "stat").read_text().rpartition(")")[2].split()
                    ticks = int(fields[11]) + int(fields[12])  # user and system
                    self.seconds[folder.name] = ticks / os.sysconf("SC_CLK_TCK")
            except OSError:  # it has ended
                continue
        return sum(self.seconds.values())

    def lines(self) -> list[tuple[float, float]]:
        """(CPU, clock) seconds when each line was printed; the last are those of the end."""
        begin, found = time.perf_counter(), []
        assert self.process.stdout is not None
        for _ in self.process.stdout:
            found.append((self.look(), time.perf_counter() - begin))
        status = self.process.wait()
        self.is_over.set()
        self.thread.join()
        if status not in (0, 1) or len(found) < 2:
            raise SystemExit(f"the command failed, or described fewer than two videos: {self.process.args}")
        return [*found, (self.look(), time.perf_counter() - begin)]


def fill_library(videos: list[Path], model: str, engine: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "watchword", "library", "add", *map(str, videos), "--model", model]
        found = Family([*command, *engine, "--library", f"{folder}/library.db"]).lines()
    (first, began), (last, ended), (whole, clock) = found[0], found[-2], found[-1]
    others = len(found) - 2
    name = " ".join(engine) or "one process"
    print(
        f"{name}: {others + 1} videos in {whole:.1f} CPU s, {clock:.1f} s; the first after {first:.1f} CPU s, "
        f"{began:.1f} s, each other {(last - first) / others:.2f} CPU s, {(ended - began) / others:.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--model", default="light")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--few", type=int, default=4)
    parser.add_argument("--many", type=int, default=16)
    parser.add_argument("--library", action="store_true")
    options = parser.parse_args()
    videos = files_below(options.videos, VIDEO_SUFFIXES)
    if options.library:
        for engine in ([], ["--engine", "ray", "--workers", str(max(2, options.workers))]):
            fill_library(videos[: options.many], options.model, engine)
        return
    few, _, _ = measure(videos[: options.few], options.model, options.workers)
    many, size, megabytes = measure(videos[: options.many], options.model, options.workers)
    each = (many - few) / (options.many - options.few)
    print(
        f"{options.model}, {options.workers} workers: {each:.2f} CPU s a video, start-up {few - each * options.few:.1f}"
    )
    print(f"{size / options.many:.0f} bytes a line, at most {megabytes:.0f} MB a process")


if __name__ == "__main__":
    main()
