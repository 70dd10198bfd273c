"""Captions as people have them -> clips."""

import gzip
import json
import logging
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from watchword.data.annotations import read_annotations, split_checksum
from watchword.data.folder import hashed_splits
from watchword.errors import WatchwordError
from watchword.types import Clip

SHARED = Path(__file__).parents[1] / ".." / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.exists(), reason="the shared data is not on this machine")


def by_name(clips: list[Clip]) -> dict[str, Clip]:
    return {clip.video: clip for clip in clips}


def splits(clips: list[Clip]) -> dict[str, str]:
    return {clip.video: clip.split for clip in clips}


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(encoding))
    return path


def write_lines(path: Path, *rows: Any) -> Path:
    return write(path, "".join(json.dumps(row) + "\n" for row in rows))


A = {"video": "a", "split": "train", "captions": ["a dog runs", "dog"], "category": 3}
B = {"video": "b", "split": "test", "captions": ["a cat"], "path": "videos/b.mp4"}


# --- captions.jsonl -------------------------------------------------------------------------------------------------


def test_our_own_format_is_read(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "captions.jsonl", A, B)
    expected = [
        Clip("a", "train", ("a dog runs", "dog"), 3),
        Clip("b", "test", ("a cat",), None, tmp_path / "videos/b.mp4"),
    ]
    assert read_annotations(path) == expected
    assert read_annotations(tmp_path) == expected
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "captions.jsonl.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert splits(read_annotations(tmp_path / "packed")) == {"a": "train", "b": "test"}


def test_a_line_separator_inside_a_caption_does_not_break_the_line(tmp_path: Path) -> None:
    caption = "one\u2028two\u0085 three\\nfour"
    path = write(tmp_path / "x.jsonl", f'{{"video": "a", "split": "val", "captions": ["{caption}"]}}\n')
    assert read_annotations(path)[0].captions == ("one two three four",)


