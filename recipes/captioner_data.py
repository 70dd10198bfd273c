"""Captions for the training of the default captioner: both benchmarks on their official splits, in one file.

    watchword features extract --benchmark msvd --store data/captioner/features --streams appearance
    watchword features extract --benchmark msrvtt --store data/captioner/features --streams appearance
    python recipes/captioner_data.py $WATCHWORD_DATA data/captioner

Writes `captions.jsonl.gz`. With `--store` the captions of videos without features are left out.
"""

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

MOST = 24  # captions of a training video of MSVD, evenly chosen: with all it would be two fifths of the captions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--store", type=Path)
    words = parser.parse_args()
    words.target.mkdir(parents=True, exist_ok=True)
    videos = read_videos(words.data)
    there = {path.name.partition(".")[0] for path in (words.store / "appearance").rglob("*")} if words.store else None
    used = [row for row in videos if there is None or row["video"] in there]
    keys = ("video", "split", "captions")
    write(words.target / "captions.jsonl.gz", [{key: row[key] for key in keys} for row in used])


def read_videos(data: Path) -> list[dict[str, Any]]:
    """The videos of both benchmarks that are at hand."""
    there = {path.stem for path in (data / "msvd" / "clips").glob("*.mp4")}
    msvd = [row | {"captions": some(row)} for row in rows(data / "msvd" / "captions.jsonl.gz") if row["video"] in there]
    return [*msvd, *rows(data / "msrvtt" / "pictures.jsonl.gz")]


def some(row: dict[str, Any]) -> list[str]:
    captions: list[str] = row["captions"]
    if row["split"] != "train" or len(captions) <= MOST:
        return captions
    return [captions[number * len(captions) // MOST] for number in range(MOST)]


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, videos: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(video) + "\n" for video in videos)


if __name__ == "__main__":
    main()
