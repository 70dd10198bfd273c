"""Memory that training frees stays with the process.

Activations of a batch are hundreds of megabytes, freed at its end and asked for again by the next. The C library gives
large blocks back to the system at once, which clears every page before it hands it out anew. Told to keep them, it uses
them again. The peak of memory is somewhat higher; `benchmarks/allocator.py` measures both.
"""

import ctypes

TRIM_THRESHOLD, MMAP_MAX = -1, -4  # <malloc.h> of the GNU C library
KEPT_BYTES = 2**31 - 1  # mallopt takes an int


def keep_freed_memory() -> bool:
    """Whether the C library could be told: others than GNU's have no `mallopt`."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # TypeError: Windows
        return False
    return bool(mallopt(MMAP_MAX, 0)) and bool(mallopt(TRIM_THRESHOLD, KEPT_BYTES))
