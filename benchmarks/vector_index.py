"""A library's search by meaning beside usearch and sqlite-vec: time, memory, file, recall, and what one more row costs.

    pip install usearch sqlite-vec apsw          # in an environment of your own; only what is installed is compared
    python -m benchmarks.vector_index --captions captions.jsonl.gz [--count 200000] [--distinct 1000]
                                     [--only NAME...] [--keep FOLDER]

Vectors are made as `library.py` makes them: `--distinct` captions of the training split are embedded by MiniLM, and
each vector is a mixture of two. They are stored in half precision (sqlite-vec has none: float32). Queries are other
captions of the split. Recall: the share of the first ten that are as near as the ten of a search of every vector.

Every step is a process of its own with one thread. A search opens the file anew, as the command line does; `open` is a
search in a file that stays open. Memory is what the process holds at most beyond what it held before; pages of a mapped
file count. sqlite-vec is an extension, which Python's own `sqlite3` often cannot load: hence apsw.
"""

import argparse
import importlib
import importlib.util
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.library import FIRST, embedded, memory, training_captions
from watchword.library import signatures
from watchword.library.query import as_bytes, read_vectors

Vectors = NDArray[np.float32]
WIDTH, BLOCK, ENCODER = 384, 16_384, "benchmark"
NUM_QUERIES, NUM_OPENED = 100, 20  # for recall and searches in an open file; searches that open the file


class Index(Protocol):
    """A file of vectors; rows are numbered from 1."""

    needs: tuple[str, ...]  # packages

    def build(self, path: Path, blocks: Iterator[tuple[int, Vectors]]) -> None: ...
    def opened(self, path: Path) -> Callable[[Vectors], list[int]]: ...
    def add(self, path: Path, number: int, vector: Vectors) -> None: ...


class Signatures:
    """What a library does: the nearest signatures, then their vectors."""

    needs = ()

    def connect(self, path: Path) -> sqlite3.Connection:
        return sqlite3.connect(path)

    def build(self, path: Path, blocks: Iterator[tuple[int, Vectors]]) -> None:
        with closing(self.connect(path)) as connection, connection:
            connection.executescript(
                f"PRAGMA journal_mode = wal; {signatures.TABLE}"
                "CREATE TABLE vectors (segment INTEGER PRIMARY KEY, vector BLOB NOT NULL)"
            )
            for first, vectors in blocks:
                self.put(connection, first, vectors)

    def put(self, connection: sqlite3.Connection, first: int, vectors: Vectors) -> None:
        rows = [(first + row, as_bytes(vector)) for row, vector in enumerate(vectors)]
        connection.executemany("INSERT INTO vectors VALUES (?, ?)", rows)
        signatures.put(connection, ENCODER, [(number, "captions") for number, _ in rows], vectors)

    def opened(self, path: Path) -> Callable[[Vectors], list[int]]:
        connection = self.connect(path)
        none = np.zeros(0, np.int64)

        def search(asked: Vectors) -> list[int]:
            near = signatures.candidates(connection, ENCODER, asked, signatures.LANES, signatures.NUM_CANDIDATES, none)
            rows = connection.execute(
                "SELECT segment, vector FROM vectors WHERE segment IN (SELECT value FROM json_each(?))",
                (json.dumps(near),),
            ).fetchall()
            cosines = read_vectors([vector for _, vector in rows]) @ asked
            return [rows[row][0] for row in np.argsort(-cosines)[:FIRST]]

        return search

    def add(self, path: Path, number: int, vector: Vectors) -> None:
        with closing(self.connect(path)) as connection, connection:
            self.put(connection, number, vector[None])


class Usearch:
    """A graph (HNSW) in half precision, searched in the mapped file. To add a row, all is loaded and saved."""

    needs = ("usearch",)

    def empty(self) -> Any:
        from usearch.index import Index

        return Index(ndim=WIDTH, metric="cos", dtype="f16")

    def build(self, path: Path, blocks: Iterator[tuple[int, Vectors]]) -> None:
        index = self.empty()
        for first, vectors in blocks:
            index.add(np.arange(first, first + len(vectors)), vectors, threads=1)
        index.save(str(path))

    def opened(self, path: Path) -> Callable[[Vectors], list[int]]:
        index = self.empty()
        index.view(str(path))
        return lambda asked: [int(number) for number in index.search(asked, FIRST, threads=1).keys]

    def add(self, path: Path, number: int, vector: Vectors) -> None:
        index = self.empty()
        index.load(str(path))
        index.add(number, vector, threads=1)
        index.save(str(path))


