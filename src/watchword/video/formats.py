"""Which files are videos, where they are, and which of them a browser can play."""

import glob
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import takewhile
from pathlib import Path

from watchword.errors import WatchwordError
from watchword.video.container import Report, is_address, opened, shown, video_stream, warn

# Suffix -> MIME type of every file that is read as a video; a file that is named itself may have any suffix.
VIDEO_TYPES = {
    ".mp4": "video/mp4", ".m4v": "video/mp4", ".f4v": "video/mp4", ".mov": "video/quicktime", ".webm": "video/webm",
    ".ogv": "video/ogg", ".ogg": "video/ogg", ".mkv": "video/x-matroska", ".avi": "video/x-msvideo",
    ".divx": "video/x-msvideo", ".3gp": "video/3gpp", ".ts": "video/mp2t", ".mts": "video/mp2t", ".m2ts": "video/mp2t",
    ".mpg": "video/mpeg", ".mpeg": "video/mpeg", ".vob": "video/mpeg", ".flv": "video/x-flv", ".wmv": "video/x-ms-wmv",
    ".asf": "video/x-ms-asf", ".gif": "image/gif", ".mxf": "application/octet-stream",
    ".rm": "application/octet-stream", ".rmvb": "application/octet-stream", ".ogm": "application/octet-stream",
    ".y4m": "application/octet-stream",
}  # fmt: skip
IMAGE_TYPES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "application/octet-stream",
    ".tiff": "application/octet-stream",
}
VIDEO_SUFFIXES, IMAGE_SUFFIXES = frozenset(VIDEO_TYPES), frozenset(IMAGE_TYPES)

# FFmpeg's name of a container -> the suffix of its files.
CONTAINER_SUFFIXES = {
    "mov,mp4,m4a,3gp,3g2,mj2": ".mp4",
    "matroska,webm": ".mkv",
    "avi": ".avi",
    "ogg": ".ogv",
    "gif": ".gif",
    "mpegts": ".ts",
    "mpeg": ".mpg",
    "flv": ".flv",
    "asf": ".wmv",
    "png_pipe": ".png",
    "jpeg_pipe": ".jpg",
    "webp_pipe": ".webp",
}
WEBM_CODECS = {"vp8", "vp9", "av1"}  # a Matroska file with one of them is a WebM file

# What every current browser plays without a licence of the machine: container -> MIME type, video codecs.
PLAYABLE = {
    "mov,mp4,m4a,3gp,3g2,mj2": ("video/mp4", {"h264"}),
    "matroska,webm": ("video/webm", {"vp8", "vp9"}),
}
PLAYABLE_PIXELS = {"yuv420p", "yuvj420p"}  # others, ten bits or fuller colour, play on some machines only


def find_paths(words: Iterable[str], suffixes: frozenset[str] = VIDEO_SUFFIXES, *, report: Report = warn) -> list[Path]:
    """Paths of files, folders and patterns, each once, in order. A folder gives all files below it with a suffix."""
    return list(dict.fromkeys(path for word in words for path in _paths(word, suffixes, report)))


def find_relative(
    words: Iterable[str], suffixes: frozenset[str] = VIDEO_SUFFIXES, *, report: Report = warn
) -> dict[Path, Path]:
    """The paths of files, folders and patterns, each by its path below the folder that was named.

    Where two would be the same, all by their paths below the folder that holds all that was named.
    """
    words = list(words)
    found: dict[str, tuple[Path, Path]] = {}  # absolute path -> relative path, path
    for word in words:
        for path in _paths(word, suffixes, report):
            absolute = os.path.abspath(path)
            found.setdefault(absolute, (Path(os.path.relpath(absolute, _root(word))), path))
    named = dict(found.values())
    if len(named) == len(found):
        return named
    base = os.path.commonpath([os.path.abspath(_root(word)) for word in words])
    return {Path(os.path.relpath(absolute, base)): path for absolute, (_, path) in found.items()}


def _root(word: str) -> Path:
    """The folder that a word names: itself, that of its file, or the part of a pattern that is plain."""
    path = Path(word)
    if _may_enter(path):
        return path
    if glob.has_magic(word) and not os.path.exists(path):
        return Path(*takewhile(lambda part: not glob.has_magic(part), path.parts[:-1]))
    return Path(os.path.abspath(path)).parent


def _may_enter(path: Path) -> bool:
    """Whether it is a folder whose files can be read."""
    return os.path.isdir(path) and os.access(path, os.R_OK | os.X_OK)


def names_of(relative: Collection[Path]) -> list[str]:
    """Paths as names, such as `day1/IMG_1`; with the ending where two would have one name."""
    short = [path.with_suffix("").as_posix() for path in relative]
    count = Counter(short)
    names = [path.as_posix() if count[name] > 1 else name for path, name in zip(relative, short, strict=True)]
    return names if len(set(names)) == len(names) else [path.as_posix() for path in relative]


def files_below(folder: Path, suffixes: Collection[str], report: Report = warn) -> list[Path]:
    """All files below a folder with a suffix, sorted. A folder that cannot be entered is reported and left out."""

    def skip(error: OSError) -> None:
        report(f"cannot enter {shown(Path(error.filename))}: {error.strerror}; what is in it is left out")

    found = (Path(root, name) for root, _, names in os.walk(folder, onerror=skip) for name in names)
    return sorted(path for path in found if path.suffix.lower() in suffixes and os.path.isfile(path))


def _paths(word: str, suffixes: frozenset[str], report: Report) -> Iterator[Path]:
    path = Path(word)
    if not word.strip():
        raise WatchwordError("an empty name is no video; the current folder is called .")
    if _may_enter(path):
        found = files_below(path, suffixes, report)
        if not found:
            raise WatchwordError(f"no videos in {path}: it has no file that ends in .mp4, .webm, .avi or the like")
        yield from found
    elif glob.has_magic(word) and not os.path.exists(path) and not is_address(path):  # an address may hold a ?
        matches = sorted(glob.glob(word, recursive=True))
        if not matches:
            raise WatchwordError(f"no file matches {word!r}")
        for match in matches:
            yield from _paths(match, suffixes, report) if os.path.isdir(match) else [Path(match)]
    else:
        yield path  # what is missing or forbidden is reported when it is read: one bad video does not stop the others


def suffix_of(path: Path, codec: str) -> str:
    """The usual suffix for the container of a file; "" for an unusual one."""
    with opened(path) as container:
        name = container.format.name
    return ".webm" if name == "matroska,webm" and codec in WEBM_CODECS else CONTAINER_SUFFIXES.get(name, "")


def browser_type(path: Path) -> str:
    """The MIME type for a browser, such as video/mp4; "" if not every browser plays the file."""
    with opened(path) as container:
        context = video_stream(path, container).codec_context
        kind, codecs = PLAYABLE.get(container.format.name, ("", set[str]()))
        good = context.codec.canonical_name in codecs and context.pix_fmt in PLAYABLE_PIXELS
        if kind == "video/webm" and path.suffix.lower() == ".mkv":
            good = False  # FFmpeg reads Matroska as WebM; only some browsers play it
        return kind if good else ""