def test_videos_beside_the_captions_are_found(tmp_path: Path) -> None:
    write_lines(tmp_path / "captions.jsonl", A)
    video = write(tmp_path / "clips" / "a.mp4", "")
    assert read_annotations(tmp_path)[0].path == video


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ('{"video": "a", "split": "train", "captions": ["x"]}\n{"video": \n', "line 2: broken JSON"),
        ('{"video": "a", "captions": ["x"]}\n', "line 1: expected"),
        ('["a"]\n', "line 1: expected"),
        ('{"video": "a", "split": "trian", "captions": ["x"]}\n', "line 1: unknown split 'trian'; did you mean"),
        ('{"video": "a", "split": "train", "captions": []}\n', "video 'a' has no captions"),
        ('{"video": "a", "split": "train", "captions": ["  "]}\n', "video 'a' has no captions"),
        ('{"video": "a", "split": "train", "captions": "x"}\n', "must be a list of sentences"),
        ('{"video": "a", "split": "train", "captions": [1]}\n', "must be a list of sentences"),
        ('{"video": "a", "split": "train", "captions": ["x"], "category": "dogs"}\n', "must be a whole number"),
        ('{"video": "", "split": "train", "captions": ["x"]}\n', "no name"),
        ('{"video": "a", "split": "train", "captions": ["x"]}\n' * 2, "video 'a' is there twice"),
        ("", "no videos"),
    ],
)
def test_a_mistake_is_one_clear_line(tmp_path: Path, rows: str, message: str) -> None:
    path = write(tmp_path / "captions.jsonl", rows)
    with pytest.raises(WatchwordError, match=message) as caught:
        read_annotations(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_blank_caption_among_others_is_left_out_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write_lines(tmp_path / "captions.jsonl", A | {"captions": ["a dog", " \t"]})
    assert read_annotations(path)[0].captions == ("a dog",)
    assert "left out 1 blank captions (the first of video 'a')" in caplog.text


def test_our_own_format_must_be_utf8(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl"
    path.write_bytes(json.dumps(A).encode() + b'\n{"video": "caf\xe9"}\n')
    with pytest.raises(WatchwordError, match=r"line 2, byte 0xe9: not UTF-8"):
        read_annotations(path)


def test_a_damaged_gzip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "captions.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(A).encode() * 50)[:-20])
    with pytest.raises(WatchwordError, match="is damaged"):
        read_annotations(path)


@pytest.mark.parametrize("name", ["nowhere", "raw-captions.pkl", "notes.docx", "notes.txt", "."])
def test_what_is_not_known_says_what_was_expected(tmp_path: Path, name: str) -> None:
    if name not in {"nowhere", "."}:
        write(tmp_path / name, "some words\n")
    with pytest.raises(WatchwordError, match=r"expected captions\.jsonl, captions\.csv"):
        read_annotations(tmp_path / name)


# --- MSVD -----------------------------------------------------------------------------------------------------------

CORPUS_HEADER = "VideoID,Start,End,WorkerID,Source,AnnotationTime,Language,Description\n"
CORPUS = CORPUS_HEADER + (
    "mv89psg6zh4,33,46,588702,unverified,55,Slovene,Papagaj se umiva pod teko\u010do vodo.\n"
    "mv89psg6zh4,33,46,362812,clean,13,English,A bird in a sink keeps getting under the running water.\n"
    'mv89psg6zh4,33,46,968828,unverified,84,English,"A faucet is running, and a bird stands below."\n'
    "-4wsuPCjDBc,5,15,1,clean,1,English,A squirrel eats a peanut.\n"
    "zzit5b_-ukg,5.0,20.0,1,clean,1,English,A man shoots.\n"
    "zzit5b_-ukg,5,20,1,clean,1,English,\n"
)
MAPPING = "-4wsuPCjDBc_5_15 vid1\nmv89psg6zh4_33_46 vid1300\nzzit5b_-ukg_5_20 vid1970\n"


def test_msvd_corpus_keeps_english_and_takes_the_split_from_the_mapping(tmp_path: Path) -> None:
    path = write(tmp_path / "MSR Video Description Corpus.csv", CORPUS)
    write(tmp_path / "youtube_mapping.txt", MAPPING)
    clips = read_annotations(path)
    assert clips == read_annotations(tmp_path)
    assert splits(clips) == {"mv89psg6zh4_33_46": "val", "-4wsuPCjDBc_5_15": "train", "zzit5b_-ukg_5_20": "test"}
    assert by_name(clips)["mv89psg6zh4_33_46"].captions == (
        "A bird in a sink keeps getting under the running water.",
        "A faucet is running, and a bird stands below.",
    )
    assert by_name(clips)["zzit5b_-ukg_5_20"].captions == ("A man shoots.",)


def test_msvd_corpus_leaves_out_clips_that_the_mapping_does_not_know(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(tmp_path / "video_corpus.csv", CORPUS)
    write(tmp_path / "youtube_mapping.txt", MAPPING.partition("\n")[0])
    assert splits(read_annotations(path)) == {"-4wsuPCjDBc_5_15": "train"}
    assert "left out 2 videos" in caplog.text


def test_msvd_lists_beside_the_captions_say_the_split(tmp_path: Path) -> None:
    text = "# Microsoft\n\n-4wsuPCjDBc_5_15 a squirrel\nmv89psg6zh4_33_46 a bird\n"
    path = write(tmp_path / "AllVideoDescriptions.txt", text)
    write(tmp_path / "train_list.txt", "mv89psg6zh4_33_46\n")
    write(tmp_path / "test_list.txt", "-4wsuPCjDBc_5_15.avi\n")
    assert splits(read_annotations(path)) == {"-4wsuPCjDBc_5_15": "test", "mv89psg6zh4_33_46": "train"}
    assert read_annotations(tmp_path) == read_annotations(path)


def test_msvd_without_any_hint_of_the_split_says_what_to_put_beside_it(tmp_path: Path) -> None:
    path = write(tmp_path / "corpus.csv", CORPUS)
    with pytest.raises(WatchwordError, match=r"3 videos, MSVD has 1,970.*youtube_mapping\.txt"):
        read_annotations(path)


def test_msvd_whole_is_split_by_the_alphabet(tmp_path: Path) -> None:
    rows = "".join(f"v{number:04},1,2,0,clean,0,English,a man\n" for number in reversed(range(1970)))
    clips = read_annotations(write(tmp_path / "corpus.csv", CORPUS_HEADER + rows))
    assert Counter(splits(clips).values()) == {"train": 1200, "val": 100, "test": 670}
    found = splits(clips)
    edges = [found[f"v{number:04}_1_2"] for number in (0, 1199, 1200, 1299, 1300)]
    assert edges == ["train", "train", "val", "val", "test"]


def test_msvd_as_sgn_has_it(tmp_path: Path) -> None:
    for name, video in (("train", "a"), ("val", "b"), ("test", "c")):
        row = f"{video},1,2,0,clean,0,English,{name} video\n"
        write(tmp_path / "MSVD" / "metadata" / f"{name}.csv", CORPUS_HEADER + row)
    assert splits(read_annotations(tmp_path / "MSVD")) == {"a_1_2": "train", "b_1_2": "val", "c_1_2": "test"}
    video = write(tmp_path / "MSVD" / "YouTubeClips" / "a_1_2.avi", "")
    assert by_name(read_annotations(tmp_path / "MSVD"))["a_1_2"].path == video


def test_msvd_with_short_column_names(tmp_path: Path) -> None:
    path = write(tmp_path / "train.csv", "vid_id,start,end,desc\na,1,2,a dog\n")
    assert read_annotations(path) == [Clip("a_1_2", "train", ("a dog",))]


def test_msvd_text_files_of_numbered_videos(tmp_path: Path) -> None:
    write(tmp_path / "sents_train_lc_nopunc.txt", "vid1\ta squirrel\nvid1\tit eats\n")
    write(tmp_path / "sents_val_lc_nopunc.txt", "vid1201\ta bird\n")
    write(tmp_path / "sents_test_lc_nopunc.txt", "vid1301 a man\n")
    clips = read_annotations(tmp_path)
    assert splits(clips) == {"vid1": "train", "vid1201": "val", "vid1301": "test"}
    assert by_name(clips)["vid1"].captions == ("a squirrel", "it eats")
    alone = write(tmp_path / "other" / "all.txt", "vid1200\ta\nvid1201\tb\nvid1300\tc\nvid1301\td\n")
    assert list(splits(read_annotations(alone)).values()) == ["train", "val", "val", "test"]


def test_msvd_mapping_gives_numbered_videos_their_real_names(tmp_path: Path) -> None:
    write(tmp_path / "sents_train_lc_nopunc.txt", "vid1\ta squirrel\n")
    write(tmp_path / "youtube_mapping.txt", MAPPING)
    assert read_annotations(tmp_path) == [Clip("-4wsuPCjDBc_5_15", "train", ("a squirrel",))]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"train.csv": CORPUS_HEADER + "a,x,2,0,clean,0,English,hi\n"}, "line 2: start 'x'"),
        ({"train.csv": CORPUS_HEADER + "a,1,2,0,clean,0,English,hi, there\n"}, "line 2: 9 columns, the header has 8"),
        ({"train.csv": CORPUS_HEADER + 'a,1,2,0,clean,0,English,"hi\n'}, "line 2: broken table row"),
        ({"sents_train.txt": "vid1\ta\n", "sents_test.txt": "vid1\tb\n"}, "video 'vid1' is in test as well"),
        ({"sents_train.txt": "vid1\t \n"}, "no captions|expected captions"),
        ({"all.txt": "vid1\ta\n", "train_list.txt": "vid1\n", "test_list.txt": "vid1\n"}, "in the test list as well"),
        ({"all.txt": "vid1\ta\n", "train_list.txt": "vid2\n"}, "none of its videos"),
        ({"all.txt": "vid1\ta\n", "youtube_mapping.txt": "a b c\n"}, "line 1: expected a name and vidN"),
    ],
)
def test_msvd_mistakes_are_one_clear_line(tmp_path: Path, files: dict[str, str], message: str) -> None:
    for name, text in files.items():
        write(tmp_path / name, text)
    with pytest.raises(WatchwordError, match=message) as caught:
        read_annotations(tmp_path)
    assert "\n" not in str(caught.value)


