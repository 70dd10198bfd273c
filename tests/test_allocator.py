"""Freed memory stays with a training process."""

import platform
import subprocess
import sys

import pytest

CHILD = """
import resource, sys
import numpy as np
from watchword.training.allocator import keep_freed_memory
kept = sys.argv[1] == "kept" and keep_freed_memory()
for update in range(10):
    if update == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = np.ones(2**24)  # 128 MB
    del block
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(how: str) -> tuple[int, int]:
    found = subprocess.run([sys.executable, "-c", CHILD, how], check=True, stdout=subprocess.PIPE, text=True).stdout
    kept, count = found.split()
    return int(kept), int(count)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is the GNU C library's")
def test_large_blocks_are_used_again_without_new_pages() -> None:
    kept, few = faults("kept")
    _, many = faults("given back")
    assert kept == 1
    assert few < many / 10


def test_a_c_library_without_mallopt_is_left_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from watchword.training import allocator

    monkeypatch.setattr(allocator.ctypes, "CDLL", lambda name: object())
    assert not allocator.keep_freed_memory()
