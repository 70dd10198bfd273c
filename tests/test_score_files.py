"""References and hypotheses in every format that people have, and one clear line for what is wrong with them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from watchword.errors import WatchwordError
from watchword.metrics.files import match, read_hypotheses, read_references, read_training


def written(folder: Path, content: Any, name: str = "file.json") -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


@pytest.mark.parametrize(
    "content",
    [
        {"v1": ["a", "b"], "2": ["c"]},
        {
            "annotations": [
                {"image_id": "v1", "caption": "a", "id": 1},
                {"image_id": 2, "caption": "c", "id": 2},
                {"image_id": "v1", "caption": "b", "id": 3},
            ],
            "images": [],
        },
        '{"video": "v1", "captions": ["a", "b"]}\n{"video": 2, "captions": ["c"]}\n',
        '{"video": "v1", "split": "val", "captions": ["a", "b"]}\n\n{"video": "2", "split": "val", "captions": ["c"]}',
        {"v1": [{"caption": "a"}, {"caption": "b"}], "2": [{"caption": "c"}]},
    ],
)
def test_references_are_read_from_each_format(tmp_path: Path, content: Any) -> None:
    assert read_references(written(tmp_path, content)) == {"v1": ["a", "b"], "2": ["c"]}


@pytest.mark.parametrize(
    "content",
    [
        [{"image_id": "v1", "caption": "a"}, {"image_id": 2, "caption": "b"}],
        {"v1": "a", "2": "b"},
        {"v1": ["a"], "2": ["b"]},
        {"predictions": {"v1": "a", "2": "b"}},
        '{"video": "v1", "caption": "a"}\n{"video": 2, "caption": "b"}\n',
        '\ufeff{"v1": "a", "2": "b"}',
    ],
)
def test_hypotheses_are_read_from_each_format(tmp_path: Path, content: Any) -> None:
    assert read_hypotheses(written(tmp_path, content)) == {"v1": "a", "2": "b"}


def test_one_json_line_is_one_hypothesis_and_one_reference(tmp_path: Path) -> None:
    assert read_hypotheses(written(tmp_path, '{"video": "v", "caption": "a"}')) == {"v": "a"}
    assert read_references(written(tmp_path, '{"video": "v", "captions": ["a"]}')) == {"v": ["a"]}


def test_gzipped_files_are_read_whatever_they_are_called(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_bytes(gzip.compress(b'{"v": ["a"]}'))
    assert read_references(path) == {"v": ["a"]}
    path.write_bytes(gzip.compress(b'{"v": ["a"]}')[:15])
    with pytest.raises(WatchwordError, match="cannot read"):
        read_references(path)


SPLITS = '{"video": "a", "split": "train", "captions": ["x"]}\n{"video": "b", "split": "test", "captions": ["y"]}\n'


def test_a_file_with_splits_wants_one_chosen(tmp_path: Path) -> None:
    path = written(tmp_path, SPLITS)
    assert read_references(path, "test") == {"b": ["y"]}
    assert read_training(path) == {"a": ["x"]}
    with pytest.raises(WatchwordError, match="splits test, train: choose one with --split"):
        read_references(path)
    with pytest.raises(WatchwordError, match="did you mean 'test'"):
        read_references(path, "tset")
    with pytest.raises(WatchwordError, match="has no splits"):
        read_references(written(tmp_path, {"v": ["a"]}), "test")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("{", "not JSON, line 1"),
        ('{"video": "v", "caption": "a"}\n{"video": ', "not JSON, line 2"),
        ("[1, 2]", "entry 1 is 1"),
        ('"text"', "expected a list or an object"),
        ("null", "expected a list or an object"),
        ("{}", "holds no captions"),
        ("[]", "holds no captions"),
        ('{"v": 5}', "expected text"),
        ('{"v": null}', "expected text"),
        ('{"v": ["a", "b"]}', "2 captions for video 'v', expected one"),
        ('{"v": "a", "v": "b"}', "'v' stands there twice"),
        ('[{"image_id": 1, "caption": "a"}, {"image_id": 1, "caption": "b"}]', "two captions for video '1'"),
        ('[{"image_id": 1, "caption": "a"}, {"image_id": "1", "caption": "b"}]', "two captions for video '1'"),
        ('[{"image_id": true, "caption": "a"}]', "a video is named True"),
        ('[{"image_id": 1}]', "expected an object with video"),
        ("[" * 100_000, "cannot read"),
    ],
)
def test_broken_hypotheses_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(WatchwordError, match=message) as caught:
        read_hypotheses(written(tmp_path, content))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "no references"),
        ('{"v": []}', "expected a list of captions"),
        ('{"v": "a"}', "expected a list of captions"),
        ('{"v": [1]}', "expected text"),
        ('{"annotations": [{"image_id": 1}]}', "expected an object with video"),
        ('{"video": "v", "captions": ["a"]}\n{"video": "v", "captions": ["b"]}', "'v' stands there twice"),
        ('{"video": null, "captions": ["a"]}\n{"video": "v", "captions": ["b"]}', "a video is named None"),
    ],
)
def test_broken_references_are_refused_in_one_line(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(WatchwordError, match=message):
        read_references(written(tmp_path, content))


def test_files_that_are_not_there_or_not_utf8_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WatchwordError, match=r"cannot read .*: No such file"):
        read_references(tmp_path / "none.json")
    with pytest.raises(WatchwordError, match="cannot read"):
        read_references(tmp_path)
    path = tmp_path / "latin.json"
    path.write_bytes('{"v": "café"}'.encode("latin-1"))
    with pytest.raises(WatchwordError, match="not UTF-8 at byte 10"):
        read_hypotheses(path)


def test_videos_of_one_side_are_refused_or_left_out_when_asked() -> None:
    references, hypotheses = {"a": ["x"], "b": ["y"]}, {"c": "z", "b": "y"}
    with pytest.raises(WatchwordError, match=r"no caption for 'a'; no references for 'c'.*--allow-missing"):
        match(references, hypotheses)
    assert match(references, hypotheses, allow_missing=True) == ({"b": ["y"]}, {"b": "y"})
    with pytest.raises(WatchwordError, match="no video is in both files"):
        match(references, {"c": "z"}, allow_missing=True)