# --- MSR-VTT --------------------------------------------------------------------------------------------------------


def info(*videos: tuple[str, str]) -> dict[str, Any]:
    return {
        "info": {"year": "2016"},
        "videos": [
            {"id": i, "video_id": name, "category": 9, "split": split, "url": "", "start time": 1.0, "end time": 2.0}
            for i, (name, split) in enumerate(videos)
        ],
        "sentences": [{"sen_id": i, "video_id": name, "caption": f"a {name}"} for i, (name, _) in enumerate(videos)],
    }


def test_msrvtt_is_read_from_one_file_or_two(tmp_path: Path) -> None:
    train_val = info(("video0", "train"), ("video1", "validate"))
    path = write(tmp_path / "train_val_videodatainfo.json", json.dumps(train_val))
    expected = [Clip("video0", "train", ("a video0",), 9), Clip("video1", "val", ("a video1",), 9)]
    assert read_annotations(path) == expected
    write(tmp_path / "test_videodatainfo.json", json.dumps(info(("video7010", "test"))))
    assert splits(read_annotations(tmp_path)) == {"video7010": "test", "video0": "train", "video1": "val"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "broken JSON"),
        ("[]", "expected MSR-VTT's"),
        (json.dumps(info(("a", "trial"))), r"video 1 \(a\): unknown split 'trial'"),
        (json.dumps(info(("a", "train")) | {"sentences": []}), "video 'a' has no captions"),
        (json.dumps(info(("a", "train")) | {"videos": []}), "captions for 'a', which is not among its videos"),
        (json.dumps(info(("a", "train"), ("a", "train"))), "video 'a' is there twice"),
        (json.dumps(info(("a", "train")) | {"sentences": [{"caption": "x"}]}), "sentence 1 lacks"),
        (json.dumps(info(("a", "train")) | {"videos": [{"video_id": "a"}]}), "video 1 lacks"),
    ],
)
def test_msrvtt_mistakes_are_one_clear_line(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path / "videodatainfo.json", content)
    with pytest.raises(WatchwordError, match=message):
        read_annotations(path)


