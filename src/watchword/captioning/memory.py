"""A film of any length in the same memory: what was freed goes back to the system."""

import ctypes
import sys


def give_back() -> None:
    """glibc keeps what was freed, scattered over a heap for each thread: the second half of a two-hour film took 2.5 GB
    so, now 0.74 (docs/guide/describe.md). Elsewhere the allocator is left to itself."""
    if sys.platform == "linux":
        try:
            ctypes.CDLL("libc.so.6").malloc_trim(0)
        except (OSError, AttributeError):  # another C library
            return
