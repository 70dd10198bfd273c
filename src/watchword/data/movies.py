"""M-VAD and MPII-MD, movies with descriptions, in the tables of LSMDC:

    1004_Juno_00.00.32.714-00.00.37.660<tab>00:00:32.714<tab>00:00:37.660<tab>She walks in.         start, end
    the same with four times: start and end as aligned, start and end of the cut video

A table has no header; its name tells the split (LSMDC16_annos_training.csv, M-VAD_test.csv). A clip has one caption.
"""

import re
from pathlib import Path

from watchword.data.reading import checked, read_any_text, split_in_name
from watchword.errors import WatchwordError
from watchword.types import Clip

TIME = re.compile(r"\d+(:\d\d){0,2}([.,]\d+)?")


def movie_tables(folder: Path) -> list[Path]:
    """The files of a folder that are such tables."""
    found = (path for pattern in ("*.csv", "*.tsv", "*.txt") for path in sorted(folder.glob(pattern)))
    return [path for path in found if is_movie_table(path)]


def is_movie_table(path: Path) -> bool:
    """Whether a file's first line is a clip, two or four times, and a caption."""
    return _cells(read_any_text(path).lstrip().partition("\n")[0]) is not None


def read_movies(paths: list[Path]) -> list[Clip]:
    """Clips from one table or several (training, val, test)."""
    clips = []
    for path in paths:
        split = split_in_name(path)
        if split is None:
            raise WatchwordError(
                f"{path}: its name does not tell the split; rename it so that it has train, val or test"
            )
        for number, line in enumerate(read_any_text(path).split("\n"), 1):
            if not line.strip():
                continue
            cells = _cells(line)
            if cells is None:
                raise WatchwordError(f"{path}, line {number}: expected clip, start, end and caption, with tabs between")
            clips.append(Clip(cells[0], split, (cells[1],)))
    return checked(clips, str(paths[0] if len(paths) == 1 else paths[0].parent))


def _cells(line: str) -> tuple[str, str] | None:
    """Clip and caption."""
    clip, *times, caption = line.rstrip("\r\n").split("\t") if line.count("\t") in (3, 5) else ("", "", "")
    whole = clip and times and all(TIME.fullmatch(time.strip()) for time in times)
    return (clip.strip(), caption) if whole else None
