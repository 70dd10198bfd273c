"""What the shipped captioner learns from: captions of MSR-VTT's clips, and of MSVD's train films 20 at most.

    python recipes/captioner_data.py ../shared/data captions.jsonl.gz
"""

import gzip
import json
import sys
from pathlib import Path

MOST = 20  # of MSVD's films, every second caption: else they would be three quarters of all


def main(data: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(target, "wt", encoding="utf-8") as out:
        with gzip.open(data / "msrvtt" / "clips.jsonl.gz", "rt", encoding="utf-8") as lines:
            out.writelines(lines)
        with gzip.open(data / "msvd" / "captions.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                film = json.loads(line)
                if film["split"] == "train":
                    out.write(json.dumps(film | {"captions": film["captions"][::2][:MOST]}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
