"""Several processes: every item once, in order where asked for, whoever dies on the way."""

import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from watchword.errors import WatchwordError
from watchword.workers import ATTEMPTS, WINDOW, Lost, Queue, run_local


def doubling() -> Callable[[int], int]:
    return lambda number: 2 * number


def slow_first(folder: Path) -> Callable[[int], int]:
    """The first item waits until some others are done."""

    def work(number: int) -> int:
        (folder / str(number)).touch()
        while number == 0 and len(list(folder.iterdir())) < 4:
            time.sleep(0.01)
        return number

    return work


def dying(folder: Path) -> Callable[[int], int]:
    """Item 1 kills its worker once, item 2 each time."""

    def work(number: int) -> int:
        mark = folder / str(number)
        if number == 2 or (number == 1 and not mark.exists()):
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return work


def impossible() -> Callable[[int], int]:
    raise WatchwordError("no weights here")


def test_every_item_is_done_once() -> None:
    assert sorted(run_local(doubling, range(20), 2)) == list(range(0, 40, 2))
    assert list(run_local(doubling, [], 2)) == []


def test_results_come_in_the_order_of_the_items(tmp_path: Path) -> None:
    assert list(run_local(partial(slow_first, tmp_path), range(8), 2, ordered=True)) == list(range(8))


def test_nothing_far_beyond_the_first_unfinished_item_is_begun() -> None:
    queue = Queue(iter(range(100)))
    assert [queue.take(3) for _ in range(4)] == [(0, 0, 1), (1, 1, 1), (2, 2, 1), None]
    assert queue.take(4) == (3, 3, 1)
    assert WINDOW > 1


def test_a_worker_that_dies_is_replaced_and_a_deadly_item_given_back(tmp_path: Path) -> None:
    found = list(run_local(partial(dying, tmp_path), range(5), 2, ordered=True))
    assert found[:2] + found[3:] == [0, 1, 3, 4]
    assert found[2] == Lost(2, "signal 9")
    assert f"{ATTEMPTS} times" in str(found[2])


def test_what_no_worker_can_begin_is_told() -> None:
    with pytest.raises(WatchwordError, match="no weights here"):
        list(run_local(impossible, range(3), 2))


def test_no_process_stays_when_the_reader_goes() -> None:
    import multiprocessing

    results = run_local(doubling, range(1000), 2)
    next(results)
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()
