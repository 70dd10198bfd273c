"""Which files are videos, where they are, and which of them a browser can play."""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchword.errors import WatchwordError
from watchword.video.container import opened, video_stream

# What counts as a video inside a folder; a file that is named itself may have any suffix.
VIDEO_SUFFIXES = frozenset((
    ".3gp", ".asf", ".avi", ".divx", ".f4v", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".mxf", ".ogg", ".ogm", ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m",
))  # fmt: skip
IMAGE_SUFFIXES = frozenset((".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))

# What every current browser plays without a licence of the machine: container -> MIME type, video codecs.
PLAYABLE = {
    "mov,mp4,m4a,3gp,3g2,mj2": ("video/mp4", {"h264"}),
    "matroska,webm": ("video/webm", {"vp8", "vp9"}),
}
PLAYABLE_PIXELS = {"yuv420p", "yuvj420p"}  # others, ten bits or fuller colour, play on some machines only


def find_paths(words: Iterable[str], suffixes: frozenset[str] = VIDEO_SUFFIXES) -> list[Path]:
    """Paths of files, folders and patterns, each once, in order. A folder gives all files below it with a suffix."""
    return list(dict.fromkeys(path for word in words for path in _paths(word, suffixes)))


def _paths(word: str, suffixes: frozenset[str]) -> Iterator[Path]:
    path = Path(word)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes and file.is_file())
        if not found:
            raise WatchwordError(f"no videos in {path}: it has no file that ends in .mp4, .webm, .avi or the like")
        yield from found
    elif glob.has_magic(word) and not path.exists():
        matches = sorted(glob.glob(word, recursive=True))
        if not matches:
            raise WatchwordError(f"no file matches {word!r}")
        for match in matches:
            yield from [Path(match)] if not Path(match).is_dir() else _paths(match, suffixes)
    else:
        yield path  # a missing file is reported when it is read: one bad video does not stop the others


def browser_type(path: Path) -> str:
    """The MIME type for a browser, such as video/mp4; "" if not every browser plays the file."""
    with opened(path) as container:
        context = video_stream(path, container).codec_context
        kind, codecs = PLAYABLE.get(container.format.name, ("", set[str]()))
        good = context.codec.canonical_name in codecs and context.pix_fmt in PLAYABLE_PIXELS
        if kind == "video/webm" and path.suffix.lower() == ".mkv":
            good = False  # FFmpeg reads Matroska as WebM; only some browsers play it
        return kind if good else ""
