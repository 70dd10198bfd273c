"""Signatures of vectors: one bit a dimension, its sign. Semantic search scans them instead of the vectors.

A signature of MiniLM has 48 bytes where its vector has 768, so a million of them are read and compared in milliseconds.
The captions with the nearest signatures are candidates; their vectors decide. Signatures are only a shortcut: one that
is stale or missing changes the candidates, never a cosine.

Signatures lie in blocks, at the place of their segment's number, so that one is changed in place. They are rows of
the library's own file: a transaction covers both, and a kill leaves them as consistent as everything else.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from watchword.types import Lane

BLOCK_SIZE = 4096  # segments
NUM_CANDIDATES = 2000  # of a search
LANES: tuple[Lane, ...] = get_args(Lane)

MAX_BLOCK = 1 << 40
FAR = np.iinfo(np.uint16).max  # the distance of what is not wanted

TABLE = """
CREATE TABLE signatures (
    encoder TEXT NOT NULL,
    block INTEGER NOT NULL,
    lanes BLOB NOT NULL,                   -- a byte a segment: 0 for none, else the lane's number from 1
    bits BLOB NOT NULL,                    -- a signature a segment
    UNIQUE (encoder, block)
);
"""


def signatures(vectors: NDArray[np.floating]) -> NDArray[np.uint64]:
    """(n, D) vectors -> (n, words): signs, 64 to a word, the last word filled up with zeros."""
    signs = np.zeros((len(vectors), -(-vectors.shape[1] // 64) * 64), np.bool_)
    signs[:, : vectors.shape[1]] = vectors > 0
    return np.packbits(signs, axis=1).view("<u8")


def put(
    connection: sqlite3.Connection, encoder: str, segments: Sequence[tuple[int, Lane]], vectors: NDArray[np.floating]
) -> None:
    """Signatures of segments, in place of former ones."""
    bits = signatures(vectors)
    size = bits.shape[1] * 8
    order = sorted(range(len(segments)), key=lambda row: segments[row][0])
    for block, rows in groupby(order, key=lambda row: segments[row][0] // BLOCK_SIZE):
        number = _block(connection, encoder, block, size)
        with _opened(connection, "lanes", number) as lanes, _opened(connection, "bits", number) as blob:
            for row in rows:
                segment, lane = segments[row]
                place = segment % BLOCK_SIZE
                lanes[place] = 1 + LANES.index(lane)
                blob[place * size : (place + 1) * size] = bits[row].tobytes()


def _block(connection: sqlite3.Connection, encoder: str, block: int, size: int) -> int:
    """The row of a block, which is made where it is missing, and made anew where it has another size."""
    key = {"encoder": encoder, "block": block, "lanes": BLOCK_SIZE, "bits": BLOCK_SIZE * size}
    of_block = "encoder = :encoder AND block = :block"
    connection.execute(
        f"DELETE FROM signatures WHERE {of_block} AND (length(lanes) <> :lanes OR length(bits) <> :bits)", key
    )
    connection.execute(
        "INSERT OR IGNORE INTO signatures VALUES (:encoder, :block, zeroblob(:lanes), zeroblob(:bits))", key
    )
    return int(connection.execute(f"SELECT rowid FROM signatures WHERE {of_block}", key).fetchone()[0])


def forget(connection: sqlite3.Connection, segments: Sequence[int]) -> None:
    """Overwrites the signatures of segments with zeros."""
    for block, group in groupby(sorted(segments), key=lambda number: number // BLOCK_SIZE):
        places = [number % BLOCK_SIZE for number in group]
        connection.execute(
            "DELETE FROM signatures WHERE block = ? AND (length(lanes) <> ? OR length(bits) % ?)",
            (block, BLOCK_SIZE, BLOCK_SIZE),
        )  # damaged
        rows = connection.execute("SELECT rowid, length(bits) FROM signatures WHERE block = ?", (block,)).fetchall()
        for row, length in rows:
            size = length // BLOCK_SIZE
            with _opened(connection, "lanes", row) as lanes, _opened(connection, "bits", row) as blob:
                for place in places:
                    for opened, width in ((lanes, 1), (blob, size)):
                        opened.seek(place * width)
                        opened.write(bytes(width))


def candidates(
    connection: sqlite3.Connection,
    encoder: str,
    asked: NDArray[np.floating],
    lanes: Sequence[Lane],
    count: int,
    excluded: NDArray[np.int64],
) -> list[int]:
    """The segments of these lanes with the nearest signatures: at least `count`, where there are so many.

    `excluded`: segments that are left out, sorted.
    """
    (signature,) = signatures(asked[None])
    wanted = np.zeros(256, np.bool_)
    wanted[[1 + LANES.index(lane) for lane in lanes]] = True
    any_lane = set(lanes) == set(LANES)
    beside = np.tile(signature, (BLOCK_SIZE, 1))
    blocks, distances = [], []
    for block, present, bits in _blocks(connection, encoder, len(signature)):
        is_wanted = present > 0 if any_lane else wanted[present]
        first, last = np.searchsorted(excluded, [block * BLOCK_SIZE, (block + 1) * BLOCK_SIZE])
        is_wanted[excluded[first:last] - block * BLOCK_SIZE] = False
        found = _distances(bits, beside)
        if not is_wanted.all():
            found[~is_wanted] = FAR
        blocks.append(block)
        distances.append(found)
    if not blocks:
        return []
    table = np.stack(distances)  # (blocks, BLOCK_SIZE)
    # Distances are small numbers, so counting them finds the limit without sorting.
    limit = min(int(np.searchsorted(np.bincount(table.ravel()).cumsum(), count)), FAR - 1)
    rows, places = (table <= limit).nonzero()
    chosen: list[int] = (np.array(blocks, np.int64)[rows] * BLOCK_SIZE + places).tolist()
    return chosen


def _distances(bits: NDArray[np.uint64], others: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """(n, words), twice -> (n,) of different bits. Word by word: a sum over so short an axis is slow."""
    counts = np.bitwise_count(bits ^ others)
    total = counts[:, 0].astype(np.uint16)
    for column in range(1, counts.shape[1]):
        total = total + counts[:, column]
    return total


def _blocks(
    connection: sqlite3.Connection, encoder: str, words: int
) -> Iterator[tuple[int, NDArray[np.uint8], NDArray[np.uint64]]]:
    """Blocks of another size are damaged, and left out."""
    rows = connection.execute(
        "SELECT block, lanes, bits FROM signatures "
        "WHERE encoder = ? AND block BETWEEN 0 AND ? AND length(lanes) = ? AND length(bits) = ?",
        (encoder, MAX_BLOCK, BLOCK_SIZE, BLOCK_SIZE * words * 8),
    )
    for block, lanes, bits in rows:
        yield block, np.frombuffer(lanes, np.uint8), np.frombuffer(bits, "<u8").reshape(BLOCK_SIZE, words)


def _opened(connection: sqlite3.Connection, column: str, row: int) -> sqlite3.Blob:
    return connection.blobopen("signatures", column, row)
