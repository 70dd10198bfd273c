"""What breaks? Damaged videos, killed processes, full disks and wrong requests, with fixed seeds.

    python benchmarks/faults.py videos --count 2000    # mutated videos: describe with a timeline, extract, upload
    python benchmarks/faults.py kills --count 100      # so many SIGKILLs at random CPU times, then the command again
    python benchmarks/faults.py disks                  # every command on a full disk (needs root, for a mount)
    python benchmarks/faults.py contract --count 100   # requests by schemathesis, from the server's own OpenAPI

A mutated video passes if a process with limited memory and CPU time ends with a result or with a WatchwordError. A kill
passes if the same command, run again, gives what it gives without a kill. A full disk passes if the command ends with
one line, and what was on the disk before is unchanged. A request passes if its response is one of those that the
document of the API promises for it. The last line of each part is JSON: tried, passed, findings.
"""

import argparse
import itertools
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.client import HTTPConnection, HTTPException
from math import inf
from pathlib import Path
from typing import Any

import av
import numpy as np
import tomli_w

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
WAYS = "describe", "extract", "upload"


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


def quick_captioner(model: str, folder: Path) -> str:
    """A copy of a captioner that searches with beams alone and reads two time steps: a tenth of the CPU time."""
    from watchword.captioning.bundle import find_bundle
    from watchword.config import write_toml

    bundle = find_bundle(model)
    shutil.copytree(bundle.folder, folder)
    recipe = bundle.recipe.model_dump()
    recipe["selection"]["mbr_samples"], recipe["data"]["max_time_steps"] = 0, 2
    (folder / "recipe.toml").write_text(write_toml(recipe))
    return str(folder)


