"""Work on many items: in several processes of this machine, or on a Ray cluster.

`make` builds, once in each worker, the function that is applied to every item. It is pickled: a function of a module,
or a `functools.partial` of one. A worker that is killed by an item is replaced and the item tried once more; then it is
given back with the reason, and the others go on.
"""

import importlib
import logging
import multiprocessing
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any, Generic, TypeVar

from watchword.errors import WatchwordError

ATTEMPTS = 2  # a worker may have been killed by chance; an item that ends two is reported
WINDOW = 8  # items for each worker that may be done before an earlier one is, where results come in order
# For a cluster of our own. Ray runs its workers at nice 15 and gives up on one that does not start within a minute:
# on a busy machine they never start.
PATIENCE = {"RAY_worker_niceness": "0", "RAY_worker_register_timeout_seconds": "600"}

Item = TypeVar("Item")
Result = TypeVar("Result")
Make = Callable[[], Callable[[Item], Result]]


@dataclass(frozen=True)
class Lost(Generic[Item]):
    """An item whose worker died each time."""

    item: Item
    reason: str

    def __str__(self) -> str:
        return f"its worker died, {ATTEMPTS} times ({self.reason})"


def cores() -> int:
    """Those that this process may use, which can be fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Queue(Generic[Item]):
    """Items by number, taken as workers become free; an item whose worker died comes first."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.source = enumerate(items)
        self.again: deque[tuple[int, Item, int]] = deque()
        self.next_number = 0

    def take(self, limit: float = float("inf")) -> tuple[int, Item, int] | None:
        """(number, item, attempt) of the next item whose number is below the limit."""
        if self.again:
            return self.again.popleft()
        if self.next_number >= limit:
            return None
        for number, item in self.source:
            self.next_number = number + 1
            return number, item, 1
        return None

    def retry(self, number: int, item: Item, attempt: int) -> bool:
        """Whether there is another attempt."""
        if attempt < ATTEMPTS:
            self.again.append((number, item, attempt + 1))
        return attempt < ATTEMPTS


def run_local(
    make: "Make[Item, Result]", items: Iterable[Item], workers: int, *, ordered: bool = False
) -> Iterator[Result | Lost[Item]]:
    """The results, as they are done or in the order of the items; each worker is a process with its share of cores."""
    found = _run_processes(make, Queue(items), workers, WINDOW * workers if ordered else None)
    yield from _in_order(found) if ordered else (result for _, result in found)


