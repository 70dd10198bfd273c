"""Which files are meant: names, folders, patterns and lists become paths."""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchword.errors import WatchwordError

# What counts as a film inside a folder; a file that is named itself may be called anything.
FILMS = frozenset((
    ".3gp", ".asf", ".avi", ".divx", ".f4v", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".mxf", ".ogg", ".ogm", ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m",
))  # fmt: skip
PICTURES = frozenset((".bmp", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"))


def find_paths(words: Iterable[str], suffixes: frozenset[str] = FILMS) -> list[Path]:
    """Every path once, in order; of a folder all files below it that end so."""
    return list(dict.fromkeys(path for word in words for path in _paths(word, suffixes)))


def _paths(word: str, suffixes: frozenset[str]) -> Iterator[Path]:
    path = Path(word)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in suffixes and file.is_file())
        if not found:
            raise WatchwordError(f"no films in {path}: it holds no file that ends in .mp4, .webm, .avi or the like")
        yield from found
    elif glob.has_magic(word) and not path.exists():
        matches = sorted(glob.glob(word, recursive=True))
        if not matches:
            raise WatchwordError(f"no file fits {word!r}")
        for match in matches:
            yield from [Path(match)] if not Path(match).is_dir() else _paths(match, suffixes)
    else:
        yield path  # a name without a file is said when its turn comes: one bad film does not stop the rest