class Mutants:
    """Mutated videos: number N of a seed is always the same file."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.bases = {suffix: write_base(folder / f"base.{suffix}", *BASES[suffix]) for suffix in BASES}

    def paths(self, count: int, minutes: float) -> Iterator[Path]:
        """One after the other; each is deleted when the next is asked for."""
        deadline = time.monotonic() + 60 * minutes
        for number in range(count):
            if time.monotonic() > deadline:
                return
            path = self.write(number)
            yield path
            path.unlink()
            if (number + 1) % 100 == 0:
                print(f"{number + 1} videos", flush=True)

    def write(self, number: int) -> Path:
        rng = random.Random(f"{self.seed} {number}")
        suffix = rng.choice(sorted(BASES))
        path = self.folder / f"{number}.{suffix}"
        path.write_bytes(mutate(self.bases[suffix].read_bytes(), rng))
        return path


class Tally:
    """What came of the videos, way by way."""

    def __init__(self) -> None:
        self.outcomes: Counter[str] = Counter()
        self.findings: list[str] = []

    def add(self, way: str, video: Path, outcome: str) -> None:
        is_fine = outcome in ("ok", "error")
        self.outcomes[f"{way}: {outcome if is_fine else 'finding'}"] += 1
        if not is_fine:
            self.findings.append(f"{way} of video {video.name}: {outcome}")

    def tried(self, way: str) -> int:
        return sum(count for name, count in self.outcomes.items() if name.startswith(f"{way}: "))


def try_videos(
    count: int, seed: int, model: str, streams: list[str], minutes: float = inf, ways: Collection[str] = WAYS
) -> bool:
    """First describe and extract, each in a child of its own; then the uploads, to one server."""
    import torch

    torch.set_num_threads(1)  # children of a fork have one thread
    tally = Tally()
    with tempfile.TemporaryDirectory() as name:
        mutants = Mutants(Path(name), seed)
        if {"describe", "extract"} & set(ways):
            works = decoding_ways(Path(name), model, streams, mutants.bases["mp4"])
            works = {way: work for way, work in works.items() if way in ways}
            for path in mutants.paths(count, minutes):
                for way, work in works.items():
                    tally.add(way, path, in_child(lambda work=work, path=path: work(path)))  # type: ignore[misc]
        if "upload" in ways:
            with serving(Path(name) / "library.db") as port:
                for path in mutants.paths(count, minutes):
                    tally.add("upload", path, upload(port, path))
                if ask(port, "GET", "/healthz")[0] != 200:
                    tally.findings.append("the server is not healthy after the uploads")
    tried = {way: tally.tried(way) for way in ways}
    return report("videos", tried, tally.findings, outcomes=dict(sorted(tally.outcomes.items())), seed=seed)


def decoding_ways(folder: Path, model: str, streams: list[str], video: Path) -> dict[str, Callable[[Path], None]]:
    """Describe with a timeline, and extract. All imports and networks are loaded here, before the forks."""
    from watchword.captioning.captioner import Captioner
    from watchword.captioning.pipeline import DescribeOptions, describe_video
    from watchword.features.extraction import Extraction, VideoFile, prepare

    captioner = Captioner.load(quick_captioner(model, folder / "quick"))
    few = [f"{stream}.time_steps=2" for stream in streams if stream == "appearance"]
    extraction = Extraction(prepare(folder / "features", streams, few))

    def describe(path: Path) -> None:
        describe_video(captioner, path, DescribeOptions(timeline=True, beam=1))

    def extract(path: Path) -> None:
        outcome = extraction.extract(VideoFile(path.stem, path))
        if outcome.problem.startswith("cannot extract"):
            raise RuntimeError(outcome.problem)
        if outcome.problem:
            raise WatchwordError(outcome.problem)

    describe(video)
    extraction.load()
    return {"describe": describe, "extract": extract}


class Silent:
    """In place of the caption process: the uploads of a campaign are checked and stored, and get one caption."""

    def info(self) -> Any:
        from watchword.server.caption_process import CaptionerInfo

        return CaptionerInfo("silent", "", semantic_search=False, captioners=("silent",))

    def describe(self, path: Path, name: str, seconds: float, captioner: str = "") -> Iterator[Any]:
        from watchword.captioning.description import Caption, Description, Segment, Word
        from watchword.server.caption_process import CaptionUpdate

        segment = Segment(0.0, seconds, (Caption((Word("something", 0.5, {}),), 0.5),))
        yield CaptionUpdate(seconds, "something", 0.5, Description(Path(name), seconds, "silent", (segment,)))

    def stop(self) -> None:
        pass


@contextmanager
def serving(library: Path) -> Iterator[int]:
    """A server in a thread, with real probe processes: its port."""
    from watchword.cli.serve import listen
    from watchword.server.app import web_server
    from watchword.server.auth import AccessPolicy
    from watchword.server.schemas import Limits
    from watchword.server.service import Service

    limits = Limits(bytes=1 << 24, seconds=30 * 24 * 3600, queue=10_000)
    service = Service(library, None, limits, captioner=lambda *_: Silent())  # type: ignore[arg-type, return-value]
    with listen("127.0.0.1", 0) as listening, service:
        port = listening.getsockname()[1]
        server = web_server(service, AccessPolicy.of("127.0.0.1", port, (), "unused"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            while not server.started:
                time.sleep(0.01)
            yield port
        finally:
            server.should_exit = True
            thread.join()


def ask(port: int, method: str, path: str, body: bytes | None = None, name: str = "video") -> tuple[int, Any]:
    """The status, and the JSON of the response if it is JSON."""
    connection = HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        connection.request(method, path, body, {"X-Watchword-Name": name})
        response = connection.getresponse()
        raw = response.read()
        return response.status, json.loads(raw) if raw.startswith((b"{", b"[")) else None
    finally:
        connection.close()


def upload(port: int, path: Path) -> str:
    """ok: stored, with a thumbnail or a 404 for one; error: refused in one line; or what went wrong."""
    status, answer = ask(port, "POST", "/api/videos", path.read_bytes())
    if status in (413, 422) and not any(words in answer["error"] for words in ("(SIG", "it cannot be read (")):
        return "error"
    if status != 202:
        return f"{status} {answer}"
    while (job := ask(port, "GET", f"/api/jobs/{answer['job']}")[1])["state"] in ("waiting", "working"):
        time.sleep(0.005)
    if job["state"] != "done":
        return f"the job has {job['state']}: {job['error']}"
    status, answer = ask(port, "GET", f"/api/videos/{job['video']}/thumbnail")
    return "ok" if status in (200, 404) else f"thumbnail: {status} {answer}"


# --- killed processes ----------------------------------------------------------------------------------------------


Done = subprocess.CompletedProcess[str]
TASKS = "describe", "extract", "library", "serve", "train"


def cpu_seconds(pid: int) -> float:
    """Of a running process and its children; 0 when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK") + sum(map(cpu_seconds, map(int, children)))


