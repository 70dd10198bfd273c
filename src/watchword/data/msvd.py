"""MSVD (YouTube2Text), 1,970 clips: its captions in their published formats.

    VideoID,Start,End,WorkerID,Source,AnnotationTime,Language,Description     the corpus csv, all languages, all splits
    the same columns in train.csv, val.csv, test.csv                          as SGN and its successors have them
    vid1<tab>a man is cooking                                                 sents_train_lc_nopunc.txt, _val_, _test_
    -4wsuPCjDBc_5_15 a squirrel is eating a peanut                            AllVideoDescriptions.txt

Captions in English are kept, verified by a second person ("clean") or not: that is what published scores are made on.
A clip is called VideoID_Start_End; where youtube_mapping.txt (`-4wsuPCjDBc_5_15 vid1`) is beside the captions, vid1
is called so too, whichever file it came from.

Which side of the split a clip is on is said by, in this order: lists of names beside the captions (train_list.txt,
train.list, ...), the name of the captions' file, or the order of youtube_mapping.txt, which is the alphabet: the first
1,200 are train, then 100 val, then 670 test.
"""

import logging
import re
from collections.abc import Iterable
from pathlib import Path

from watchword.data.reading import (
    checked,
    header_of,
    read_any_text,
    read_rows,
    split_in_name,
    without_suffix,
)
from watchword.errors import WatchwordError
from watchword.types import Clip

log = logging.getLogger(__name__)

NUM_CLIPS, NUM_TRAIN, NUM_VAL = 1970, 1200, 100
MAPPINGS = ("youtube_mapping.txt", "youtube_video_to_id_mapping.txt")
NUMBERED = re.compile(r"vid(\d+)")

Sentence = tuple[str, str]  # video, caption


def is_corpus(columns: Iterable[str]) -> bool:
    """Whether a table's header is one of MSVD's."""
    return bool({"videoid", "vid_id"} & set(columns)) and bool({"description", "desc"} & set(columns))


def caption_files(folder: Path) -> list[Path]:
    """The files of a folder that hold MSVD captions."""
    lists = set(_lists(folder).values())
    names = [path for path in sorted(folder.glob("*.csv")) if is_corpus(header_of(path))]
    return names or [
        path
        for path in sorted(folder.glob("*.txt"))
        if path.name not in MAPPINGS and path not in lists and looks_like_sentences(path)
    ]


def looks_like_sentences(path: Path) -> bool:
    """Whether a text file's first line is a clip's name and a sentence."""
    lines = (line for line in read_any_text(path).split("\n") if line.strip() and not line.startswith("#"))
    name, _, sentence = next(lines, "").replace("\t", " ").partition(" ")
    return bool(sentence.strip()) and (bool(NUMBERED.fullmatch(name)) or re.search(r"_\d+_\d+$", name) is not None)


def read_msvd(paths: list[Path]) -> list[Clip]:
    """Clips from one file of captions or several (train, val, test)."""
    folder = paths[0].parent
    where = str(paths[0] if len(paths) == 1 else folder)
    names = _mapping(folder)
    listed = {names.get(video, video): split for video, split in _listed(folder).items()}
    captions: dict[str, list[str]] = {}
    filed: dict[str, str] = {}
    for path in paths:
        split = split_in_name(path)
        for video, caption in _sentences(path):
            video = names.get(video, video)
            if split and filed.setdefault(video, split) != split:
                raise WatchwordError(f"{path}: video {video!r} is in {filed[video]} as well as in {split}")
            captions.setdefault(video, []).append(caption)
    splits = listed or filed or _standard(names, captions, where)
    unknown = [video for video in captions if video not in splits]
    if unknown:
        if len(unknown) == len(captions):
            raise WatchwordError(
                f"{where}: none of its videos (such as {unknown[0]!r}) is in the lists or the mapping beside it"
            )
        log.warning("%s: left out %d videos that no split names (such as %r)", where, len(unknown), unknown[0])
    return checked(
        (Clip(video, splits[video], tuple(said)) for video, said in captions.items() if video in splits), where
    )


