"""Captions that a person corrected: kept, found, exported, and the original is never lost. Lists of videos."""

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest

from tests.libraries import add, found, said, video
from watchword.captioning.description import (
    Caption,
    Segment,
    Word,
    description_from_dict,
    description_to_dict,
    segment_from_dict,
    segment_to_dict,
)
from watchword.captioning.writers import WRITERS, Format
from watchword.errors import WatchwordError
from watchword.library import Library, Listing

ROOT = Path(__file__).parents[1]


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(tmp_path / "library.db")


def test_an_edited_caption_is_kept_searched_and_marked_above_the_original(library: Library) -> None:
    number = add(library, "a dog runs", "a man sleeps")
    segment = library.edit(number, 1, " two cats\nsleep ")
    assert segment is not None
    assert (segment.best.text, segment.best.edited, segment.original.text) == ("two cats sleep", True, "a man sleeps")
    assert library.description(number).segments[1] == segment
    assert found(library, "cat") == ["two cats sleep"]
    assert found(library, "man") == []
    (hit,) = library.search("cat")
    assert (hit.edited, hit.confidence) == (True, 1.0)
    row = library.video(number)
    assert row is not None
    assert (row.caption, row.confidence, row.num_edited) == ("two cats sleep", 1.0, 1)


def test_the_original_comes_back(library: Library) -> None:
    number = add(library, "a dog runs")
    before = library.description(number), library.video(number)
    library.edit(number, 0, "a wolf runs")
    library.edit(number, 0, "a fox runs")
    assert [one.text for one in library.description(number).segments[0].captions] == ["a fox runs", "a dog runs"]
    library.edit(number, 0, "")
    assert (library.description(number), library.video(number)) == before
    assert (found(library, "dog"), found(library, "fox")) == (["a dog runs"], [])
    library.edit(number, 0, "a dog runs")  # the original's own words are no edit
    assert library.description(number) == before[0]


def test_what_cannot_be_edited_is_told(library: Library) -> None:
    number = add(library, "a dog runs")
    assert library.edit(number, 1, "nothing") is None
    assert library.edit(number, -1, "nothing") is None
    assert library.edit(number + 1, 0, "nothing") is None
    with pytest.raises(WatchwordError, match="501 characters: write at most 500"):
        library.edit(number, 0, "x" * 501)
    assert found(library, "dog") == ["a dog runs"]


def test_an_edited_caption_gets_a_new_vector(library: Library) -> None:
    class Lengths:
        name = "lengths"

        def encode(self, captions: list[str]) -> object:
            import numpy as np

            angles = np.array([len(caption) / 10 for caption in captions], np.float32)
            return np.stack([np.cos(angles), np.sin(angles)], -1)

    library.encoder = Lengths  # type: ignore[assignment]
    number = add(library, "a dog runs")
    assert library.embed() == 1
    library.edit(number, 0, "a wolf runs fast")
    assert library.embed() == 1
    assert library.embed() == 0


def test_edits_outlive_a_new_description_of_the_same_video_only(library: Library) -> None:
    number = add(library, "a dog runs", "a man sleeps", identity="one", source=Path("a.mp4"))
    library.edit(number, 1, "a woman sleeps")
    again = video("a cat runs", "a boy sleeps", "a boy wakes")
    about = {"name": "beach.mp4", "source": Path("a.mp4"), "explanation": None}
    assert library.add(again, identity="one", **about) == number
    texts = [[one.text for one in segment.captions] for segment in library.description(number).segments]
    assert texts == [["a cat runs"], ["a woman sleeps", "a boy sleeps"], ["a boy wakes"]]
    assert found(library, "woman") == ["a woman sleeps"]
    assert library.add(again, identity="another", **about) == number  # another file in its place
    assert found(library, "woman") == []


def test_every_format_carries_the_edited_caption_and_marks_it(library: Library) -> None:
    number = add(library, "a dog runs", "a man sleeps")
    library.edit(number, 0, "a wolf runs")
    description = library.description(number)
    written: dict[Format, str] = {form: write([description]) for form, (_, write) in WRITERS.items()}
    assert all("wolf" in text.lower() for text in written.values())
    assert "a wolf runs (edited)" in written["text"]
    assert "NOTE edited by hand\n\n1\n00:00:00.000" in written["vtt"]
    assert written["vtt"].count("NOTE edited") == 1
    rows = list(csv.DictReader(io.StringIO(written["csv"])))
    assert [row["edited"] for row in rows] == ["yes", ""]
    document = json.loads(written["json"])
    jsonschema.validate(document, json.loads((ROOT / "docs/reference/describe.schema.json").read_text("utf-8")))
    first, second = document["videos"][0]["segments"]
    assert (first["edited"], first["alternatives"][0]["caption"]) == (True, "a dog runs")
    assert "edited" not in second
    assert description_from_dict(description_to_dict(description)) == description
    assert "edited" not in WRITERS["csv"][1]([video("a dog runs")]).splitlines()[0]


def test_the_key_frame_lies_where_most_words_look() -> None:
    words = tuple(
        Word(word, 0.5, {"appearance": at}) for word, at in zip("a dog runs".split(), (1.0, 6.5, 7.0), strict=True)
    )
    segment = Segment(0.0, 8.0, (Caption(words, 0.5),))
    assert segment.key_seconds == 6.5
    assert segment.edited_to("a wolf").key_seconds == 6.5
    assert Segment(4.0, 8.0, (Caption((Word("dog", 0.5),), 0.5),)).key_seconds == 6.0
    assert Segment(0.0, 6.0, (Caption(words, 0.5),)).key_seconds == 6.0  # a window may end beyond its segment
    assert segment_from_dict(segment_to_dict(segment)).key_seconds == 6.5


def test_a_video_and_a_hit_show_the_frame_of_the_segment_that_is_captioned(library: Library) -> None:
    number = add(library, said("a dog runs", 0.2), said("a man sleeps", 0.9))
    assert library.key_seconds(number) == 10.0  # its attention peaks at 1.2 s: the nearest time of the second segment
    assert library.search("dog")[0].key_seconds == pytest.approx(1.23456)
    assert library.key_seconds(number + 1) is None


def test_videos_are_sorted_and_filtered(library: Library) -> None:
    first = add(library, said("a dog runs", 0.2), name="beach.mp4")
    second = add(library, said("a cat runs", 0.8), "and runs", name="Alps 100%.mp4")
    third = add(library, said('a sign says "edited": true', 0.5), name="zoo.mp4")

    def numbers(**choice: object) -> list[int]:
        listing = Listing(**choice)  # type: ignore[arg-type]
        rows = [row.id for row in library.videos(listing)]
        assert library.count(listing) == len(rows)
        return rows

    assert numbers() == [third, second, first]
    assert numbers(sort="name", descending=False) == [second, first, third]
    assert numbers(sort="confidence") == [second, third, first]
    assert numbers(sort="seconds") == [second, third, first]
    assert numbers(below=0.5) == [first]
    assert numbers(name="ALP") == [second]
    assert numbers(name="0%") == [second]
    assert numbers(captioner="light", name="z") == [third]
    assert numbers(captioner="other") == []
    assert numbers(edited=True) == []
    library.edit(third, 0, "a man runs")
    library.edit(first, 0, "a wolf")
    library.edit(first, 0, "")
    assert numbers(edited=True) == [third]
    assert [row.id for row in library.videos(Listing(sort="name"), limit=1, offset=1)] == [first]