# --- a person's own folder ------------------------------------------------------------------------------------------


def own(tmp_path: Path, table: str, *videos: str, encoding: str = "utf-8") -> Path:
    for video in videos:
        write(tmp_path / "videos" / video, "")
    return write(tmp_path / "captions.csv", table, encoding)


def test_own_videos_with_everything_said(tmp_path: Path) -> None:
    own(
        tmp_path,
        "video,caption,split,source,category\n"
        "a.mp4,a dog runs,train,x,pets\na.mp4,the dog,train,x,pets\nsub/b,rain,validation,y,weather\n",
        "a.mp4",
        "sub/b.MOV",
    )
    assert read_annotations(tmp_path) == [
        Clip("a", "train", ("a dog runs", "the dog"), 0, tmp_path / "videos/a.mp4"),
        Clip("sub/b", "val", ("rain",), 1, tmp_path / "videos/sub/b.MOV"),
    ]


def test_own_videos_may_have_several_caption_columns(tmp_path: Path) -> None:
    own(tmp_path, "Video;Caption 1;Caption 2\na;one;two\nb;one;\n")
    assert [clip.captions for clip in read_annotations(tmp_path)] == [("one", "two"), ("one",)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_own_captions_in_the_encodings_of_spreadsheets(
    tmp_path: Path, encoding: str, caplog: pytest.LogCaptureFixture
) -> None:
    own(tmp_path, "video,caption\r\ncafé,un café\r\n", encoding=encoding)
    (clip,) = read_annotations(tmp_path)
    assert clip.video == "café"
    assert clip.captions == ("un café",)
    warned = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert bool(warned) == (encoding == "cp1252")
    assert not warned or "line 2, byte 0xe9: not UTF-8, read as Western European" in warned[0].getMessage()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("video,caption\na,x\nc,y\nd,z\n", r"no video of 'c' and 1 more in .*videos"),
        ("video,caption\nb,x\n", r"video 'b' may be b\.avi and b\.mp4"),
        ("video,caption,split\na,x,trainn\n", "line 2: unknown split 'trainn'; did you mean 'train'"),
        ("video,caption,split\na,x,\n", "line 2: unknown split ''"),
        ("video,caption,split\na,x,train\na,y,test\n", "line 3: split 'test' of video 'a'; before it was 'train'"),
        ("video,caption\n,x\n", "line 2: the video has no name"),
        ("video,caption\na,\n", "video 'a' has no captions"),
        ("name,words\na,x\n", "needs the columns video and caption; it has name, words"),
        ('video,caption\na,"x\nb,"y"\n', "broken table row"),
        ("video,caption\na,x,y\n", "line 2: 3 columns, the header has 2"),
        ('video,caption\na,"two\nlines"\n\nb\n', "line 5: 1 columns"),
        ("", "empty"),
        ("video,caption\n", "no videos"),
    ],
)
def test_own_mistakes_are_one_clear_line(tmp_path: Path, table: str, message: str) -> None:
    own(tmp_path, table, "a.mp4", "b.mp4", "b.avi")
    with pytest.raises(WatchwordError, match=message) as caught:
        read_annotations(tmp_path)
    assert "\n" not in str(caught.value)


def test_own_videos_without_captions_are_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own(tmp_path, "video,caption\na,x\n", "a.mp4", "z.mp4")
    assert len(read_annotations(tmp_path)) == 1
    assert "1 videos have no caption (such as 'z')" in caplog.text


