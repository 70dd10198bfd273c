"""How fast a library is: adding videos, searching words, semantic search.

    python benchmarks/library.py [--videos 1000] [--segments 10] [--captions captions.jsonl.gz] [--semantic]

Captions are people's captions of a data set's training split, or made of a few words where none is given.
Seconds of CPU, the median of 20 searches; each opens the file anew, as the command line does.
"""

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from watchword.captioning.description import Caption, Description, Segment, Word
from watchword.library import Library

WORDS = (
    "a the two young old little black white".split(),
    "man woman dog cat child car horse band chef player girl boy".split(),
    "is runs plays cooks sings rides talks dances sits drives".split(),
    "in on near behind with over".split(),
    "park kitchen stage beach road room table field water mango".split(),
)
QUERIES = ("mango", "man", "a man is", "runn", '"man is"', "man -woman", "m* on a road", "zebra")
MEANINGS = ("a puppy", "somebody makes music")


def sentences(captions: Path | None, generator: random.Random) -> Callable[[], str]:
    if captions is None:
        return lambda: " ".join(generator.choice(some) for some in WORDS)
    from watchword.data.annotations import read_annotations

    said = [line for clip in read_annotations(captions) if clip.split == "train" for line in clip.captions]
    return lambda: generator.choice(said)


def video(number: int, num_segments: int, say: Callable[[], str], generator: random.Random) -> Description:
    segments = []
    for place in range(num_segments):
        words = tuple(Word(word, generator.random(), {"appearance": 10.0 * place}) for word in say().split())
        segments.append(Segment(10.0 * place, 10.0 * place + 10, (Caption(words, generator.random()),)))
    return Description(Path(f"video{number}.mp4"), 10.0 * num_segments, "benchmark", tuple(segments))


def milliseconds(work: Callable[[], object], times: int = 20) -> tuple[float, float]:
    """(CPU, clock), the median."""
    spent = []
    for _ in range(times):
        cpu, clock = time.process_time(), time.perf_counter()
        work()
        spent.append((1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - clock)))
    return statistics.median(cpu for cpu, _ in spent), statistics.median(clock for _, clock in spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--videos", type=int, default=1000)
    parser.add_argument("--segments", type=int, default=10)
    parser.add_argument("--captions", type=Path)
    parser.add_argument("--semantic", action="store_true")
    chosen = parser.parse_args()
    generator = random.Random(0)
    say = sentences(chosen.captions, generator)
    with tempfile.TemporaryDirectory() as folder:
        library = Library(Path(folder) / "library.db")
        videos = [video(number, chosen.segments, say, generator) for number in range(chosen.videos)]
        cpu, clock = time.process_time(), time.perf_counter()
        for number, one in enumerate(videos):
            library.add(one, name=one.video.name, identity=str(number), source=None, explanation=None)
        cpu, clock = (
            1e3 * (now - then) / len(videos) for now, then in ((time.process_time(), cpu), (time.perf_counter(), clock))
        )
        size = library.path.stat().st_size
        print(f"{len(videos)} videos of {chosen.segments} segments: {size / 1e6:.1f} MB")
        print(f"{'add a video':30}{cpu:8.2f} ms CPU {clock:8.2f} ms")

        def report(name: str, work: Callable[[], object], found: object = "") -> None:
            cpu, clock = milliseconds(work)
            print(f"{name:30}{cpu:8.2f} ms CPU {clock:8.2f} ms  {found}")

        report("the newest 50 videos", library.videos)
        for query in QUERIES:
            report(f"search {query}", lambda query=query: library.search(query), library.count_hits(query))  # type: ignore[misc]
        if chosen.semantic:
            cpu = time.process_time()
            count = library.embed()
            print(f"{count} distinct sentences understood in {time.process_time() - cpu:.1f} s CPU")
            for query in MEANINGS:
                total = library.count_hits(query, semantic=True)
                report(f"semantic: {query}", lambda query=query: library.search(query, semantic=True), total)  # type: ignore[misc]
            print(f"{library.path.stat().st_size / 1e6:.1f} MB with vectors")


if __name__ == "__main__":
    main()
