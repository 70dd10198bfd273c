"""Errors that a user sees: what failed with its value, what was expected, what to do next."""

from collections.abc import Iterable
from difflib import get_close_matches


class WatchwordError(Exception):
    """A mistake or a mishap that the person at the keyboard can act on: shown as one line, without a traceback."""


class VideoMissing(WatchwordError):  # noqa: N818
    """There is no such video file."""


class VideoUnreadable(WatchwordError):  # noqa: N818
    """A file is there, but it is no video, is damaged, or may not be read."""


class WeightsMissing(WatchwordError):  # noqa: N818
    """Pretrained weights are not on this machine and cannot be fetched."""


class DiskFull(WatchwordError):  # noqa: N818
    """No space is left for what is to be written."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` when a known name is close, otherwise the list of what there is."""
    names = sorted(known)
    close = get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else f" (there is: {', '.join(names)})"


def unknown(kind: str, word: str, known: Iterable[str]) -> WatchwordError:
    """The error for a name that is not in a table."""
    return WatchwordError(f"unknown {kind} {word!r}{did_you_mean(word, known)}")
