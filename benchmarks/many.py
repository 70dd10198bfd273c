"""What does one more video cost in a job of many? CPU seconds, bytes of output, memory of a process.

    python benchmarks/many.py VIDEOS [--model light] [--workers 1] [--few 4] [--many 16]

`watchword describe --format jsonl` is run as a command over the first few and over more videos of a folder; the
difference is the cost of one more, without start-up. CPU seconds count all workers; the memory is that of the largest
process.
"""

import argparse
import os
import subprocess
import sys
import tempfile
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("videos", type=Path)
    parser.add_argument("--model", default="light")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--few", type=int, default=4)
    parser.add_argument("--many", type=int, default=16)
    options = parser.parse_args()
    videos = files_below(options.videos, VIDEO_SUFFIXES)
    few, _, _ = measure(videos[: options.few], options.model, options.workers)
    many, size, megabytes = measure(videos[: options.many], options.model, options.workers)
    each = (many - few) / (options.many - options.few)
    print(
        f"{options.model}, {options.workers} workers: {each:.2f} CPU s a video, start-up {few - each * options.few:.1f}"
    )
    print(f"{size / options.many:.0f} bytes a line, at most {megabytes:.0f} MB a process")


if __name__ == "__main__":
    main()
