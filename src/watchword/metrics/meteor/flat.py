"""Rows of different lengths, flat."""

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def spread(starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Flat places of the polynomials [start, start + length), and of which range each is."""
    owner = np.repeat(np.arange(lengths.size), lengths)
    first = np.cumsum(lengths) - lengths
    return np.arange(owner.size) + (starts - first)[owner], owner
