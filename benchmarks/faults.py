"""What breaks? Damaged videos, killed processes and full disks, with fixed seeds.

    python benchmarks/faults.py videos --count 2000    # mutated videos: describe with a timeline, extract, probe
    python benchmarks/faults.py kills --count 100      # SIGKILL at random times, then the command again
    python benchmarks/faults.py disks                  # every command on a full disk (needs root, for a mount)

A mutated video passes if a process with limited memory and CPU time ends with a result or with a WatchwordError. A kill
passes if the same command, run again, gives what it gives without a kill. A full disk passes if the command ends with
one line, and what was on the disk before is unchanged. The last line of each part is JSON: tried, passed, findings.
"""

import argparse
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from math import inf
from pathlib import Path

import av
import numpy as np

from watchword.errors import WatchwordError

# Suffix -> video codec, audio codec ("" for none).
BASES = {
    "mp4": ("libx264", "aac"),
    "mkv": ("libx264", ""),
    "webm": ("libvpx", "libopus"),
    "avi": ("mpeg4", "mp2"),
    "ts": ("mpeg2video", "mp2"),
    "flv": ("flv", ""),
    "mov": ("libx264", ""),
    "gif": ("gif", ""),
}
PIXELS = {"gif": "rgb8"}
MEMORY = 2 << 30  # bytes of a child beyond those of its parent
CPU_SECONDS = 120
SHOWN = 20  # findings that are printed


# --- mutated videos ------------------------------------------------------------------------------------------------


def write_base(path: Path, codec: str, audio: str) -> Path:
    """Five seconds, ten frames a second, with a cut in the middle."""
    pixels = PIXELS.get(codec, "yuv420p")
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10 if codec != "mpeg2video" else 25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, pixels
        sound = container.add_stream(audio, rate=48_000) if audio else None
        for index in range(50):
            picture = np.full((48, 64, 3), (20, 60, 200) if index < 25 else (200, 60, 20), np.uint8)
            picture[10:30, index : index + 10] = 240
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=pixels)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
        if sound is not None:
            for begin in range(0, 48_000, 960):
                wave = np.sin(np.arange(begin, begin + 960) / 20).astype(np.float32) / 2
                kind = "s16" if audio == "mp2" else "fltp"
                samples = np.stack([wave, wave]) if kind == "fltp" else (wave.repeat(2)[None] * 32_000).astype(np.int16)
                piece = av.AudioFrame.from_ndarray(samples, format=kind, layout="stereo")
                piece.sample_rate, piece.pts, piece.time_base = 48_000, begin, Fraction(1, 48_000)
                container.mux(sound.encode(piece))
            container.mux(sound.encode(None))
    return path


def mutate(raw: bytes, rng: random.Random) -> bytes:
    """One to four changes: bytes, blocks, cuts, numbers; the head of a file is hit as often as all the rest."""
    content = bytearray(raw)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(min(len(content), 2000) if rng.random() < 0.5 else len(content))
        size = rng.choice((1, 4, 16, 256, 4096))
        kind = rng.choice(("bytes", "zeros", "ones", "cut", "copy", "drop", "number"))
        if kind == "bytes":
            content[place : place + size] = rng.randbytes(len(content[place : place + size]))
        elif kind == "cut" and rng.random() < 0.3:
            del content[max(place, 64) :]
        elif kind == "copy":
            content[place:place] = content[place : place + size]
        elif kind == "drop":
            del content[place : place + size]
        elif kind == "number":
            content[place : place + 4] = rng.choice((0, 1, 2**31 - 1, 2**31, 2**32 - 1)).to_bytes(4, "big")
        else:
            fill = b"\xff" if kind == "ones" else b"\0"
            content[place : place + size] = fill * len(content[place : place + size])
        if len(content) < 2:
            break
    return bytes(content)


