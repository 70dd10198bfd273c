"""What scoring costs: ours cold and warm beside pycocoevalcap, in one run, by CPU seconds and peak memory.

    python benchmarks/metrics.py [--data FOLDER] [--sets msvd msrvtt] [--without-java]
    python benchmarks/metrics.py --times 1 4 16 [--sets msvd] [--beside FOLDER]

Every figure is of a process of its own, from start to scores, its children (the JVMs) included; machines with other
work on them make wall clocks useless, CPU seconds less so. Cold: METEOR's tables are indexed already (once per
machine), nothing is known of the references. Warm: the index of the references is in the cache.
Rewards: milliseconds a sentence for 64 videos x 5 rollouts, sentences that were not seen before.

`--times`: every video has the references of so many videos, its own first. Time and memory of a reference are those of
the most references less those of the fewest. `--beside`: the sources of another version, measured in turn.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / ".." / "shared" / "data" / "metrics"
SOURCE = Path(__file__).parents[1] / "src"
NUM_VIDEOS, NUM_ROLLOUTS, NUM_BATCHES = 64, 5, 8


def load(data: Path, name: str) -> tuple[dict[str, list[str]], dict[str, str]]:
    """References without the one caption of each video that plays the hypothesis; of BENCHMARK_TIMES videos each."""
    raw = json.loads(gzip.decompress((data / f"{name}_raw.json.gz").read_bytes()))
    left_out = raw["loo_index"]
    references = {
        video: [text for place, text in enumerate(texts) if place != left_out[video]]
        for video, texts in raw["refs"].items()
    }
    hypotheses = {video: raw["hyp"]["loo"][video] for video in references}
    return repeated(references, int(os.environ.get("BENCHMARK_TIMES", 1))), hypotheses


def repeated(references: dict[str, list[str]], times: int) -> dict[str, list[str]]:
    """Each video with the references of those that follow it, too."""
    videos = list(references)
    return {
        video: [text for step in range(times) for text in references[videos[(number + step) % len(videos)]]]
        for number, video in enumerate(videos)
    }


def ours(data: Path, name: str) -> dict[str, float]:
    from watchword.metrics import ReferenceIndex

    references, hypotheses = load(data, name)
    return ReferenceIndex(references, cache=Path(os.environ["BENCHMARK_INDEX"])).score(hypotheses).corpus


def theirs(data: Path, name: str) -> dict[str, float]:
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    references, hypotheses = load(data, name)
    tokenizer = PTBTokenizer()
    known = tokenizer.tokenize({v: [{"caption": text} for text in texts] for v, texts in references.items()})
    said = tokenizer.tokenize({v: [{"caption": text}] for v, text in hypotheses.items()})
    bleu, _ = Bleu(4).compute_score(known, said, verbose=0)
    scores = {f"Bleu_{order}": value for order, value in enumerate(bleu, 1)}
    for metric, scorer in {"METEOR": Meteor(), "ROUGE_L": Rouge(), "CIDEr": Cider()}.items():
        scores[metric] = float(scorer.compute_score(known, said)[0])
    return scores


def rewards(data: Path, name: str) -> dict[str, float]:
    """Milliseconds a sentence for each metric. Rollouts are hypotheses of other videos with two words swapped."""
    import random

    from watchword.metrics import ReferenceIndex, meteor_available

    references, hypotheses = load(data, name)
    index = ReferenceIndex(references, cache=Path(os.environ["BENCHMARK_INDEX"]))
    rng = random.Random(0)
    videos = list(references)
    batches = []
    for _ in range(NUM_BATCHES):
        chosen = rng.sample(videos, NUM_VIDEOS)
        sentences = []
        for video in chosen:
            rollouts = []
            for _ in range(NUM_ROLLOUTS):
                words = hypotheses[rng.choice([video, rng.choice(videos)])].split()
                words[rng.randrange(len(words))] = rng.choice(hypotheses[rng.choice(videos)].split())
                rollouts.append(" ".join(words))
            sentences.append(rollouts)
        batches.append((chosen, sentences))
    names = ["CIDEr", "ROUGE_L", "Bleu_4"] + ["METEOR"] * meteor_available()
    costs = {}
    for metric in names:
        spent = []
        for chosen, sentences in batches:
            start = time.process_time()
            index.reward(chosen, sentences, {metric: 1.0})
            spent.append(time.process_time() - start)
        costs[metric] = 1000 * sum(spent[1:]) / len(spent[1:]) / (NUM_VIDEOS * NUM_ROLLOUTS)  # the first one warms up
    return costs


def measure(what: str, data: Path, name: str, folder: Path, times: int = 1, source: Path = SOURCE) -> dict[str, Any]:
    """Runs one of the functions above in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "BENCHMARK_INDEX": str(folder),
        "BENCHMARK_TIMES": str(times),
        "OMP_NUM_THREADS": "1",
    }
    with tempfile.TemporaryFile() as output:
        start = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, __file__, "--only", what, "--data", str(data), "--sets", name],
            stdout=output,
            env=environment,
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"{what} on {name} failed")
        output.seek(0)
        answer = json.loads(output.read().decode().strip().splitlines()[-1])
    return {
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "wall_seconds": wall,
        "peak_megabytes": usage.ru_maxrss / 1024,
        "answer": answer,
    }