class Killer:
    """Kills a process when it has used so many CPU seconds. What else the machine does changes nothing."""

    def __init__(self, pid: int, kill_after: float | None) -> None:
        self.pid, self.kill_after, self.has_killed = pid, kill_after, False
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)
        if kill_after is not None:
            self.thread.start()

    def _watch(self) -> None:
        while not self.is_over.wait(0.005):
            if cpu_seconds(self.pid) >= (self.kill_after or 0):
                self.has_killed = True
                os.kill(self.pid, signal.SIGKILL)
                return

    def stop(self) -> None:
        self.is_over.set()
        if self.kill_after is not None:
            self.thread.join()


def children_cpu_seconds() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def preload() -> None:
    """Imports what the commands import: a fork of this process begins with its work."""
    import torch
    import torch._dynamo  # the first step of an optimiser imports it

    import watchword.captioning.pipeline
    import watchword.cli.main
    import watchword.research.study
    import watchword.training.loop  # noqa: F401

    torch.set_num_threads(1)  # children of a fork have one thread


def run(*words: str | Path, kill_after: float | None = None) -> Done | None:
    """A watchword command in a fork; None if it was killed before its end."""
    command = ["watchword", *map(str, words)]
    with tempfile.TemporaryDirectory() as scratch:
        outputs = [Path(scratch) / name for name in ("stdout", "stderr")]
        child = os.fork()
        if child == 0:
            carry_out(command, outputs)
        killer = Killer(child, kill_after)
        _, status = os.waitpid(child, 0)
        killer.stop()
        out, err = (path.read_text("utf-8") if path.exists() else "" for path in outputs)
    code = os.waitstatus_to_exitcode(status)
    return None if killer.has_killed and code < 0 else subprocess.CompletedProcess(command, code, out, err)


def carry_out(command: list[str], outputs: list[Path]) -> None:
    """In the fork; never returns."""
    from watchword.cli.main import main as watchword

    status = 1
    try:
        for descriptor, path in ((0, os.devnull), *zip((1, 2), outputs, strict=True)):
            os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
        sys.stdout, sys.stderr = (open(descriptor, "w", closefd=False) for descriptor in (1, 2))  # noqa: SIM115 - closed by the end of the process
        sys.argv = command
        watchword()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Server:
    """`watchword serve`, as a process of its own; killed after some CPU seconds, if any are given."""

    def __init__(self, library: Path, model: str, kill_after: float | None = None) -> None:
        words = ["serve", "--port", "0", "--library", str(library), "--model", model]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "watchword", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.killer = Killer(self.process.pid, kill_after)
        assert self.process.stdout is not None
        found = re.search(r":(\d+)/", self.process.stdout.readline())
        self.port = int(found[1]) if found else 0  # 0: it was killed before it listened

    def stop(self, how: signal.Signals) -> str:
        """Its stderr."""
        self.killer.stop()
        self.process.send_signal(how)
        return self.process.communicate()[1]


def serve(library: Path, model: str, videos: list[Path], kill_after: float | None) -> Done | None:
    """Uploads the videos, those of a killed server again, and waits for their captions; None if it was killed."""
    server = Server(library, model, kill_after)
    try:
        stored = {job["name"] for job in ask(server.port, "GET", "/api/jobs")[1]["jobs"]}
        for path in videos:
            if (
                path.name not in stored
                and ask(server.port, "POST", "/api/videos", path.read_bytes(), path.name)[0] != 202
            ):
                return Done([], 1, "", f"{path.name} was refused")
        while any(job["state"] in ("waiting", "working") for job in ask(server.port, "GET", "/api/jobs")[1]["jobs"]):
            time.sleep(0.05)
        return Done([], 0, "", server.stop(signal.SIGINT))
    except (OSError, HTTPException, ValueError):
        if kill_after is None:
            raise
        return None
    finally:
        server.stop(signal.SIGKILL)


