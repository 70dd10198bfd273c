"""Who does the work: this process, several processes, or a Ray cluster. All of them run `Extraction.extract`."""

import importlib
import logging
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from typing import Any

from watchword.errors import WatchwordError
from watchword.features.extraction import Extraction, Job, Outcome, VideoFile

# For a cluster of our own. Ray runs its workers at nice 15 and gives up on one that did not come up within a minute:
# on a machine with anything else to do they starve, are started again, and starve again.
PATIENCE = {"RAY_worker_niceness": "0", "RAY_worker_register_timeout_seconds": "600"}
ATTEMPTS = 2  # a worker that dies over a video may have been killed by chance: once more, then the video is to blame


def cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def extract_here(job: Job, videos: Iterable[VideoFile]) -> Iterator[Outcome]:
    extraction = Extraction(job)
    extraction.load()
    return map(extraction.extract, videos)


def extract_local(job: Job, videos: Iterable[VideoFile], workers: int) -> Iterator[Outcome]:
    """On this machine, in as many processes as asked for; each has one core."""
    if workers <= 1:
        yield from extract_here(job, videos)
        return
    Extraction(job).load()  # fetches weights once, and says what is wrong with them in one line
    context = multiprocessing.get_context("spawn")
    waiting = deque((video, 1) for video in videos)
    crew: dict[Connection, tuple[Any, VideoFile | None, int]] = {}

    def hire() -> None:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        process.start()
        theirs.close()
        crew[ours] = (process, None, 0)

    try:
        while waiting or any(video for _, video, _ in crew.values()):
            while len(crew) < workers:
                hire()
            for connection, (process, video, _) in list(crew.items()):
                if video is None and waiting:
                    video, attempt = waiting.popleft()
                    crew[connection] = (process, video, attempt)
                    try:
                        connection.send(video)
                    except OSError:  # it died while it had nothing to do
                        del crew[connection]
                        waiting.appendleft((video, attempt))
            for ready in wait([connection for connection, (_, video, _) in crew.items() if video]):
                assert isinstance(ready, Connection)
                process, video, attempt = crew[ready]
                assert video is not None
                try:
                    outcome = ready.recv()
                except (EOFError, OSError):
                    del crew[ready]
                    process.join()
                    if attempt < ATTEMPTS:
                        waiting.appendleft((video, attempt + 1))
                    else:
                        yield _lost(video, _death(process))
                else:
                    crew[ready] = (process, None, 0)
                    yield outcome
    finally:
        for connection, (process, _, _) in crew.items():
            connection.close()  # it sees the end and stops
            process.terminate()
            process.join()


def _serve(connection: Connection, job: Job) -> None:
    """One worker process. It ends when its parent does, also when that was killed."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C too, and ends us
    torch.set_num_threads(1)
    extraction = Extraction(job)
    while True:
        try:
            video = connection.recv()
        except EOFError:
            return
        connection.send(extraction.extract(video))


def _lost(video: VideoFile, reason: str) -> Outcome:
    return Outcome(video, f"cannot extract {video.path}: its worker died, {ATTEMPTS} times ({reason})")


def _death(process: Any) -> str:
    code = process.exitcode
    return f"signal {-code}" if code is not None and code < 0 else f"status {code}"


def extract_ray(job: Job, videos: Iterable[VideoFile], workers: int | None = None) -> Iterator[Outcome]:
    """On a Ray cluster: an actor of one core for each worker; without a number, for each core of the cluster.

    Videos, store and users' weights are read and written by path, so all machines must see them under the same names.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise WatchwordError("--engine ray needs Ray: pip install 'watchword[ray]'") from error
    job = replace(job, store=job.store.absolute())
    Extraction(job).load()
    ours = not ray.is_initialized()
    if ours:
        for name, value in PATIENCE.items():
            os.environ.setdefault(name, value)
        try:
            # the cluster of RAY_ADDRESS, or one of our own: never one that somebody left running on this machine
            address = os.environ.get("RAY_ADDRESS", "local")
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # Ray raises plain exceptions here
            raise WatchwordError(f"cannot join or start a Ray cluster: {str(error).splitlines()[0]}") from error
    actor = ray.remote(num_cpus=1, max_restarts=0)(_Actor)
    waiting = deque((replace(video, path=video.path.absolute()), 1) for video in videos)
    workers = min(workers or int(ray.cluster_resources().get("CPU", 1)), len(waiting))
    idle: list[Any] = []
    busy: dict[Any, tuple[Any, VideoFile, int]] = {}
    try:
        while waiting or busy:
            while len(idle) + len(busy) < workers:
                idle.append(actor.remote(job))
            while idle and waiting:
                hand = idle.pop()
                video, attempt = waiting.popleft()
                busy[hand.extract.remote(video)] = (hand, video, attempt)
            done, _ = ray.wait(list(busy), num_returns=1)
            for reference in done:
                hand, video, attempt = busy.pop(reference)
                try:
                    outcome = ray.get(reference)
                except ray.exceptions.RayError as error:  # killed, out of memory, or its machine is gone
                    ray.kill(hand)  # whatever is left of it must not keep its core
                    if attempt < ATTEMPTS:
                        waiting.appendleft((video, attempt + 1))
                    else:
                        yield _lost(video, str(error).strip().splitlines()[0])
                else:
                    idle.append(hand)
                    yield outcome
    finally:
        for hand in [*idle, *(hand for hand, _, _ in busy.values())]:
            ray.kill(hand)
        if ours:
            ray.shutdown()


class _Actor:
    """A worker of a Ray cluster."""

    def __init__(self, job: Job) -> None:
        import torch

        torch.set_num_threads(1)
        self.extraction = Extraction(job)

    def extract(self, video: VideoFile) -> Outcome:
        return self.extraction.extract(video)
