"""METEOR against the jar: CPU seconds, wall seconds, peak memory; interleaved, each measurement in its own process.

    python benchmarks/meteor.py [--data FOLDER] [--rounds 3]

- jar: `pycocoevalcap`'s Meteor on one test set, JVM start included, the JVM's own CPU counted.
- tables: indexing METEOR's tables, in a new process; once a machine.
- cold: ours, a new process, references not indexed yet (METEOR's tables are).
- warm: ours, a new process, the index of the references on disk.
- rewards: milliseconds of CPU a sentence, 64 videos x 5 sentences never seen before, references indexed, JVM running.
"""

import argparse
import gzip
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

VIDEOS, ROLLOUTS, BATCHES = 64, 5, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[1] / ".." / "shared" / "data" / "metrics")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", action="store_true", help="only index METEOR's tables")
    parser.add_argument("--worker", nargs=3, metavar=("WHAT", "SET", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        what, name, folder = arguments.worker
        print(json.dumps(measure(what, arguments.data / f"{name}_loo_golden.json.gz", Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = [worker("tables", "msvd", Path(folder), arguments.data) for _ in range(arguments.rounds)]
        cpu, wall, memory = middle(tables, "cpu"), middle(tables, "wall"), max(row["peak"] for row in tables)
        print(f"tables: {cpu:.2f} s CPU, {wall:.2f} s wall, {memory:.0f} MB at most", flush=True)
        if arguments.tables:
            return
        print("| set | what | CPU s (median) | wall s | peak MB | METEOR | times less CPU |")
        print("|---|---|---|---|---|---|---|")
        for name in ("msvd", "msrvtt"):
            places = {what: Path(folder) / name for what in ("jar", "cold", "warm")}
            places["warm"].mkdir()
            results: dict[str, list[dict[str, Any]]] = {what: [] for what in places}
            for _ in range(arguments.rounds):
                for what in results:
                    results[what].append(worker(what, name, places[what], arguments.data))
            for what, rows in results.items():
                cpu = middle(rows, "cpu")
                times = middle(results["jar"], "cpu") / cpu
                memory = max(row["peak"] for row in rows)
                print(
                    f"| {name} | {what} | {cpu:.2f} | {middle(rows, 'wall'):.2f} | {memory:.0f} "
                    f"| {rows[0]['score']:.6f} | {times:.1f} |"
                )
            ours, jar = [], []
            for _ in range(arguments.rounds):
                ours.append(worker("rewards", name, places["warm"], arguments.data))
                jar.append(worker("jar-rewards", name, places["warm"], arguments.data))
            mine, java = middle(ours, "milliseconds"), middle(jar, "milliseconds")
            print(f"| {name} | rewards: {mine:.3f} ms a sentence, the jar {java:.3f} | | | | | {java / mine:.1f} |")


def worker(what: str, name: str, folder: Path, data: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--data", str(data), "--worker", what, name, str(folder)]
    one_thread = {**os.environ, "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread)
    measured: dict[str, Any] = json.loads(result.stdout)
    return measured


def middle(rows: list[dict[str, Any]], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def measure(what: str, path: Path, folder: Path) -> dict[str, Any]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        case = json.load(file)
    before, start = cpu_seconds(), time.perf_counter()  # reading the golden file is not counted, imports are
    if what.endswith("rewards"):
        return {"milliseconds": rewards(case, folder, what == "jar-rewards")}
    if what == "tables":
        score = float(index_tables())
    else:
        score = with_jar(case) if what == "jar" else with_ours(case, folder, what == "warm")
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {"cpu": cpu_seconds() - before, "wall": time.perf_counter() - start, "peak": peak / 1e3, "score": score}


def cpu_seconds() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def with_jar(case: dict[str, Any]) -> float:
    from pycocoevalcap.meteor.meteor import Meteor

    jar = Meteor()
    references = {video: case["tok_refs"][video] for video in case["ids"]}
    score, _ = jar.compute_score(references, {video: case["tok_hyps"][video] for video in case["ids"]})
    jar.meteor_p.stdin.close()  # ends the JVM, whose CPU is counted once it is waited for
    jar.meteor_p.wait()
    return float(score)


def with_ours(case: dict[str, Any], folder: Path, warm: bool) -> float:
    index = indexed(case, folder) if warm else fresh(case)
    found = index.statistics_of([(video, case["tok_hyps"][video][0].split(" ")) for video in case["ids"]])
    if not warm:
        index.save(folder)
    return float(index.corpus(found))


def index_tables() -> int:
    """Phrases of the paraphrase table, indexed into an empty cache."""
    from watchword.metrics.meteor import load_tables

    with tempfile.TemporaryDirectory() as cache:
        os.environ["WATCHWORD_CACHE"] = cache
        return int(load_tables().phrases.keys.size)


def fresh(case: dict[str, Any]) -> Any:
    from watchword.metrics.meteor import MeteorIndex

    return MeteorIndex({video: [line.split(" ") for line in case["tok_refs"][video]] for video in case["ids"]})


def indexed(case: dict[str, Any], folder: Path) -> Any:
    from watchword.metrics.meteor import MeteorIndex

    return MeteorIndex.load(folder)


def rewards(case: dict[str, Any], folder: Path, jar: bool) -> float:
    """Sentences as a sampler makes them: a caption of this video or another with two words changed."""
    dice = random.Random(1)
    captions = [line.split(" ") for lines in case["tok_refs"].values() for line in lines]
    batches = []
    for _ in range(BATCHES + 1):
        batch = []
        for video in dice.sample(case["ids"], VIDEOS):
            for _ in range(ROLLOUTS):
                own = dice.random() < 0.5
                words = list(dice.choice(case["tok_refs"][video]).split(" ") if own else dice.choice(captions))
                for _ in range(2):
                    words[dice.randrange(len(words))] = dice.choice(dice.choice(captions))
                batch.append((video, words))
        batches.append(batch)
    times = jar_rewards(case, batches) if jar else our_rewards(case, folder, batches)
    return 1e3 * statistics.median(times[1:]) / (VIDEOS * ROLLOUTS)  # the first warms up


def our_rewards(case: dict[str, Any], folder: Path, batches: list[Any]) -> list[float]:
    index = indexed(case, folder)
    times = []
    for batch in batches:
        start = time.process_time()
        index.segments(batch)
        times.append(time.process_time() - start)
    return times


def jar_rewards(case: dict[str, Any], batches: list[Any]) -> list[float]:
    from pycocoevalcap.meteor.meteor import Meteor

    jar = Meteor()

    def java_seconds() -> float:
        fields = Path(f"/proc/{jar.meteor_p.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    times = []
    for batch in batches:
        start = java_seconds() + time.process_time()
        for video, words in batch:
            jar._stat(" ".join(words), case["tok_refs"][video])
        times.append(java_seconds() + time.process_time() - start)
    return times


if __name__ == "__main__":
    main()
