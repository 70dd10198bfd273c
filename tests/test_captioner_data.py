"""The captions that the default captioner learns from."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SHARED

SCRIPT = Path(__file__).parents[1] / "recipes" / "captioner_data.py"


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not on this machine")
def test_both_benchmarks_are_one_data_set_on_their_official_splits(tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT), str(SHARED), str(tmp_path)]
    subprocess.run(command, check=True)
    videos = read(tmp_path / "captions.jsonl.gz")
    splits = {video["video"]: video["split"] for video in videos}
    assert len(splits) == len(videos)
    of_msrvtt = Counter(split for video, split in splits.items() if video.startswith("video"))
    assert of_msrvtt == {"train": 3444, "val": 244, "test": 1135}
    assert Counter(splits.values()) - of_msrvtt == {"train": 1180, "val": 99, "test": 622}
    of_msvd = [video for video in videos if not video["video"].startswith("video")]
    assert max(len(video["captions"]) for video in of_msvd if video["split"] == "train") == 24
    assert max(len(video["captions"]) for video in of_msvd if video["split"] == "val") > 24, "references are cut"

    some = tmp_path / "store" / "appearance" / "key"
    some.mkdir(parents=True)
    (some / f"{of_msvd[0]['video']}.npz").touch()
    subprocess.run([*command, "--store", str(tmp_path / "store")], check=True)
    assert [video["video"] for video in read(tmp_path / "captions.jsonl.gz")] == [of_msvd[0]["video"]]


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
