"""Descriptions of videos in one file, and search. SQLite and numpy; no torch, no web.

library = Library(default_path())
library.add(description, name="beach.mp4", identity="...", source=Path("beach.mp4"), explanation=None)
for hit in library.search("dog run"): print(hit.name, hit.start, hit.caption)
"""

import os
from pathlib import Path

from platformdirs import user_data_path

from watchword.library.database import Hit, VideoRow
from watchword.library.library import Library
from watchword.library.query import Listing

__all__ = ["Hit", "Library", "Listing", "VideoRow", "default_path"]


def default_path() -> Path:
    """WATCHWORD_LIBRARY, or a file among the user's data."""
    named = os.environ.get("WATCHWORD_LIBRARY")
    return Path(named) if named else user_data_path("watchword", appauthor=False) / "library.db"
