"""What people said about videos, as files have it -> clips. One door: `read_annotations`.

| on disk | what it is |
|---|---|
| `captions.jsonl[.gz]` | ours: one line a video |
"""

import gzip
import hashlib
import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from watchword.errors import WatchwordError, did_you_mean
from watchword.records import Clip

log = logging.getLogger(__name__)

SPLITS = {"train": "train", "val": "val", "validate": "val", "validation": "val", "valid": "val", "test": "test"}


def split_named(word: object, where: str) -> str:
    """train, val or test, by whichever of its names a file calls it."""
    split = SPLITS.get(str(word).strip().lower())
    if split is None:
        raise WatchwordError(f"{where}: unknown split {word!r}{did_you_mean(str(word), ['train', 'val', 'test'])}")
    return split


def read_annotations(path: Path | str) -> list[Clip]:
    """The clips of a data set, in the order of its files."""
    path = Path(path)
    if path.is_dir():
        for name in ("captions.jsonl", "captions.jsonl.gz"):
            if (path / name).exists():
                return read_native(path / name)
    return read_native(path)


def read_native(path: Path) -> list[Clip]:
    """`captions.jsonl[.gz]`; a film's path is relative to the file's folder."""
    clips = []
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except ValueError as error:
            raise WatchwordError(f"{where}: not JSON ({error}); expected one object a line") from error
        clips.append(_native_clip(row, where, path.parent))
    return checked(clips, str(path))


def _native_clip(row: Any, where: str, folder: Path) -> Clip:
    if not isinstance(row, dict) or not {"video", "split", "captions"} <= row.keys():
        raise WatchwordError(f'{where}: expected {{"video": id, "split": "train|val|test", "captions": [...]}}')
    captions, category, film = row["captions"], row.get("category"), row.get("path")
    if not isinstance(captions, list) or not all(isinstance(caption, str) for caption in captions):
        raise WatchwordError(f"{where}: captions of video {row['video']!r} must be a list of sentences")
    if category is not None and not isinstance(category, int):
        raise WatchwordError(f"{where}: category {category!r} of video {row['video']!r} must be a whole number")
    film_path = folder / film if film else None
    return Clip(str(row["video"]), split_named(row["split"], where), tuple(captions), category, film_path)


def read_text(path: Path) -> str:
    """A text file, packed or not, with or without a byte order mark."""
    try:
        raw = gzip.decompress(path.read_bytes()) if path.name.endswith(".gz") else path.read_bytes()
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise WatchwordError(
            f"{path}, line {line}: not UTF-8 (byte 0x{raw[error.start]:02x}); save the file as UTF-8"
        ) from error
    except (EOFError, gzip.BadGzipFile) as error:
        raise WatchwordError(f"{path} is damaged: {error}; get it again") from error
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error


def checked(clips: list[Clip], where: str) -> list[Clip]:
    """The clips, once it is sure that every video is there once and that somebody said something about it.

    Blank captions are left out with a warning: published files have them (MSVD: 2 of 80,839), and they teach nothing.
    """
    seen: set[str] = set()
    blank: list[str] = []
    kept = []
    for clip in clips:
        if not clip.video:
            raise WatchwordError(f"{where}: a video has no name")
        if clip.video in seen:
            raise WatchwordError(f"{where}: video {clip.video!r} is there twice; put all its captions in one place")
        seen.add(clip.video)
        captions = tuple(" ".join(caption.split()) for caption in clip.captions if caption.strip())
        if not captions:
            raise WatchwordError(f"{where}: video {clip.video!r} has no captions; leave it out or describe it")
        blank += [clip.video] * (len(clip.captions) - len(captions))
        kept.append(replace(clip, captions=captions))
    if not kept:
        raise WatchwordError(f"{where}: no videos in it")
    if blank:
        log.warning("%s: left out %d blank captions (the first of video %r)", where, len(blank), blank[0])
    return kept


def split_checksum(clips: Iterable[Clip]) -> dict[str, str]:
    """sha256 of every split's videos and captions, whatever their order: two runs with equal sums saw the same data."""
    rows: dict[str, list[str]] = {}
    for clip in clips:
        rows.setdefault(clip.split, []).append(json.dumps([clip.video, sorted(clip.captions)]))
    return {split: hashlib.sha256("\n".join(sorted(rows[split])).encode()).hexdigest() for split in sorted(rows)}
