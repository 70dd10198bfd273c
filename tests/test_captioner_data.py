"""The captions that the shipped captioner learns from."""

import gzip
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import SHARED

SCRIPT = Path(__file__).parents[1] / "recipes" / "captioner_data.py"


@pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not on this machine")
def test_the_captioners_captions_hold_msvds_training_films_alone_and_no_more_than_20_of_each(tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(SHARED), str(tmp_path / "made")], check=True)
    films, text = (read(tmp_path / "made" / name) for name in ("captions.jsonl.gz", "text.jsonl.gz"))
    clips = [film for film in films if film["video"].startswith("video")]
    others = [film for film in films if not film["video"].startswith("video")]
    assert Counter(film["split"] for film in clips) == {"train": 599, "val": 50, "test": 70}
    assert Counter(film["split"] for film in others) == {"train": 1200}
    assert max(len(film["captions"]) for film in others) == 20
    learned = {film["video"] for film in text if film["split"] == "train"}
    assert len(learned) == 5721
    assert not learned & {film["video"] for film in clips}, "held-out clips are learned as words"
    chosen_by = {film["video"] for film in text if film["split"] != "train"}
    assert chosen_by == {film["video"] for film in clips if film["split"] == "val"}


def read(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