def in_child(work: Callable[[], None]) -> str:
    """The outcome of some work in a limited child: ok, error, or what went wrong."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with open("/proc/self/statm") as file:
            used = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        outcome = "ok"
        try:
            work()
        except WatchwordError:
            outcome = "error"
        except BaseException:
            outcome = traceback.format_exc()
        os.write(writer, outcome.encode()[-4000:])
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as file:
        outcome = file.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return outcome if outcome else f"died by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "died"


def try_videos(count: int, seed: int, model: str, streams: list[str], minutes: float = inf) -> bool:
    import torch

    from watchword.captioning.captioner import Captioner
    from watchword.captioning.pipeline import DescribeOptions, describe_video
    from watchword.features.extraction import Extraction, VideoFile, prepare
    from watchword.video import probe

    torch.set_num_threads(1)  # children of a fork have one thread
    captioner = Captioner.load(model)
    outcomes: Counter[str] = Counter()
    findings: list[str] = []
    began, tried = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        bases: dict[str, Path] = {"mp4": write_base(folder / "base.mp4", *BASES["mp4"])}
        describe_video(captioner, bases["mp4"], DescribeOptions(timeline=True))  # builds the networks before the forks
        extraction = Extraction(prepare(folder / "features", streams))
        extraction.load()
        for number in range(count):
            if time.monotonic() - began > 60 * minutes:
                break
            rng = random.Random(f"{seed} {number}")
            suffix = rng.choice(sorted(BASES))
            if suffix not in bases:
                bases[suffix] = write_base(folder / f"base.{suffix}", *BASES[suffix])
            path = folder / f"{number}.{suffix}"
            path.write_bytes(mutate(bases[suffix].read_bytes(), rng))

            def describe(path: Path = path) -> None:
                describe_video(captioner, path, DescribeOptions(timeline=True))

            def extract(path: Path = path) -> None:
                outcome = extraction.extract(VideoFile(path.stem, path))
                if outcome.problem.startswith("cannot extract"):
                    raise RuntimeError(outcome.problem)

            def check(path: Path = path) -> None:
                probe(path)

            for way, work in {"describe": describe, "extract": extract, "probe": check}.items():
                outcome = in_child(work)
                outcomes[outcome if outcome in ("ok", "error") else "finding"] += 1
                if outcome not in ("ok", "error"):
                    findings.append(f"{way} of video {number} ({suffix}): {outcome}")
            path.unlink()
            tried += 1
            if tried % 20 == 0:
                print(f"{tried} videos, {dict(outcomes)}", flush=True)
    return report("videos", tried, findings, outcomes=dict(outcomes), seed=seed)


# --- killed processes ----------------------------------------------------------------------------------------------


def run(*words: str | Path, kill_after: float | None = None, **more: object) -> subprocess.CompletedProcess[str] | None:
    """A watchword command; None if it was killed before its end."""
    command = [sys.executable, "-m", "watchword", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more) as process:  # type: ignore[call-overload]
        try:
            out, err = process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            return None
    return subprocess.CompletedProcess(command, process.returncode, out, err)


class Task:
    """A command, how to run it again, and what its result is."""

    def __init__(self, name: str, model: str, data: Path) -> None:
        self.name, self.model, self.data = name, model, data

    def words(self, folder: Path, again: bool) -> list[str | Path]:
        store = ["--store", folder / "features", "--streams", "appearance", "--workers", "1"]
        train: list[str | Path] = ["train", self.data / "recipe.toml", "--output", folder / "run"]
        if again and (folder / "run" / "recipe.toml").exists():
            train = ["train", "--resume", folder / "run"]
        resume = ["--resume"] if again else []
        return {
            "describe": ["describe", self.data / "videos", "--timeline", "--model", self.model, *resume,
                         "--output", folder / "out.json"],
            "extract": ["features", "extract", self.data / "videos", *store],
            "library": ["library", "add", self.data / "videos", "--model", self.model, "--library", folder / "l.db"],
            "train": train,
        }[self.name]  # fmt: skip

    def result(self, folder: Path) -> object:
        """What the command left, in a form to compare."""
        if self.name == "describe":
            return json.loads((folder / "out.json").read_text())["videos"]
        if self.name == "extract":
            return {path.name: path.read_bytes() for path in (folder / "features").rglob("*.safetensors")}
        if self.name == "train":
            return (folder / "run" / "model.safetensors").read_bytes()
        done = run("library", "list", "--json", "--library", folder / "l.db")
        assert done is not None
        rows = json.loads(done.stdout)["videos"]
        return sorted((row["name"], row["caption"], row["num_segments"]) for row in rows)


def write_task_data(folder: Path) -> None:
    from watchword.research.shapes.folder import write_shapes
    from watchword.research.shapes.videos import ShapesConfig

    (folder / "videos").mkdir()
    for suffix in ("mp4", "webm", "avi", "ts"):
        write_base(folder / "videos" / f"{suffix}.{suffix}", *BASES[suffix])
    write_shapes(folder / "shapes", ShapesConfig(count=60))
    (folder / "recipe.toml").write_text(
        '[data]\ncaptions = "shapes/captions.jsonl"\nstore = "shapes/store"\nmin_count = 1\n'
        '[model]\nname = "soft_attention"\nhidden_size = 32\n[[phases]]\nepochs = 6\nlearning_rate = 0.01\n'
    )


def try_kills(count: int, seed: int, model: str, minutes: float = inf) -> bool:
    findings: list[str] = []
    landed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        write_task_data(data)
        tasks = [Task(task, model, data) for task in ("describe", "extract", "library", "train")]
        expected, seconds = {}, {}
        for task in tasks:
            (data / task.name).mkdir()
            start = time.monotonic()
            done = run(*task.words(data / task.name, again=False))
            seconds[task.name] = time.monotonic() - start
            if done is None or done.returncode:
                raise SystemExit(f"{task.name} fails without a kill: {done and done.stderr}")
            expected[task.name] = task.result(data / task.name)
        began = time.monotonic()
        for number in range(count):
            if time.monotonic() - began > 60 * minutes:
                break
            task, rng = tasks[number % len(tasks)], random.Random(f"{seed} {number}")
            folder = data / f"kill{number}"
            folder.mkdir()
            for attempt in range(1, 4):  # up to three kills of one command
                after = rng.uniform(0.2, 1.0) * seconds[task.name]
                killed = run(*task.words(folder, again=attempt > 1), kill_after=after) is None
                landed[task.name] += killed
                if not killed or rng.random() < 0.5:
                    break
            done = run(*task.words(folder, again=True))
            if done is None or done.returncode not in (0, 1) or "Traceback" in done.stderr:
                findings.append(f"{task.name}, kill {number}: {done and done.stderr[-2000:]}")
            elif task.result(folder) != expected[task.name]:
                findings.append(f"{task.name}, kill {number}: the result differs; {done.stderr[-500:]}")
            remains = [str(path) for path in folder.rglob(".*.tmp")]
            findings += [f"{task.name}, kill {number}: {remains[0]} remains"] if remains else []
            shutil.rmtree(folder)
            print(f"{number + 1} commands, kills {dict(landed)}, {len(findings)} findings", flush=True)
    return report("kills", sum(landed.values()), findings, kills=dict(landed), seed=seed)


# --- full disks ----------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(folder: Path, fill: Callable[[Path], None]) -> Iterator[Path]:
    """A disk of 60 MB that holds what `fill` writes, and nothing more."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", folder], check=True)
    try:
        fill(folder)
        with (folder / "filler").open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 12))
            except OSError:
                pass
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def try_disks(model: str) -> bool:
    findings: list[str] = []
    tried = 0
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        write_task_data(data)
        for task in (Task(task, model, data) for task in ("describe", "extract", "library", "train")):
            tried += 1
            with full_disk(data / f"disk-{task.name}", lambda folder: None) as disk:
                done = run(*task.words(disk, again=False))
                line = done.stderr.strip() if done else ""
                said = any(words in line for words in ("disk is full", "No space left on device"))
                if done is None or done.returncode == 0 or "Traceback" in line or not said:
                    findings.append(f"{task.name} on a full disk: {line[-2000:]}")
        tried += 1

        def add(folder: Path) -> None:
            run("library", "add", data / "videos", "--model", model, "--library", folder / "l.db")

        with full_disk(data / "disk-read", add) as disk:
            for words in (["library", "list"], ["search", "a"], ["library", "remove", "1"], ["library", "list"]):
                done = run(*words, "--library", disk / "l.db")
                if done is None or done.returncode:
                    findings.append(f"{' '.join(words)} on a full disk: {done and done.stderr[-2000:]}")
    return report("disks", tried, findings)


def report(part: str, tried: int, findings: list[str], **more: object) -> bool:
    for finding in findings[:SHOWN]:
        print(f"\n{finding}")
    failed = len(findings)
    print(json.dumps({"part": part, "tried": tried, "findings": failed, **more}))
    return not findings


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("videos", "kills", "disks"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=inf, help="stop then, and report what was tried")
    parser.add_argument("--model", default="light")
    parser.add_argument("--streams", default="appearance,audio", help="of extract")
    given = parser.parse_args(words)
    if given.part == "videos":
        return int(not try_videos(given.count, given.seed, given.model, given.streams.split(","), given.minutes))
    if given.part == "kills":
        return int(not try_kills(given.count, given.seed, given.model, given.minutes))
    return int(not try_disks(given.model))


if __name__ == "__main__":
    sys.exit(main())