def _in_order(found: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    waiting: dict[int, Any] = {}
    number = 0
    for key, result in found:
        waiting[key] = result
        while number in waiting:
            yield waiting.pop(number)
            number += 1


@dataclass(frozen=True)
class _CannotWork:
    """What a worker answers that could not build its function."""

    error: WatchwordError


@dataclass
class _Worker(Generic[Item]):
    process: Any
    task: tuple[int, Item, int] | None = None


def _run_processes(
    make: "Make[Item, Result]", queue: Queue[Item], workers: int, window: int | None
) -> Iterator[tuple[int, Result | Lost[Item]]]:
    context = multiprocessing.get_context("spawn")
    crew: dict[Connection, _Worker[Item]] = {}
    unfinished: set[int] = set()  # numbers that were given out: in order, nothing far beyond the first is begun

    def hire() -> Connection:
        ours, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs, make, max(1, cores() // workers)), daemon=True)
        process.start()
        theirs.close()
        crew[ours] = _Worker(process)
        return ours

    def dismiss(connection: Connection) -> str:
        worker = crew.pop(connection)
        worker.process.join()
        code = worker.process.exitcode
        return f"signal {-code}" if code is not None and code < 0 else f"status {code}"

    def give_out() -> None:
        """A task to every free worker, as long as there are any."""
        while True:
            free = next((connection for connection, worker in crew.items() if worker.task is None), None)
            if free is None and len(crew) >= workers:
                return
            task = queue.take(min(unfinished) + window if window and unfinished else float("inf"))
            if task is None:
                return
            unfinished.add(task[0])
            connection = free or hire()
            crew[connection].task = task
            try:
                connection.send(task[1])
            except OSError:  # it was killed while it had nothing to do
                queue.again.append(task)
                dismiss(connection)

    try:
        while True:
            give_out()
            busy = [connection for connection, worker in crew.items() if worker.task]
            if not busy:
                return
            for ready in wait(busy):
                assert isinstance(ready, Connection)
                task = crew[ready].task
                assert task is not None
                try:
                    result = ready.recv()
                except (EOFError, OSError):
                    reason = dismiss(ready)
                    if queue.retry(*task):
                        continue
                    result = Lost(task[1], reason)
                else:
                    crew[ready].task = None
                    if isinstance(result, _CannotWork):
                        raise result.error
                unfinished.discard(task[0])
                yield task[0], result
    finally:
        for connection, worker in crew.items():
            connection.close()  # the worker reads the end and stops
            worker.process.terminate()
            worker.process.join()


def _serve(connection: Connection, make: "Make[Any, Any]", threads: int) -> None:
    """One worker process. It ends when its parent does, also when that was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent gets Ctrl-C too, and ends its workers
    set_threads(threads)
    try:
        work = make()
    except WatchwordError as error:
        connection.send(_CannotWork(error))
        return
    while True:
        try:
            item = connection.recv()
        except EOFError:
            return
        connection.send(work(item))


def set_threads(threads: int) -> None:
    """Of torch, in a worker: of one that is loaded, or that will be."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


# --- Ray -------------------------------------------------------------------------------------------------------------


def run_ray(
    make: "Make[Item, Result]", items: Iterable[Item], workers: int | None = None
) -> Iterator[Result | Lost[Item]]:
    """On a Ray cluster: an actor of one core for each worker; without a number, for each core of the cluster.

    Files are read and written by path, so they need the same paths on all machines.
    """
    try:
        ray: Any = importlib.import_module("ray")
    except ImportError as error:
        raise WatchwordError("--engine ray needs Ray: pip install 'watchword[ray]'") from error
    ours = not ray.is_initialized()
    if ours:
        _join_cluster(ray)
    actor = ray.remote(num_cpus=1, max_restarts=0)(_Actor)
    workers = workers or int(ray.cluster_resources().get("CPU", 1))
    queue, idle = Queue(items), list[Any]()
    busy: dict[Any, tuple[Any, tuple[int, Item, int]]] = {}
    try:
        while True:
            while len(busy) < workers and (task := queue.take()):
                hand = idle.pop() if idle else actor.remote(make)
                busy[hand.work.remote(task[1])] = (hand, task)
            if not busy:
                return
            done, _ = ray.wait(list(busy), num_returns=1)
            for reference in done:
                hand, task = busy.pop(reference)
                try:
                    result = ray.get(reference)
                except ray.exceptions.RayError as error:  # killed, out of memory, or its machine is gone
                    ray.kill(hand)  # whatever is left of it must not keep its core
                    if not queue.retry(*task):
                        yield Lost(task[1], str(error).strip().splitlines()[0])
                else:
                    idle.append(hand)
                    yield result
    finally:
        for hand in [*idle, *(hand for hand, _ in busy.values())]:
            ray.kill(hand)
        if ours:
            ray.shutdown()


def _join_cluster(ray: Any) -> None:
    """The cluster of RAY_ADDRESS, or a new one: never another that runs on this machine."""
    for name, value in PATIENCE.items():
        os.environ.setdefault(name, value)
    try:
        ray.init(os.environ.get("RAY_ADDRESS", "local"), log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # Ray raises plain exceptions here
        raise WatchwordError(f"cannot join or start a Ray cluster: {str(error).splitlines()[0]}") from error


class _Actor:
    """A worker of a Ray cluster."""

    def __init__(self, make: "Make[Any, Any]") -> None:
        set_threads(1)
        self.function = make()

    def work(self, item: Any) -> Any:
        return self.function(item)