def tensors(path: Path) -> tuple[Any, bytes]:
    """The header of a safetensors file and its data: safetensors writes the metadata in random order."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), content[end:]


class Task:
    """A command, how to run it again, and what its result is."""

    def __init__(self, name: str, model: str, data: Path) -> None:
        self.name, self.model, self.data = name, model, data

    def run(self, folder: Path, again: bool, kill_after: float | None = None) -> Done | None:
        """None if it was killed before its end."""
        if self.name == "serve":
            return serve(folder / "l.db", self.model, sorted((self.data / "videos").iterdir()), kill_after)
        return run(*self.words(folder, again), kill_after=kill_after)

    def words(self, folder: Path, again: bool) -> list[str | Path]:
        store = ["--store", folder / "features", "--streams", "appearance", "--workers", "1"]
        few = ["--settings", "appearance.time_steps=2"]
        train: list[str | Path] = ["train", self.data / "recipe.toml", "--output", folder / "run"]
        if again and (folder / "run" / "recipe.toml").exists():
            train = ["train", "--resume", folder / "run"]
        resume = ["--resume"] if again else []
        return {
            "describe": ["describe", self.data / "videos", "--timeline", "--model", self.model, *resume,
                         "--output", folder / "out.json"],
            "extract": ["features", "extract", self.data / "videos", *store, *few],
            "library": ["library", "add", self.data / "videos", "--model", self.model, "--library", folder / "l.db"],
            "train": train,
        }[self.name]  # fmt: skip

    def result(self, folder: Path) -> object:
        """What the command left, in a form to compare."""
        if self.name == "describe":
            return json.loads((folder / "out.json").read_text())["videos"]
        if self.name == "extract":
            return {path.name: tensors(path) for path in (folder / "features").rglob("*.safetensors")}
        if self.name == "train":
            return tensors(folder / "run" / "model.safetensors")
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
        '[model]\nname = "soft_attention"\nhidden_size = 32\n[[phases]]\nepochs = 3\nlearning_rate = 0.01\n'
    )


def try_kills(count: int, seed: int, model: str, minutes: float = inf) -> bool:
    """All but the server run in forks of this process, so that kills hit their work and not their imports."""
    preload()
    findings: list[str] = []
    landed: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        write_task_data(data)
        model = quick_captioner(model, data / "quick")
        tasks = [Task(task, model, data) for task in TASKS]
        expected, seconds = {}, {}
        for task in tasks:
            (data / task.name).mkdir()
            before = children_cpu_seconds()
            done = task.run(data / task.name, again=False)
            seconds[task.name] = children_cpu_seconds() - before
            if done is None or done.returncode:
                raise SystemExit(f"{task.name} fails without a kill: {done and done.stderr}")
            expected[task.name] = task.result(data / task.name)
        deadline = time.monotonic() + 60 * minutes
        for number in itertools.count():
            if sum(landed.values()) >= count or time.monotonic() > deadline:
                break
            task, rng = tasks[number % len(tasks)], random.Random(f"{seed} {number}")
            folder = data / f"kill{number}"
            folder.mkdir()
            known = len(findings)
            for attempt in range(1, 4):  # up to three kills of one command
                after = rng.uniform(0.4 if task.name == "serve" else 0, 1) * seconds[task.name]
                killed = task.run(folder, attempt > 1, kill_after=after) is None
                landed[task.name] += killed
                if not killed or rng.random() < 0.5:
                    break
            done = task.run(folder, again=True)
            if done is None or done.returncode not in (0, 1) or "Traceback" in done.stderr:
                findings.append(f"{task.name}, kill {number}: {done and done.stderr[-2000:]}")
            elif task.result(folder) != expected[task.name]:
                findings.append(f"{task.name}, kill {number}: the result differs; {done.stderr[-500:]}")
            remains = [str(path) for path in folder.rglob(".*.tmp")]
            findings += [f"{task.name}, kill {number}: {remains[0]} remains"] if remains else []
            shutil.rmtree(folder)
            said = f"{number + 1} commands, kills {dict(landed)}, {len(findings)} findings"
            print(said, *findings[known:], flush=True)
    return report("kills", sum(landed.values()), findings, kills=dict(landed), seed=seed)


# --- full disks ----------------------------------------------------------------------------------------------------


@contextmanager
def full_disk(folder: Path, fill: Callable[[Path], None]) -> Iterator[Path]:
    """A disk of 60 MB that holds what `fill` writes, and nothing more."""
    folder.mkdir(exist_ok=True)
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


Words = list[str | Path]
BEFORE = b"as it was"  # what an output holds before it is written anew


def writing_commands(data: Path, model: str, disk: Path) -> dict[str, Words]:
    """Each command that writes, with its outputs on the disk. `data` is that of `write_disk_data`."""
    videos, drawn, run_, copy = data / "videos", data / "drawn", data / "soft", disk / "soft"
    clip, files = videos / "mp4.mp4", ["--videos", drawn / "videos"]
    sweep: Words = ["research", "sweep", data / "recipe.toml", "phases.0.epochs=1", "--over", "seed=1,2", "--beam", "1"]
    say: Words = ["--model", model, "--output"]
    commands: dict[str, Words] = {
        "describe": ["describe", videos, "--timeline", *say, disk / "out.json"],
        "describe, srt": ["describe", clip, *say, disk / "out.srt"],
        **{
            f"explain, {form}": ["explain", clip, *say, disk / f"out.{form}"] for form in ("html", "json", "png", "mp4")
        },
        "features extract": Task("extract", model, data).words(disk, again=False),
        "features import": ["features", "import", data / "arrays.npz", "--store", disk / "store", "--stream", "x"],
        "features categories": ["features", "categories", data / "categories.jsonl", "--store", disk / "store"],
        "features map": ["features", "map", "--from", f"{drawn}/store:appearance",
                         "--examples", f"{disk}/part:motion", "--into", f"{disk}/part:motion"],
        "library add": Task("library", model, data).words(disk, again=False),
        "train": ["train", data / "recipe.toml", "--output", disk / "run"],
        "train, own videos": ["train", "--videos", drawn / "videos", "--captions", drawn / "captions.csv",
                              "--output", disk / "run", "--init-from", "none", "--epochs", "1"],
        "evaluate": ["evaluate", copy, "--beam", "1"],
        "evaluate, folder": ["evaluate", run_, "--beam", "1", "--output", disk / "results"],
        "calibrate": ["calibrate", copy, "--captions", data / "shapes" / "captions.jsonl",
                      "--store", data / "shapes" / "store", "--split", "train"],
        "export": ["export", run_, disk / "bundle"],
        "score": ["score", data / "refs.json", data / "hyps.json", "--per-video", disk / "scores.json"],
        "captioner": ["captioner", "light"],
        "research shapes": ["research", "shapes", disk / "shapes", "--count", "10", "--write-videos"],
        "research demo": ["research", "demo", disk / "demo", "--count", "20", "--epochs", "1"],
        "research sweep": [*sweep, "--output", disk / "sweep"],
        "research word-frequency": ["research", "word-frequency", drawn, "--output", disk / "out.png"],
        "research pos-stats": ["research", "pos-stats", run_, "--split", "val", "--output", disk / "out.png"],
        "research attention-ablation": ["research", "attention-ablation", copy, "--beam", "1", "--shares", "0.5"],
        "research regions": ["research", "regions", data / "hierarchical", "shapes000000",
                             *files, "--stream", "moving_regions", "--output", disk / "new"],
        "research heatmap": ["research", "heatmap", run_, "shapes000000", *files, "--output", disk / "out.png"],
        "research refocus": ["research", "refocus", data / "refocus", "--beam", "1", "--output", disk / "new"],
        "research layers": ["research", "layers", data / "dual_afr", "--video", "shapes000000", *files,
                            "--output", disk / "out.png"],
        "research side-by-side": ["research", "side-by-side", run_, data / "refocus", *files, "--split", "val",
                                  "--output", disk / "out.png"],
        "research study make": ["research", "study", "make", data / "hyps.json", data / "others.json",
                                "--show", "none", "--clips", "4", "--output", disk / "out.html"],
    }  # fmt: skip
    return commands


def write_disk_data(data: Path) -> None:
    """What the commands read: drawn videos, four runs, captions, arrays."""
    write_task_data(data)
    streams = "appearance,regions,motion,scene,moving_regions,layer1,layer2,layer3"
    drawn = data / "drawn"
    must("research", "shapes", drawn, "--count", "20", "--write-videos", "--streams", streams)
    places = [f"data.captions={drawn / 'captions.jsonl'}", f"data.store={drawn / 'store'}"]
    small = ["model.hidden_size=16", "phases.0.epochs=1"]
    must("train", data / "recipe.toml", *places, *small, "--output", data / "soft")
    must("train", "shapes/hierarchical", *places, *small, "--output", data / "hierarchical")
    must("train", "shapes/dual_afr", *places, *small, "--output", data / "dual_afr")
    later = ["phases.1.epochs=1", "phases.2.epochs=1"]
    must("train", "shapes/refocus", *places, *small, *later, "--output", data / "refocus")
    must("evaluate", data / "soft", "--beam", "1")
    must("evaluate", data / "refocus", "--beam", "1")
    captions = {f"v{number}": f"a man number {number}" for number in range(4)}
    (data / "hyps.json").write_text(json.dumps(captions))
    (data / "others.json").write_text(json.dumps(dict.fromkeys(captions, "a dog")))
    (data / "refs.json").write_text(json.dumps({video: [caption] for video, caption in captions.items()}))
    rows = [{"video": video, "captions": [captions[video]], "split": "train", "category": 1} for video in captions]
    (data / "categories.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    np.savez(data / "arrays.npz", v1=np.ones((4, 8), np.float32))


def must(*words: str | Path) -> None:
    """A command without a fault."""
    done = run(*words)
    if done is None or done.returncode:
        raise SystemExit(f"{' '.join(map(str, words))}: {done and done.stderr}")


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "filler"}


def write_on_full_disk(name: str, data: Path, model: str) -> list[str]:
    """The findings of one command: it ends with one line, and what was there is still there."""

    def prepare(folder: Path) -> None:
        shutil.copytree(data / "soft", folder / "soft")
        (folder / "drawn").symlink_to(data / "drawn")  # as the run names its data
        shutil.copytree(data / "drawn" / "store", folder / "part")
        for path in (folder / "part").rglob("shapes00001?.safetensors"):
            path.unlink()
        for output in ("out.json", "out.srt", "out.html", "out.key.json", "out.png", "out.mp4", "scores.json"):
            (folder / output).write_bytes(BEFORE)

    with full_disk(data / "disk", prepare) as disk:
        before = contents(disk)
        done = run(*writing_commands(data, model, disk)[name])
        assert done is not None
        lines, after = done.stderr.strip(), contents(disk)
        findings = [] if done.returncode and is_one_line(lines) else [f"status {done.returncode}: {lines[-2000:]}"]
        findings += [f"{path.name} has changed" for path in before if after.get(path) != before[path]]
        findings += [f"{path.name} remains" for path in after if path.suffix == ".tmp"]
    return [f"{name} on a full disk: {finding}" for finding in findings]


def is_one_line(lines: str) -> bool:
    """Whether a command says once that the disk is full. Bars and warnings may stand before it."""
    said = [line for line in lines.splitlines() if "disk is full" in line or "No space left on device" in line]
    return len(said) == 1 and "Traceback" not in lines


def try_disks(model: str, only: Collection[str] = ()) -> bool:
    preload()
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        data = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(data / "disk" / "config")
        write_disk_data(data)
        model = quick_captioner(model, data / "quick")
        writing = [name for name in writing_commands(data, model, data) if name in only or not only]
        for name in writing:
            findings += (found := write_on_full_disk(name, data, model))
            print(f"{name}: {len(found)} findings", *found, sep="\n", flush=True)

        def add(folder: Path) -> None:
            must("library", "add", data / "videos", "--model", model, "--library", folder / "l.db")

        with full_disk(data / "disk-read", add) as disk:
            for words in (["library", "list"], ["search", "a"], ["library", "remove", "1"], ["library", "list"]):
                done = run(*words, "--library", disk / "l.db")
                if done is None or done.returncode:
                    findings.append(f"{' '.join(words)} on a full disk: {done and done.stderr[-2000:]}")
        findings += [f"serve on a full disk: {finding}" for finding in serve_full_disk(data, model, add)]
    return report("disks", len(writing) + 2, findings)


def serve_full_disk(data: Path, model: str, add: Callable[[Path], None]) -> list[str]:
    """The disk fills while the server runs."""
    servers: list[Server] = []

    def start(folder: Path) -> None:
        add(folder)
        servers.append(Server(folder / "l.db", model))

    upload = (data / "videos" / "mp4.mp4").read_bytes()
    findings = []
    with full_disk(data / "disk-serve", start):
        try:
            for method, path, body, expected in (
                ("GET", "/healthz", None, 200),
                ("POST", "/api/videos", upload, 507),
                ("GET", "/api/videos", None, 200),
                ("GET", "/api/search?q=a", None, 200),
                ("GET", "/api/videos/2", None, 200),
                ("GET", "/api/export?format=json", None, 200),
                ("DELETE", "/api/videos/1", None, 204),
                ("GET", "/api/videos/1", None, 404),
                ("GET", "/healthz", None, 200),
            ):
                status, answer = ask(servers[0].port, method, path, body)
                findings += [f"{method} {path}: {status} {answer}"] if status != expected else []
        finally:
            said = servers[0].stop(signal.SIGTERM)
    return [*findings, said[-2000:]] if "Traceback" in said else findings


# --- wrong requests ------------------------------------------------------------------------------------------------


# What the document allows and a server may still refuse, with a status that the document names. Any bytes are a body:
# few are a video (422) that this server takes (413), a form may lack a file (400), the queue may be full (429). Which
# captioners there are, and whether there is semantic search, depends on the server (422).
REFUSALS = {
    "POST /api/videos": ["2xx", 400, 413, 422, 429],
    "POST /api/describe": ["2xx", 400, 413, 422, 429],
    "POST /api/videos/{video}/describe": ["2xx", 404, 422, 429],
    "GET /api/search": ["2xx", 422],
}


def try_contract(count: int, seed: int, program: str) -> bool:
    """Twice: about videos that exist, without their deletion; then about anything, with it."""
    found = shutil.which(program)
    if found is None:
        raise SystemExit(f"{program} is not installed: pip install schemathesis, or --schemathesis PROGRAM")
    tried: dict[str, int] = {}
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as name, serving(Path(name) / "library.db") as port:
        videos = Mutants(Path(name), seed).bases.values()
        jobs = [ask(port, "POST", "/api/videos", path.read_bytes())[1]["job"] for path in videos]
        while ask(port, "GET", f"/api/jobs/{jobs[-1]}")[1]["state"] in ("waiting", "working"):
            time.sleep(0.05)
        command = [found, "run", f"http://127.0.0.1:{port}/api/openapi.json", "--max-examples", str(count)]
        command += ["--seed", str(seed), "--continue-on-failure", "--no-color", "--request-timeout", "60"]
        known = {"path.video": 1, "path.segment": 0, "path.job": jobs[0]}
        for about, parameters, more in (
            ("known videos", known, ["--exclude-method", "DELETE", "--mode", "positive"]),
            ("anything", {}, []),
        ):
            write_settings(Path(name) / "schemathesis.toml", parameters)
            done = subprocess.run([*command, *more], cwd=name, capture_output=True, text=True, check=False)
            generated = re.search(r"(\d+) generated", done.stdout)
            tried[about] = int(generated[1]) if generated else 0
            if done.returncode or not generated:
                findings.append(f"{about}: {done.stdout} {done.stderr[-2000:]}")
        if ask(port, "GET", "/healthz")[0] != 200:
            findings.append("the server is not healthy after the requests")
    return report("contract", tried, findings, seed=seed)


def write_settings(path: Path, parameters: dict[str, Any]) -> None:
    """Of schemathesis."""
    operations = [
        {"include-name": operation, "checks": {"positive_data_acceptance": {"expected-statuses": statuses}}}
        for operation, statuses in REFUSALS.items()
    ]
    generation = {"database": "none"}
    path.write_text(tomli_w.dumps({"parameters": parameters, "operations": operations, "generation": generation}))


def report(part: str, tried: int | dict[str, int], findings: list[str], **more: object) -> bool:
    for finding in findings[:SHOWN]:
        print(f"\n{finding}")
    failed = len(findings)
    print(json.dumps({"part": part, "tried": tried, "findings": failed, **more}))
    return not findings


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("videos", "kills", "disks", "contract"))
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=inf, help="stop then, and report what was tried")
    parser.add_argument("--model", default="light")
    parser.add_argument("--streams", default="appearance,audio", help="of extract")
    parser.add_argument("--ways", default=",".join(WAYS), help="of videos")
    parser.add_argument("--only", action="append", default=[], metavar="COMMAND", help="of disks; repeatable")
    parser.add_argument("--schemathesis", default="schemathesis", metavar="PROGRAM", help="of contract")
    given = parser.parse_args(words)
    if given.part == "videos":
        streams, ways = given.streams.split(","), given.ways.split(",")
        return int(not try_videos(given.count, given.seed, given.model, streams, given.minutes, ways))
    if given.part == "kills":
        return int(not try_kills(given.count, given.seed, given.model, given.minutes))
    if given.part == "contract":
        return int(not try_contract(given.count, given.seed, given.schemathesis))
    return int(not try_disks(given.model, given.only))


if __name__ == "__main__":
    sys.exit(main())
