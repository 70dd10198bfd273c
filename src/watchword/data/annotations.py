"""Files of captions -> clips. `read_annotations` reads every format.

| on disk | what it is | room |
|---|---|---|
| `captions.jsonl[.gz]` | ours: one line a video | here |
| `captions.csv`, beside `videos/` or not | a person's own videos | `folder.py` |
| `videodatainfo.json`, `train_val_...`, `test_...` | MSR-VTT | `msrvtt.py` |
| `..._training.csv`, `..._val.csv`, `..._test.csv` with tabs | M-VAD and MPII-MD, as LSMDC has them | `movies.py` |
| corpus csv, `train.csv`..., `sents_train_...txt`, `AllVideoDescriptions.txt` | MSVD | `msvd.py` |
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from watchword.data.folder import read_folder
from watchword.data.movies import is_movie_table, movie_tables, read_movies
from watchword.data.msrvtt import info_files, read_msrvtt
from watchword.data.msvd import caption_files, is_corpus, looks_like_sentences, read_msvd
from watchword.data.reading import checked, header_of, read_utf8, split_named, videos_in, with_videos
from watchword.documents import parse_json
from watchword.errors import WatchwordError, unknown
from watchword.types import Clip

EXPECTED = (
    "expected captions.jsonl, captions.csv, videodatainfo.json (MSR-VTT), MSVD's csv or txt, or M-VAD's tables; "
    "see docs/reference/formats.md"
)
ROOMS = (".", "metadata", "captions", "annotations")  # where data sets keep their captions, the folder itself first


def read_annotations(path: Path | str) -> list[Clip]:
    """The clips of a data set: of one file, or of all that a folder holds."""
    path = Path(path)
    if not path.exists():
        raise WatchwordError(f"no such file or folder: {path}; {EXPECTED}")
    clips = _read_data_set(path) if path.is_dir() else _read_file(path)
    return with_videos(clips, path if path.is_dir() else path.parent)


def _read_data_set(folder: Path) -> list[Clip]:
    for home in (folder / room for room in ROOMS):
        for name in ("captions.jsonl", "captions.jsonl.gz", "captions.csv"):
            if (home / name).is_file():
                return _read_file(home / name)
        if found := info_files(home):
            return read_msrvtt(found)
        if found := movie_tables(home):
            return read_movies(found)
        if found := caption_files(home):
            return read_msvd(found)
    raise WatchwordError(f"no captions in {folder}: {EXPECTED}")


def _read_file(path: Path) -> list[Clip]:
    name = path.name.lower().removesuffix(".gz")
    if name.endswith((".pkl", ".pickle", ".p")):
        raise WatchwordError(f"{path} is a pickle, which can run code when it is read; {EXPECTED}")
    if name.endswith(".jsonl"):
        return read_native(path)
    if name.endswith(".json"):
        return read_msrvtt([path])
    if name.endswith((".csv", ".tsv", ".txt")) and is_movie_table(path):
        return read_movies([path])
    if name.endswith((".csv", ".tsv")):
        return read_msvd([path]) if is_corpus(header_of(path)) else read_folder(path)
    if name.endswith(".txt") and looks_like_sentences(path):
        return read_msvd([path])
    raise WatchwordError(f"unknown format of {path}; {EXPECTED}")


def read_native(path: Path) -> list[Clip]:
    """`captions.jsonl[.gz]`; a video's path is relative to the file's folder."""
    clips = []
    for number, line in enumerate(read_utf8(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = parse_json(line)
        except ValueError as error:
            raise WatchwordError(f"{where}: broken JSON ({error}); expected one object a line") from error
        clips.append(_native_clip(row, where, path.parent))
    return checked(clips, str(path))


def _native_clip(row: Any, where: str, folder: Path) -> Clip:
    if not isinstance(row, dict) or not {"video", "split", "captions"} <= row.keys():
        raise WatchwordError(f'{where}: expected {{"video": id, "split": "train|val|test", "captions": [...]}}')
    captions, category, path = row["captions"], row.get("category"), row.get("path")
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise WatchwordError(f"{where}: captions of video {row['video']!r} must be a list of sentences")
    if isinstance(row["video"], bool) or not isinstance(row["video"], str | int):
        raise WatchwordError(f"{where}: a video is named {row['video']!r:.40}, expected text or a whole number")
    if category is not None and not isinstance(category, int):
        raise WatchwordError(f"{where}: category {category!r} of video {row['video']!r} must be a whole number")
    if path is not None and not isinstance(path, str):
        raise WatchwordError(f"{where}: path {path!r} of video {row['video']!r} must be text")
    video = folder / path if path else None
    return Clip(str(row["video"]), split_named(row["split"], where), tuple(captions), category, video)


def split_checksum(clips: Iterable[Clip]) -> dict[str, str]:
    """sha256 of every split's videos and captions, in any order: runs with equal sums were trained on the same data."""
    rows: dict[str, list[str]] = {}
    for clip in clips:
        rows.setdefault(clip.split, []).append(json.dumps([clip.video, sorted(clip.captions)]))
    return {split: hashlib.sha256("\n".join(sorted(rows[split])).encode()).hexdigest() for split in sorted(rows)}


def video_path(video: str, captions: Path, videos: Path | None = None) -> Path:
    """The file of a clip. `videos` is that file, or a folder of files named by clip; None: as the captions say."""
    if videos is not None and videos.is_file():
        return videos
    if videos is not None:
        found = videos_in(videos).get(video, []) if videos.is_dir() else []
        if not found:
            raise WatchwordError(f"no video file of {video} in {videos}: give its file, or its folder")
        return found[0]
    known = {clip.video: clip.path for clip in read_annotations(captions)}
    if video not in known:
        raise unknown(f"video of {captions}", video, known)
    path = known[video]
    if path is None or not path.is_file():
        raise WatchwordError(f"no video file of {video} beside the captions: give its file, or its folder")
    return path
