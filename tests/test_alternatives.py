"""Alternatives differ in content, not in wording."""

import pytest

from tests.servers import said
from watchword.captioning.description import Segment
from watchword.captioning.merge import say_the_same, split_by_content
from watchword.server.schemas import SegmentAnswer


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a man is talking", "the man talks", True),
        ("a man is talking", "a man is talking to a woman", True),
        ("a man is talking", "a woman is talking", False),
        ("a man is playing a guitar", "a man is singing", False),
        ("a dog runs", "two dogs are running", True),
        ("a", "the", True),
    ],
)
def test_captions_say_the_same_if_most_of_their_stems_are_common(one: str, other: str, same: bool) -> None:
    assert say_the_same(one.split(), other.split()) is same
    assert say_the_same(other.split(), one.split()) is same


def test_other_wordings_come_last() -> None:
    found = [
        "a man talks",
        "the man is talking",
        "a woman sings",
        "a man talks to us",
        "a woman is singing",
        "a dog runs",
    ]
    different, reworded = split_by_content(found, str.split)
    assert different == ["a man talks", "a woman sings", "a dog runs"]
    assert reworded == ["the man is talking", "a man talks to us", "a woman is singing"]


def test_the_page_gets_alternatives_of_other_content() -> None:
    captions = tuple(said(text) for text in ("a man talks", "the man is talking", "a woman sings"))
    segment = Segment(0.0, 1.0, captions)
    assert [one.caption for one in SegmentAnswer.of(segment).alternatives] == ["a woman sings"]
    edited = SegmentAnswer.of(segment.edited_to("a boy reads"))
    assert [one.caption for one in edited.alternatives] == ["a woman sings"]
    assert edited.original is not None
    assert edited.original.caption == "a man talks"