def test_the_drawn_split_is_eighty_ten_ten_and_does_not_depend_on_the_company() -> None:
    names = [f"video{number}" for number in range(5000)]
    drawn = hashed_splits({name: name for name in names})
    shares = {split: count / 5000 for split, count in Counter(drawn.values()).items()}
    assert shares == pytest.approx({"train": 0.8, "val": 0.1, "test": 0.1}, abs=0.015)
    fewer = hashed_splits({name: name for name in names[:500]})
    assert all(drawn[name] == split for name, split in fewer.items())


@pytest.mark.parametrize("count", range(3, 12))
def test_a_handful_of_videos_still_has_all_three_splits(count: int) -> None:
    assert set(hashed_splits({f"f{i}": f"f{i}" for i in range(count)}).values()) == {"train", "val", "test"}


def test_videos_of_one_source_stay_on_one_side(tmp_path: Path) -> None:
    rows = "".join(f"video{number},a dog,holiday{number % 40}\n" for number in range(400))
    own(tmp_path, "video,caption,source\n" + rows)
    sides: dict[int, set[str]] = {}
    for clip in read_annotations(tmp_path):
        sides.setdefault(int(clip.video.removeprefix("video")) % 40, set()).add(clip.split)
    assert all(len(side) == 1 for side in sides.values())
    assert set.union(*sides.values()) == {"train", "val", "test"}


def test_a_source_on_both_sides_is_mentioned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    own(tmp_path, "video,caption,split,source\na,x,train,s\nb,x,test,s\n")
    read_annotations(tmp_path)
    assert "source 's' is in more than one split" in caplog.text


# --- checksums and the real thing -----------------------------------------------------------------------------------


def test_checksums_see_the_data_and_not_its_order() -> None:
    clips = [Clip("a", "train", ("x", "y")), Clip("b", "train", ("z",)), Clip("c", "test", ("z",))]
    sums = split_checksum(clips)
    assert sums == split_checksum([clips[2], clips[1], Clip("a", "train", ("y", "x"), 3, Path("a.mp4"))])
    changed = split_checksum([Clip("a", "train", ("x", "w")), *clips[1:]])
    assert changed["train"] != sums["train"]
    assert changed["test"] == sums["test"]
    assert split_checksum([Clip("a", "train", ("z",))]) != split_checksum([Clip("b", "train", ("z",))])


@needs_shared
def test_the_shared_corpora_are_read_whole() -> None:
    msvd, msrvtt = (read_annotations(SHARED / name) for name in ("msvd", "msrvtt"))
    assert Counter(clip.split for clip in msvd) == {"train": 1200, "val": 100, "test": 670}
    assert sum(len(clip.captions) for clip in msvd) == 80_839 - 2  # two are blank
    assert Counter(clip.split for clip in msrvtt) == {"train": 6513 - 80, "val": 497, "test": 2990}
    ordered = [clip.split for clip in sorted(msvd, key=lambda clip: clip.video)]
    assert ordered == ["train"] * 1200 + ["val"] * 100 + ["test"] * 670, "the standard split is the alphabet"


# --- movies --------------------------------------------------------------------------------------------------------

JUNO = "1004_Juno_00.00.32.714-00.00.37.660\t00:00:32.714\t00:00:37.660\tShe walks in.\n"
CUT = "1005_Signs_00.01.00.000-00.01.02.000\t0:01:00.0\t0:01:02.0\t0:00:59.5\t0:01:02.5\tA field.\n"


def test_movies_are_read_as_lsmdc_has_them(tmp_path: Path) -> None:
    (tmp_path / "LSMDC16_annos_training.csv").write_text(JUNO)
    (tmp_path / "LSMDC16_annos_test.csv").write_text(CUT)
    found = {clip.video: (clip.split, clip.captions) for clip in read_annotations(tmp_path)}
    assert found == {
        "1004_Juno_00.00.32.714-00.00.37.660": ("train", ("She walks in.",)),
        "1005_Signs_00.01.00.000-00.01.02.000": ("test", ("A field.",)),
    }
    assert [clip.split for clip in read_annotations(tmp_path / "LSMDC16_annos_test.csv")] == ["test"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("movies.csv", JUNO, "its name does not tell the split"),
        ("movies_val.csv", JUNO + "1004_Juno\t00:00:32.714\tShe walks in.\n", "line 2: expected clip, start, end"),
        ("movies_val.csv", JUNO + JUNO, "is there twice"),
    ],
)
def test_a_slip_in_a_table_of_movies_is_one_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(WatchwordError, match=message):
        read_annotations(tmp_path)
