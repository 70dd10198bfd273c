"""Objects, relations and attributes of captions."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from watchword.research.analysis.tuples import read_scene, score_tuples


@pytest.mark.parametrize(
    ("sentence", "objects", "attributes", "relations"),
    [
        ("a young girl standing on a tennis court", "girl court", "girl-young girl-stand court-tenni", "girl-on-court"),
        ("a man is playing a guitar", "man guitar", "", "man-play-guitar"),
        ("a man plays guitar and sings", "man guitar", "man-sing", "man-play-guitar"),
        ("two dogs are running", "dog", "dog-two dog-run", ""),
        ("a man sitting at a table is talking", "man tabl", "man-sit man-talk", "man-at-tabl"),
        ("someone is slicing a red onion", "person onion", "onion-red", "person-slice-onion"),
        ("a man is old and tall", "man", "man-old man-tall", ""),
        ("", "", "", ""),
    ],
)
def test_a_caption_is_read_as_tuples(sentence: str, objects: str, attributes: str, relations: str) -> None:
    scene = read_scene(sentence.split())
    for found, expected in ((scene.object, objects), (scene.attribute, attributes), (scene.relation, relations)):
        assert found == {tuple(words.split("-")) for words in expected.split()}


def test_scores_by_hand() -> None:
    references = {"a": ["a man is riding a brown horse", "men ride horses"], "b": ["a dog runs"]}
    scores = score_tuples(references, {"a": "a man is riding a bike", "b": "a dog sleeps"})
    # a: man, bike against man, horse; b: dog against dog
    assert scores.f1["object"] == pytest.approx((2 * 1 / 4 + 1) / 2)
    assert scores.precision["object"] == pytest.approx((1 / 2 + 1) / 2)
    # a: (man, ride, bike) against (man, ride, horse); b has no relation on either side
    assert scores.f1["relation"] == 0
    assert scores.videos == {"object": 2, "relation": 1, "attribute": 2}
    # a: nothing against (horse, brown); b: (dog, sleep) against (dog, run)
    assert scores.f1["attribute"] == 0


def test_a_caption_that_a_person_wrote_beats_one_about_another_video() -> None:
    references = {"a": ["a cat drinks milk", "a white cat is drinking milk"], "b": ["a man drives a red car"]}
    right = score_tuples(references, {"a": "a white cat drinks milk", "b": "a man drives a red car"})
    wrong = score_tuples(references, {"b": "a white cat drinks milk", "a": "a man drives a red car"})
    assert min(right.f1.values()) == 1
    assert max(wrong.f1.values()) == 0


def test_the_command_puts_systems_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text(json.dumps({"video": "a", "split": "test", "captions": ["a dog runs"]}))
    (tmp_path / "one.json").write_text(json.dumps({"a": "a dog runs"}))
    (tmp_path / "two.json").write_text(json.dumps({"a": "a cat runs"}))
    words = ["research", "tuple-f1", "captions.jsonl", "one.json", "two.json", "--split", "test", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "watchword", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    answer = json.loads(done.stdout)
    assert [answer[name]["ours"]["f1"]["object"] for name in ("one.json", "two.json")] == [1, 0]
