"""Captions for the training of the shipped captioners, in two files.

    python recipes/captioner_data.py $WATCHWORD_DATA data/captioner

`captions.jsonl.gz`: captions of MSR-VTT's clips, and at most 20 of each of MSVD's training videos. `text.jsonl.gz`:
captions without videos, every second one of MSR-VTT's training videos that are none of the clips; the validation clips
to select by.
"""

import gzip
import json
import sys
from pathlib import Path
from typing import Any

MOST = 20  # of MSVD's videos, every second caption: else they would be three quarters of all


def main(data: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    clips, videos = rows(data / "msrvtt" / "clips.jsonl.gz"), rows(data / "msvd" / "captions.jsonl.gz")
    few = [video | {"captions": video["captions"][::2][:MOST]} for video in videos if video["split"] == "train"]
    write(target / "captions.jsonl.gz", [*clips, *few])
    ours = {clip["video"] for clip in clips}
    others = [video for video in rows(data / "msrvtt" / "captions.jsonl.gz") if video["split"] == "train"]
    text = [video | {"captions": video["captions"][::2]} for video in others if video["video"] not in ours]
    write(target / "text.jsonl.gz", [*text, *(clip for clip in clips if clip["split"] == "val")])


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def write(path: Path, videos: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as out:
        out.writelines(json.dumps(video) + "\n" for video in videos)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