class SqliteVec:
    """Every vector is compared, in float32."""

    needs = ("sqlite_vec", "apsw")
    columns = f"embedding float[{WIDTH}] distance_metric=cosine"
    names, values = "rowid, embedding", "?"
    select = "SELECT rowid FROM vectors WHERE embedding MATCH :asked AND k = :first"

    def connect(self, path: Path) -> Any:
        import apsw
        import sqlite_vec

        connection = apsw.Connection(str(path))
        connection.enable_load_extension(True)
        connection.load_extension(sqlite_vec.loadable_path())
        return connection

    def build(self, path: Path, blocks: Iterator[tuple[int, Vectors]]) -> None:
        with closing(self.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = wal").fetchall()
            connection.execute(f"CREATE VIRTUAL TABLE vectors USING vec0({self.columns})")
            with connection:
                for first, vectors in blocks:
                    self.put(connection, first, vectors)

    def put(self, connection: Any, first: int, vectors: Vectors) -> None:
        rows = [(first + row, *[vector.tobytes()] * self.values.count("?")) for row, vector in enumerate(vectors)]
        connection.executemany(f"INSERT INTO vectors ({self.names}) VALUES (?, {self.values})", rows)

    def opened(self, path: Path) -> Callable[[Vectors], list[int]]:
        connection = self.connect(path)
        named = {"first": FIRST, "candidates": signatures.NUM_CANDIDATES}
        return lambda asked: [row[0] for row in connection.execute(self.select, named | {"asked": asked.tobytes()})]

    def add(self, path: Path, number: int, vector: Vectors) -> None:
        with closing(self.connect(path)) as connection, connection:
            self.put(connection, number, vector[None])


class SqliteVecBits(SqliteVec):
    """The plan of the signatures in sqlite-vec's own means: the nearest by bits, then by their vectors."""

    columns = f"bits bit[{WIDTH}], +embedding BLOB"
    names, values = "rowid, bits, embedding", "vec_quantize_binary(?), ?"
    select = f"""
        SELECT rowid FROM (SELECT rowid, embedding FROM vectors
                           WHERE bits MATCH vec_quantize_binary(:asked) AND k = :candidates)
        ORDER BY vec_distance_cosine(embedding, :asked) LIMIT {FIRST}
    """


INDEXES: dict[str, Index] = {
    "signatures": Signatures(),
    "usearch": Usearch(),
    "sqlite-vec": SqliteVec(),
    "sqlite-vec, bits": SqliteVecBits(),
}


def is_installed(index: Index) -> bool:
    return all(importlib.util.find_spec(package) for package in index.needs)


# --- vectors ---------------------------------------------------------------------------------------------------------


def make(folder: Path, captions: Path, count: int, distinct: int) -> None:
    """`stored.npy` (count, 384) in half precision, `queries.npy` and `exact.npy`: the tenth cosine of each query."""
    said = training_captions(captions, random.Random(0))[: distinct + NUM_QUERIES]
    found = embedded(said, folder / "vectors.npy")
    known, queries = found[:-NUM_QUERIES], found[-NUM_QUERIES:]
    stored = np.lib.format.open_memmap(folder / "stored.npy", "w+", np.float16, (count, WIDTH))
    generator, best = np.random.default_rng(0), np.full((NUM_QUERIES, FIRST), -1.0, np.float32)
    for start in range(0, count, BLOCK):
        one, other = generator.integers(len(known), size=(2, min(BLOCK, count - start)))
        share = generator.random((len(one), 1), np.float32)
        mixed = share * known[one] + (1 - share) * known[other]
        stored[start : start + len(one)] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        cosines = np.concatenate([best, queries @ stored[start : start + len(one)].astype(np.float32).T], axis=1)
        best = np.partition(cosines, -FIRST, axis=1)[:, -FIRST:]
    np.save(folder / "queries.npy", queries)
    np.save(folder / "exact.npy", best.min(1))


# --- steps, each in a process of its own -----------------------------------------------------------------------------


def step(folder: Path, name: str, what: str) -> dict[str, float]:
    stored: NDArray[np.float16] = np.load(folder / "stored.npy", mmap_mode="r")
    queries: Vectors = np.load(folder / "queries.npy")
    index, path = INDEXES[name], folder / f"{name.replace(', ', '-')}.index"
    if what == "build":
        begin = time.process_time()
        blocks = range(0, len(stored), BLOCK)
        index.build(path, ((1 + row, stored[row : row + BLOCK].astype(np.float32)) for row in blocks))
        return {"build": time.process_time() - begin, "size": path.stat().st_size / 1e6}
    if what == "add":
        before, written, begin = memory("VmRSS"), bytes_written(), time.process_time()
        index.add(path, len(stored) + 1, queries[0])
        cost = 1e3 * (time.process_time() - begin)
        added = index.opened(path)(queries[0])[0] == len(stored) + 1
        return {
            "add": cost,
            "written": (bytes_written() - written) / 1e6,
            "add_memory": memory("VmHWM") - before,
            "found": added,
        }
    for package in index.needs:
        importlib.import_module(package)
    before = memory("VmRSS")
    held = index.opened(path)
    held(queries[0])
    opened = [spent(lambda asked=asked: index.opened(path)(asked)) for asked in queries[:NUM_OPENED]]  # type: ignore[misc]
    numbers: list[list[int]] = []
    times = [spent(lambda asked=asked: numbers.append(held(asked))) for asked in queries]  # type: ignore[misc]
    most = memory("VmHWM") - before
    cosines = np.stack([stored[np.array(some) - 1] @ asked for some, asked in zip(numbers, queries, strict=True)])
    near = cosines >= np.load(folder / "exact.npy")[:, None] - 1e-4
    return {
        "opened": statistics.median(opened),
        "open": statistics.median(times),
        "memory": most,
        "recall": float(near.mean()),
    }


def spent(work: Callable[[], object]) -> float:
    """CPU milliseconds."""
    begin = time.process_time()
    work()
    return 1e3 * (time.process_time() - begin)


def bytes_written() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def in_a_process(folder: Path, name: str, what: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.vector_index", "--keep", str(folder), "--step", name, what]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env={**os.environ, "OMP_NUM_THREADS": "1"})
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--distinct", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=INDEXES, default=list(INDEXES), metavar="NAME")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="vectors of a former run are used again")
    parser.add_argument("--step", nargs=2, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.step:
        print(json.dumps(step(chosen.keep, *chosen.step)))
        return
    if chosen.captions is None:
        parser.error("name captions of a data set: --captions captions.jsonl.gz")
    with tempfile.TemporaryDirectory() as scratch:
        folder = chosen.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "exact.npy").exists():
            make(folder, chosen.captions, chosen.count, chosen.distinct)
        report(folder, chosen.only)


def report(folder: Path, names: Sequence[str]) -> None:
    count = len(np.load(folder / "stored.npy", mmap_mode="r"))
    print(f"{count} vectors of {WIDTH} numbers; CPU time of one thread", flush=True)
    for name in names:
        index = INDEXES[name]
        if not is_installed(index):
            print(f"{name}: not installed", flush=True)
            continue
        for path in folder.glob(f"{name.replace(', ', '-')}.index*"):
            path.unlink()
        found: dict[str, float] = {}
        for what in ("build", "search", "add"):
            found |= in_a_process(folder, name, what)
        versions = " ".join(f"{package} {version(package.replace('_', '-'))}" for package in index.needs)
        print(
            f"{name} ({versions or 'numpy, sqlite3'}): build {found['build']:.1f} s, {found['size']:.0f} MB\n"
            f"  search {found['opened']:.1f} ms, open {found['open']:.1f} ms, memory {found['memory']:.0f} MB, "
            f"recall of {FIRST} {found['recall']:.3f}\n"
            f"  one more row: {found['add']:.1f} ms, {found['written']:.2f} MB written, "
            f"memory {found['add_memory']:.0f} MB, {'found' if found['found'] else 'not found'} at once",
            flush=True,
        )


if __name__ == "__main__":
    main()
