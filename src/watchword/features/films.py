"""Which films are meant: files, folders, patterns and lists become films with names of their own."""

import glob
from collections.abc import Iterable, Iterator
from pathlib import Path

from watchword.errors import WatchwordError
from watchword.features.extraction import Film

# What counts as a film inside a folder; a file that is named itself may be called anything.
SUFFIXES = {
    ".3gp", ".asf", ".avi", ".divx", ".f4v", ".flv", ".gif", ".m2ts", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg",
    ".mts", ".mxf", ".ogg", ".ogm", ".ogv", ".rm", ".rmvb", ".ts", ".vob", ".webm", ".wmv", ".y4m",
}  # fmt: skip


def find_films(words: Iterable[str]) -> list[Film]:
    """Films by the stems of their files. Two files with one stem would overwrite each other: refused."""
    films: dict[str, Film] = {}
    for path in (path for word in words for path in _paths(word)):
        film = films.setdefault(path.stem, Film(path.stem, path))
        if film.path != path and not (film.path.exists() and path.exists() and film.path.samefile(path)):
            raise WatchwordError(
                f"{film.path} and {path} would both be called {path.stem!r} in the store: rename one of them, or "
                "extract them into different stores"
            )
    return list(films.values())


def _paths(word: str) -> Iterator[Path]:
    path = Path(word)
    if path.is_dir():
        found = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
        if not found:
            raise WatchwordError(f"no films in {path}: it holds no file that ends in .mp4, .webm, .avi or the like")
        yield from found
    elif glob.has_magic(word) and not path.exists():
        matches = sorted(glob.glob(word, recursive=True))
        if not matches:
            raise WatchwordError(f"no file fits {word!r}")
        for match in matches:
            yield from [Path(match)] if not Path(match).is_dir() else _paths(match)
    else:
        yield path  # a name without a file is said when its turn comes: one bad film does not stop the rest
