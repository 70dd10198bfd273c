"""How fast a library is, up to a million captions: adding videos, searching words, semantic search.

    python benchmarks/library.py [--videos 1000] [--segments 10] [--captions captions.jsonl.gz]
                                 [--semantic] [--distinct 20000] [--keep FOLDER]

    python benchmarks/library.py --videos 10000 --segments 100 --captions captions.jsonl.gz --semantic   a million

Captions are the beginning of one caption and the end of another, of a data set's training split, or made of a few
words where none is given. CPU milliseconds, the median of 20 searches in a process of its own; each opens the file
anew, as the command line does. The first 100 videos are added one by one, the others in bulk.

`--semantic`: `--distinct` captions of the training split are embedded by MiniLM. The vector of a caption made of two is
their mean, weighted by words. Recall against a search of every vector is measured in this library, and among the
embedded captions alone. Queries are other captions of the same split, and a few words.
With `--keep`, files stay and are used again.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library, signatures
from watchword.library.edits import INDEXES
from watchword.library.query import Encoder, Query, as_bytes, minilm, read_vectors

WORDS = (
    "a the two young old little black white".split(),
    "man woman dog cat child car horse band chef player girl boy".split(),
    "is runs plays cooks sings rides talks dances sits drives".split(),
    "in on near behind with over".split(),
    "park kitchen stage beach road room table field water mango".split(),
)
QUERIES = ("mango", "man ", "man", "a man is", "runn", '"man is"', "man -woman", "m* on a road", "zebra", "seen:man")
MEANINGS = ("a puppy", "somebody makes music", "a puppy -dog")
NUM_RECALL, FIRST = 200, 10  # queries, and hits that are compared
NUM_SINGLE = 100  # videos that are added one by one


@dataclass
class Sentences:
    """Makes captions, and remembers of which two captions each is made."""

    said: Sequence[str]
    generator: random.Random
    parts: dict[str, tuple[int, int, float]] = field(default_factory=dict)

    def __call__(self) -> str:
        if not self.said:
            return " ".join(self.generator.choice(some) for some in WORDS)
        one, other = (self.generator.randrange(len(self.said)) for _ in range(2))
        begin, end = self.said[one].split(), self.said[other].split()
        cut = self.generator.randint(1, len(begin))
        words = begin[:cut] + end[len(end) - self.generator.randint(0, len(end) // 2) :]
        self.parts["".join(words)] = one, other, cut / len(words)  # a library writes "man 's" as "man's"
        return " ".join(words)


@dataclass
class Mixed:
    """An encoder of these captions, without a network."""

    vectors: NDArray[np.float32]
    parts: dict[str, tuple[int, int, float]]
    name: str

    def encode(self, captions: Sequence[str]) -> NDArray[np.float32]:
        one, other, share = zip(*(self.parts[caption.replace(" ", "")] for caption in captions), strict=True)
        weight = np.array(share, np.float32)[:, None]
        mixed = weight * self.vectors[list(one)] + (1 - weight) * self.vectors[list(other)]
        found: NDArray[np.float32] = mixed / np.linalg.norm(mixed, axis=1, keepdims=True)
        return found


def training_captions(path: Path, generator: random.Random) -> list[str]:
    from watchword.data.annotations import read_annotations

    clips = (clip for clip in read_annotations(path) if clip.split == "train")
    said = sorted({line for clip in clips for line in clip.captions})
    generator.shuffle(said)
    return said


def video(number: int, num_segments: int, say: Callable[[], str], generator: random.Random) -> Description:
    segments = []
    for place in range(num_segments):
        words = tuple(Word(word, generator.random(), {"appearance": 10.0 * place}) for word in say().split())
        segments.append(Segment(10.0 * place, 10.0 * place + 10, (Caption(words, generator.random()),)))
    return Description(Path(f"video{number}.mp4"), 10.0 * num_segments, "benchmark", tuple(segments))


def fill(library: Library, num_videos: int, num_segments: int, say: Callable[[], str]) -> None:
    generator, spent = random.Random(1), 0.0
    num_single = min(num_videos, NUM_SINGLE)
    for number in range(num_single):
        one = video(number, num_segments, say, generator)
        begin = time.process_time()
        library.add(one, name=one.video.name, identity=str(number), source=None, explanation=None)
        spent += time.process_time() - begin
    print(f"{'add a video':30}{1e3 * spent / max(num_single, 1):8.2f} ms CPU", flush=True)
    add_in_bulk(library, range(num_single, num_videos), num_segments, say, generator)
    size = library.path.stat().st_size
    print(f"{num_videos} videos of {num_segments} segments: {size / 1e6:.1f} MB", flush=True)


def add_in_bulk(
    library: Library, numbers: Iterable[int], num_segments: int, say: Callable[[], str], generator: random.Random
) -> None:
    """The rows that `Library.add` writes, without a transaction for each video."""
    with library.file.writing() as connection:
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM segments").fetchone()
        for number in numbers:
            row = connection.execute(
                "INSERT INTO videos (identity, name, path, seconds, caption, confidence, captioner, warnings, added) "
                "VALUES (?, ?, ?, ?, '', 0.5, 'benchmark', '[]', ?)",
                (str(number), f"video{number}.mp4", f"video{number}.mp4".encode(), 10.0 * num_segments, number),
            )
            rows = []
            for place in range(num_segments):
                text, confidence, start = say(), generator.random(), 10.0 * place
                words = [{"word": word, "probability": 0.5, "seconds": {}} for word in text.split()]
                about = {"caption": text, "confidence": confidence, "words": words, "alternatives": []}
                content = {"start": start, "end": start + 10, **about}
                rows.append((row.lastrowid, start, start + 10, text, confidence, json.dumps(content)))
            connection.executemany(
                "INSERT INTO segments (video, start, end, caption, confidence, content) VALUES (?, ?, ?, ?, ?, ?)", rows
            )
        for index in INDEXES:
            connection.execute(
                f"INSERT INTO {index} (rowid, caption) SELECT id, caption FROM segments WHERE id > ?", (last,)
            )
        connection.execute("INSERT INTO pending SELECT id FROM segments WHERE id > ?", (last,))


def embedded(captions: Sequence[str], path: Path) -> NDArray[np.float32]:
    """Their vectors by MiniLM, kept in a file."""
    if not path.exists():
        begin = time.process_time()
        order = sorted(range(len(captions)), key=lambda row: len(captions[row]))
        vectors = np.zeros((len(captions), 384), np.float32)
        for start in range(0, len(order), 1024):
            some = order[start : start + 1024]
            vectors[some] = minilm().encode([captions[row] for row in some])
        print(f"{len(captions)} captions embedded by MiniLM in {time.process_time() - begin:.0f} s CPU", flush=True)
        np.save(path, vectors)
    loaded: NDArray[np.float32] = np.load(path)
    return loaded


def store_vectors(path: Path, encoder: Encoder) -> None:
    library = Library(path, lambda: encoder)
    begin = time.process_time()
    count = store_in_bulk(library, encoder)
    print(f"vectors of {count} captions stored in {time.process_time() - begin:.1f} s CPU")
    print(f"{path.stat().st_size / 1e6:.1f} MB with vectors", flush=True)


def store_in_bulk(library: Library, encoder: Encoder) -> int:
    """The rows that `Library.embed` writes, of a library without vectors whose segments are all captions."""
    with library.file.writing() as connection:
        if connection.execute("SELECT 1 FROM vectors").fetchone():
            return 0
        rows = connection.execute("SELECT id, caption FROM segments ORDER BY id").fetchall()
        for block, some in groupby(rows, key=lambda row: row["id"] // signatures.BLOCK_SIZE):
            numbers, captions = zip(*some, strict=True)
            vectors = encoder.encode(captions)
            size, content = len(as_bytes(vectors[0])), as_bytes(vectors)
            connection.executemany(
                "INSERT INTO vectors VALUES (?, ?, ?)",
                ((number, encoder.name, content[row * size : (row + 1) * size]) for row, number in enumerate(numbers)),
            )
            places, signs = np.array(numbers) % signatures.BLOCK_SIZE, signatures.signatures(vectors)
            lanes = np.zeros(signatures.BLOCK_SIZE, np.uint8)
            bits = np.zeros((signatures.BLOCK_SIZE, signs.shape[1]), np.uint64)
            lanes[places], bits[places] = 1 + signatures.LANES.index("captions"), signs
            connection.execute(
                "INSERT INTO signatures VALUES (?, ?, ?, ?)", (encoder.name, block, lanes.tobytes(), bits.tobytes())
            )
        connection.execute("DELETE FROM pending")
    return len(rows)


# --- searching, in a process of its own --------------------------------------------------------------------------


def milliseconds(work: Callable[[], object], times: int = 20) -> tuple[float, float]:
    """(CPU, clock), the median."""
    spent = []
    for _ in range(times):
        cpu, clock = time.process_time(), time.perf_counter()
        work()
        spent.append((1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - clock)))
    return statistics.median(cpu for cpu, _ in spent), statistics.median(clock for _, clock in spent)


def memory(kind: str) -> float:
    """MB of this process: VmRSS now, VmHWM at most."""
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    return sum(int(line.split()[1]) / 1024 for line in lines if line.startswith(kind))


def measure(path: Path, semantic: bool) -> None:
    """Prints the cost of every search."""
    library = Library(path)

    def report(name: str, work: Callable[[], object], found: object = "") -> None:
        cpu, clock = milliseconds(work)
        print(f"{name:30}{cpu:8.2f} ms CPU {clock:8.2f} ms  {found}", flush=True)

    report("the newest 50 videos", library.videos)
    for query in QUERIES:
        report(f"search {query!r}", lambda query=query: library.search(query), library.count_hits(query))  # type: ignore[misc]
        report(f"count {query!r}", lambda query=query: library.count_hits(query))  # type: ignore[misc]
    if semantic:
        encoder = minilm()
        report("encode a query", lambda: encoder.encode([MEANINGS[0]]))
        before = memory("VmRSS")
        for query in MEANINGS:
            report(f"semantic {query!r}", lambda query=query: library.search(query, semantic=True))  # type: ignore[misc]
        most = memory("VmHWM")
        print(f"memory: {before:.0f} MB with the encoder, {most:.0f} MB at most: {most - before:.0f} MB for searching")


def recall(path: Path, queries: Sequence[str]) -> float:
    """The share of the first ten that are as near as the ten that a search of every vector finds."""
    library = Library(path)
    asked = minilm().encode([" ".join(one.text for one in Query.read_all(query)) for query in queries])
    best = np.full((len(queries), 0), -1.0, np.float32)
    for vectors in all_vectors(library):
        cosines = np.concatenate([best, asked @ vectors.T], axis=1)
        best = np.partition(cosines, -FIRST, axis=1)[:, -FIRST:] if cosines.shape[1] > FIRST else cosines
    shares = []
    for query, exact in zip(queries, best, strict=True):
        wanted = exact[exact >= 0.25]  # no more than a search shows
        found = np.array([hit.rank for hit in library.search(query, limit=FIRST, semantic=True)])
        shares.append((found >= exact.min() - 1e-4).sum() / len(wanted) if len(wanted) else 1.0)
    return float(np.mean(shares))


def all_vectors(library: Library) -> Iterator[NDArray[np.float32]]:
    with library.file.reading() as connection:
        rows = connection.execute("SELECT vector FROM vectors")
        while some := rows.fetchmany(16384):
            yield read_vectors([vector for (vector,) in some])


def in_a_process(what: str, path: Path, **values: object) -> None:
    """A function of this file, so that nothing else counts."""
    command = [sys.executable, __file__, "--only", what, "--library", str(path), "--values", json.dumps(values)]
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=10)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--semantic", action="store_true")
    parser.add_argument("--distinct", type=int, default=20_000)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    for hidden in ("--only", "--library", "--values"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.only == "measure":
        measure(Path(chosen.library), **json.loads(chosen.values))
        return
    with tempfile.TemporaryDirectory() as scratch:
        run(chosen, chosen.keep or Path(scratch))


def run(chosen: argparse.Namespace, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)
    said = training_captions(chosen.captions, generator) if chosen.captions else []
    known, others = said[: chosen.distinct], said[chosen.distinct :]
    say = Sentences(known, generator)
    path, alone = folder / "library.db", folder / "embedded.db"
    vectors = embedded(known, folder / "vectors.npy") if chosen.semantic else None
    if not path.exists():
        fill(Library(path), chosen.videos, chosen.segments, say)
    elif vectors is not None:  # a benchmark that was stopped goes on: the same captions again
        for _ in range(chosen.videos * chosen.segments):
            say()
    if vectors is not None:
        store_vectors(path, Mixed(vectors, say.parts, minilm().name))
    in_a_process("measure", path, semantic=chosen.semantic)
    if vectors is None:
        return
    if not alone.exists():
        each = iter(known)
        fill(Library(alone), len(known) // 100, 100, lambda: next(each))
        parts = {caption.replace(" ", ""): (row, row, 1.0) for row, caption in enumerate(known)}
        store_vectors(alone, Mixed(vectors, parts, minilm().name))
    for name, queries in (("captions", others[:NUM_RECALL]), ("words", short_queries(others, generator))):
        for place, about in ((path, "all"), (alone, "embedded alone")):
            print(
                f"recall of the first {FIRST}, {len(queries)} {name}, {about}: {recall(place, queries):.3f}", flush=True
            )


def short_queries(captions: Sequence[str], generator: random.Random) -> list[str]:
    """Two or three words of a caption, as people type them."""
    told = [[word for word in caption.split() if len(word) > 3] for caption in captions]
    return [" ".join(generator.sample(words, min(len(words), 3))) for words in told if len(words) >= 2][:NUM_RECALL]


if __name__ == "__main__":
    main()
