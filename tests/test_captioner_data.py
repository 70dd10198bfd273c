"""The captions that the shipped captioner learns from."""

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
def test_the_captioners_captions_hold_msvds_training_videos_alone_and_no_more_than_20_of_each(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(SHARED), str(tmp_path / "made")], check=True)
    videos, text = (read(tmp_path / "made" / name) for name in ("captions.jsonl.gz", "text.jsonl.gz"))
    clips = [video for video in videos if video["video"].startswith("video")]
    others = [video for video in videos if not video["video"].startswith("video")]
    assert Counter(video["split"] for video in clips) == {"train": 599, "val": 50, "test": 70}
    assert Counter(video["split"] for video in others) == {"train": 1200}
    assert max(len(video["captions"]) for video in others) == 20
    learned = {video["video"] for video in text if video["split"] == "train"}
    assert len(learned) == 5721
    assert not learned & {video["video"] for video in clips}, "held-out clips are learned as words"
    chosen_by = {video["video"] for video in text if video["split"] != "train"}
    assert chosen_by == {video["video"] for video in clips if video["split"] == "val"}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
