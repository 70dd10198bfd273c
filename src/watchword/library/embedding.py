"""Semantic search: captions as sentence embeddings of length 1, compared by their cosine."""

from collections.abc import Sequence
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

# Below this cosine two captions are unrelated; docs/guide/library.md says how it was chosen.
NEAR = 0.25


class Encoder(Protocol):
    """Makes vectors of captions. Vectors of different encoders are never compared."""

    name: str

    def encode(self, captions: Sequence[str]) -> NDArray[np.float32]: ...  # (captions, D), of length 1


@cache
def minilm() -> Encoder:
    """Loaded once; an error says how to install it."""
    from watchword.backbones.minilm import load_encoder

    return load_encoder()


def has_minilm() -> bool:
    from watchword.backbones.minilm import is_present

    return is_present()


def as_bytes(vector: NDArray[np.float32]) -> bytes:
    """Half precision, little-endian: a library may move to any machine."""
    return vector.astype("<f2").tobytes()


def cosines(query: NDArray[np.float32], vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Of a vector (D,) with stored ones."""
    kept = np.frombuffer(b"".join(vectors), "<f2").reshape(len(vectors), -1).astype(np.float32)  # (n, D)
    found: NDArray[np.float32] = kept @ query
    return found