def _sentences(path: Path) -> list[Sentence]:
    return _sentences_of_table(path) if {".csv", ".tsv"} & set(path.suffixes) else _sentences_of_text(path)


def _sentences_of_table(path: Path) -> list[Sentence]:
    found = []
    for row in read_rows(path):
        if row.first("language").lower() not in {"english", "en", ""}:
            continue
        video = row.first("videoid", "vid_id")
        if not video:
            raise WatchwordError(f"{row.where}: the video has no name")
        start, end = row.first("start"), row.first("end")
        try:
            name = f"{video}_{int(float(start))}_{int(float(end))}" if start and end else video
        except ValueError as error:
            raise WatchwordError(f"{row.where}: start {start!r} and end {end!r} must be seconds") from error
        found.append((name, row.first("description", "desc")))
    return found


def _sentences_of_text(path: Path) -> list[Sentence]:
    found = []
    for number, line in enumerate(read_any_text(path).split("\n"), 1):
        line = line.strip("\r\n\ufeff ")
        if not line or line.startswith("#"):
            continue
        video, _, caption = line.partition("\t") if "\t" in line else line.partition(" ")
        if not video.strip():
            raise WatchwordError(f"{path}, line {number}: expected a video's name, a tab or space, and a sentence")
        found.append((without_suffix(video.strip()), caption))
    return found


def _mapping(folder: Path) -> dict[str, str]:
    """The mapping of a folder; empty where there is none."""
    path = next((folder / name for name in MAPPINGS if (folder / name).exists()), None)
    return read_mapping(path) if path else {}


def read_mapping(path: Path) -> dict[str, str]:
    """youtube_mapping.txt: vid1 -> -4wsuPCjDBc_5_15, in the file's order."""
    names = {}
    for number, line in enumerate(read_any_text(path).split("\n"), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 2 or not NUMBERED.fullmatch(words[1]):
            raise WatchwordError(f"{path}, line {number}: expected a name and vidN, found {line.strip()!r}")
        names[words[1]] = words[0]
    return names


def _lists(folder: Path) -> dict[str, Path]:
    """train, val, test -> the file beside the captions that lists its videos, one a line."""
    found: dict[str, Path] = {}
    for path in sorted([*folder.glob("*.txt"), *folder.glob("*.list")]):
        split = split_in_name(path)
        if split and all(len(line.split()) <= 1 for line in read_any_text(path).split("\n")):
            if split in found:
                raise WatchwordError(f"{folder}: both {found[split].name} and {path.name} list the {split} videos")
            found[split] = path
    return found


def _listed(folder: Path) -> dict[str, str]:
    splits: dict[str, str] = {}
    for split, path in _lists(folder).items():
        for video in (without_suffix(line.strip()) for line in read_any_text(path).split("\n") if line.strip()):
            if splits.setdefault(video, split) != split:
                raise WatchwordError(f"{path}: video {video!r} is in the {splits[video]} list as well")
    return splits


def _standard(names: dict[str, str], captions: dict[str, list[str]], where: str) -> dict[str, str]:
    """1,200 / 100 / 670 by number; the numbers are the alphabetical order of the names."""
    if names:
        numbers = {video: int(number.removeprefix("vid")) for number, video in names.items()}
    elif all(NUMBERED.fullmatch(video) for video in captions):
        numbers = {video: int(video.removeprefix("vid")) for video in captions}
    elif len(captions) == NUM_CLIPS:
        numbers = {video: number for number, video in enumerate(sorted(captions), 1)}
    else:
        raise WatchwordError(
            f"{where}: {len(captions):,} videos, MSVD has {NUM_CLIPS:,}: their order does not tell the split; "
            "put youtube_mapping.txt, or train_list.txt, val_list.txt and test_list.txt, beside it"
        )
    return {
        video: "train" if number <= NUM_TRAIN else "val" if number <= NUM_TRAIN + NUM_VAL else "test"
        for video, number in numbers.items()
    }
