"""Searching by meaning: sentences as vectors of length 1, the cosine between them as nearness."""

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Below this cosine two sentences have nothing to do with each other: docs/guide/library.md says how it was chosen.
NEAR = 0.25


class Encoder(Protocol):
    """Makes vectors of sentences. Vectors of encoders with different names are never compared."""

    name: str

    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]: ...  # (sentences, D), of length 1


@cache
def minilm() -> Encoder:
    """One in memory for all; an error says how to get it where it is not here."""
    from watchword.backbones.minilm import load_encoder

    return load_encoder()


def has_minilm() -> bool:
    from watchword.backbones.minilm import is_present

    return is_present()


def as_bytes(vector: NDArray[np.float32]) -> bytes:
    """In half precision, the smaller end first: a library may move to any machine."""
    return vector.astype("<f2").tobytes()


def cosines(query: NDArray[np.float32], vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Of a vector (D,) with all that were kept."""
    kept = np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)  # (n, D)
    found: NDArray[np.float32] = kept @ query
    return found
