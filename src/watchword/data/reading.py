"""Text files of captions as people have them: encodings, tables with line numbers, names of splits, checks."""

import csv
import gzip
import io
import logging
import os
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from watchword.errors import WatchwordError, did_you_mean
from watchword.types import Clip
from watchword.video.formats import files_below

log = logging.getLogger(__name__)

SPLITS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validate": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
}
SPLIT_WORD = re.compile(rf"(?:^|[^a-z])({'|'.join(sorted(SPLITS, key=len, reverse=True))})(?=[^a-z]|$)")
VIDEO_SUFFIXES = {
    ".mp4",
    ".avi",
    ".mkv",
    ".webm",
    ".mov",
    ".m4v",
    ".mpg",
    ".mpeg",
    ".flv",
    ".wmv",
    ".3gp",
    ".gif",
    ".ogv",
}
VIDEO_FOLDERS = ("videos", "clips", "YouTubeClips", "TrainValVideo", "TestVideo")


def split_named(word: object, where: str) -> str:
    """train, val or test, by whichever of its names a file calls it."""
    split = SPLITS.get(str(word).strip().lower())
    if split is None:
        raise WatchwordError(f"{where}: unknown split {word!r}{did_you_mean(str(word), ['train', 'val', 'test'])}")
    return split


def split_in_name(path: Path) -> str | None:
    """The split that a file's name tells, if it tells one."""
    found = SPLIT_WORD.findall(path.name.lower())
    return split_named(found[-1], str(path)) if len(set(found)) == 1 else None


def read_utf8(path: Path) -> str:
    """A file that must be UTF-8, packed or not, with or without a byte order mark."""
    raw = _read_bytes(path)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise WatchwordError(f"{_place_of(path, raw, error)}: not UTF-8; save the file as UTF-8") from error


def read_any_text(path: Path) -> str:
    """A table of a spreadsheet: UTF-8, UTF-16 with its mark, or the Western European of old Windows."""
    raw = _read_bytes(path)
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        try:
            return raw.decode("utf-16")
        except UnicodeDecodeError as error:
            raise WatchwordError(f"{path}: begins as UTF-16 but is not ({error.reason}); save it as UTF-8") from error
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in raw:
            raise WatchwordError(f"{path}: not a text file; expected captions as UTF-8 text") from error
        log.warning(
            "%s: not UTF-8, read as Western European (Windows-1252); if accents look wrong, save the file as UTF-8",
            _place_of(path, raw, error),
        )
        return raw.decode("cp1252", errors="replace")


def _read_bytes(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
        return gzip.decompress(raw) if raw.startswith(b"\x1f\x8b") else raw
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise WatchwordError(f"{path} is damaged ({error}): get it again") from error
    except OSError as error:
        raise WatchwordError(f"cannot read {path}: {error.strerror or error}") from error


def _place_of(path: Path, raw: bytes, error: UnicodeDecodeError) -> str:
    return f"{path}, line {raw[: error.start].count(10) + 1}, byte 0x{raw[error.start]:02x}"


@dataclass(frozen=True)
class Row:
    """One row of a table, its columns by lower-case name, and where it stands."""

    where: str
    cells: dict[str, str]

    def first(self, *columns: str) -> str:
        """The first of these columns that the table has; stripped, empty where there is none."""
        return next((self.cells[column].strip() for column in columns if column in self.cells), "")


def header_of(path: Path) -> list[str]:
    """The names of a table's columns, in lower case."""
    text = read_any_text(path)
    line = text.lstrip().partition("\n")[0]
    return [cell.strip().strip('"').lower() for cell in line.split(_delimiter(text))]


def _delimiter(text: str) -> str:
    return max(",;\t", key=text.lstrip().partition("\n")[0].count)


def read_rows(path: Path) -> list[Row]:
    """A csv or tsv with a header; comma, semicolon or tab, whichever the header uses."""
    text = read_any_text(path)
    delimiter = _delimiter(text)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, header, begins = [], None, 1
    try:
        for cells in reader:
            where, begins = f"{path}, line {begins}", reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                continue
            if len(cells) != len(header):
                raise WatchwordError(
                    f"{where}: {len(cells)} columns, the header has {len(header)}; "
                    f"a sentence with {delimiter!r} in it needs quotes around it"
                )
            rows.append(Row(where, dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise WatchwordError(f"{path}, line {begins}: broken table row ({error}); is a quote left open?") from error
    if header is None:
        raise WatchwordError(f"{path}: empty; expected a header line and captions")
    return rows


def checked(clips: Iterable[Clip], where: str) -> list[Clip]:
    """The clips, once it is sure that every video is there once and that somebody said something about it.

    Captions become one line each. Blank ones are left out with a warning: published files have them (MSVD: 2 of
    80,839), and they teach nothing.
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


def without_suffix(name: str) -> str:
    """A video's name as an id: `a.mp4` is `a`, `v1.2` stays."""
    stem, suffix = os.path.splitext(name)
    return stem if suffix.lower() in VIDEO_SUFFIXES else name


def videos_in(folder: Path) -> dict[str, list[Path]]:
    """Every video below a folder by its id, the path inside it without suffix."""
    videos: dict[str, list[Path]] = {}
    for path in files_below(folder, VIDEO_SUFFIXES, log.warning):
        videos.setdefault(path.relative_to(folder).with_suffix("").as_posix(), []).append(path)
    return videos


def with_videos(clips: list[Clip], folder: Path) -> list[Clip]:
    """Clips that name no video get the file of their name beside the captions, where there is one."""
    if all(clip.path for clip in clips):
        return clips
    videos: dict[str, list[Path]] = {}
    for name in VIDEO_FOLDERS:
        videos |= videos_in(folder / name) if (folder / name).is_dir() else {}
    return [
        replace(clip, path=videos[clip.video][0]) if clip.path is None and clip.video in videos else clip
        for clip in clips
    ]
