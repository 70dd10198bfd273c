"""What the shipped captioners learn from, two files.

    python recipes/captioner_data.py $WATCHWORD_DATA data/captioner

`captions.jsonl.gz`: captions of MSR-VTT's clips, and of MSVD's train films 20 at most. `text.jsonl.gz`: words alone, of
MSR-VTT's train films that are none of the clips, every second caption; the clips of our validation split to choose by.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

MOST = 20  # of MSVD's films, every second caption: else they would be three quarters of all


def main(data: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    clips, films = rows(data / "msrvtt" / "clips.jsonl.gz"), rows(data / "msvd" / "captions.jsonl.gz")
    few = [film | {"captions": film["captions"][::2][:MOST]} for film in films if film["split"] == "train"]
    write(target / "captions.jsonl.gz", [*clips, *few])
    ours = {clip["video"] for clip in clips}
    others = [film for film in rows(data / "msrvtt" / "captions.jsonl.gz") if film["split"] == "train"]
    text = [film | {"captions": film["captions"][::2]} for film in others if film["video"] not in ours]
    write(target / "text.jsonl.gz", [*text, *(clip for clip in clips if clip["split"] == "val")])


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, films: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(film) + "\n" for film in films)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
