"""Which films are meant: files, folders, patterns and lists become films with names of their own."""

from collections.abc import Iterable

from watchword.errors import WatchwordError
from watchword.features.extraction import Film
from watchword.video.formats import find_paths


def find_films(words: Iterable[str]) -> list[Film]:
    """Films by the stems of their files. Two files with one stem would overwrite each other: refused."""
    films: dict[str, Film] = {}
    for path in find_paths(words):
        film = films.setdefault(path.stem, Film(path.stem, path))
        if film.path != path and not (film.path.exists() and path.exists() and film.path.samefile(path)):
            raise WatchwordError(
                f"{film.path} and {path} would both be called {path.stem!r} in the store: rename one of them, or "
                "extract them into different stores"
            )
    return list(films.values())