def growth(data: Path, name: str, times: list[int], sources: dict[str, Path]) -> None:
    """Prints how time and memory grow with the number of references."""
    with tempfile.TemporaryDirectory() as scratch:
        measure("ours", data, name, Path(scratch))  # indexes METEOR's tables, if this is the first time
    measured: dict[str, list[tuple[int, dict[str, float]]]] = {}
    for many in times:
        count = sum(map(len, repeated(load(data, name)[0], many).values()))
        for version, source in sources.items():
            with tempfile.TemporaryDirectory() as scratch:
                for label in ("cold", "warm"):
                    run = measure("ours", data, name, Path(scratch), many, source)
                    measured.setdefault(f"{version} {label}", []).append((count, run))
                    print(
                        f"{name:7} {version} {label}, {count:7} references: CPU {run['cpu_seconds']:6.2f} s, "
                        f"peak {run['peak_megabytes']:5.0f} MB",
                        flush=True,
                    )
    for label, ((few, first), *_, (most, last)) in measured.items():
        seconds, memory = (last[key] - first[key] for key in ("cpu_seconds", "peak_megabytes"))
        print(
            f"{name:7} {label}: {1e6 * seconds / (most - few):.1f} us and {1e3 * memory / (most - few):.2f} KB a "
            f"reference; {most / few:.0f} times the references take {last['cpu_seconds'] / first['cpu_seconds']:.1f} "
            "times as long"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--sets", nargs="+", default=["msvd", "msrvtt"])
    parser.add_argument("--without-java", action="store_true", help="leave pycocoevalcap out")
    parser.add_argument("--times", nargs="+", type=int)
    parser.add_argument("--beside", type=Path, metavar="FOLDER", help="with --times: `src` of another version")
    parser.add_argument("--only", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        function = {"ours": ours, "theirs": theirs, "rewards": rewards}[options.only]
        print(json.dumps(function(options.data, options.sets[0])))
        return
    if options.times:
        sources = {"this": SOURCE} | ({"other": options.beside} if options.beside else {})
        for name in options.sets:
            growth(options.data, name, options.times, sources)
        return
    for name in options.sets:
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch)
            runs = {label: measure("ours", options.data, name, folder) for label in ("cold", "warm")}
            if not options.without_java:
                runs["pycocoevalcap"] = measure("theirs", options.data, name, folder)
            for label, run in runs.items():
                print(
                    f"{name:7} {label:14} CPU {run['cpu_seconds']:6.2f} s, wall {run['wall_seconds']:6.2f} s, "
                    f"peak {run['peak_megabytes']:5.0f} MB"
                )
            if "pycocoevalcap" in runs:
                base = runs["pycocoevalcap"]
                for label in ("cold", "warm"):
                    ratio = base["cpu_seconds"] / runs[label]["cpu_seconds"]
                    memory = runs[label]["peak_megabytes"] / base["peak_megabytes"]
                    print(f"{name:7} {label}: {ratio:.1f} times less CPU, {memory:.2f} of the memory")
                gaps = [abs(base["answer"][metric] - value) for metric, value in runs["warm"]["answer"].items()]
                print(f"{name:7} largest difference of a corpus score: {max(gaps):.1e}")
            costs = measure("rewards", options.data, name, folder)["answer"]
            print(f"{name:7} reward, ms a sentence: " + ", ".join(f"{k} {v:.3f}" for k, v in costs.items()))


if __name__ == "__main__":
    main()
