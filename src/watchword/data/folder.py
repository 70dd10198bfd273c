"""A person's own videos: `videos/` and `captions.csv`.

    video,caption,split,source,category
    beach.mp4,a dog runs along the beach,train,holiday.mov,animals

Only `video` and `caption` are needed. One row a caption, or several columns that begin with `caption`, or both. Without
`split`, the split is drawn from a hash of the video's name (80 / 10 / 10): the same on every machine, and videos added
later move no other. Videos cut from one source (a column `source`) stay in one split.
"""

import hashlib
import logging
from pathlib import Path

from watchword.data.reading import Row, checked, read_rows, split_named, videos_in, without_suffix
from watchword.errors import WatchwordError
from watchword.types import Clip

log = logging.getLogger(__name__)


def read_folder(path: Path) -> list[Clip]:
    """The clips of a `captions.csv`."""
    rows = read_rows(path)
    columns = rows[0].cells if rows else {}
    caption_columns = [column for column in columns if column.startswith("caption")]
    if rows and ("video" not in columns or not caption_columns):
        raise WatchwordError(f"{path}: the header needs the columns video and caption; it has {', '.join(columns)}")

    captions: dict[str, list[str]] = {}
    said: dict[str, dict[str, str]] = {"split": {}, "source": {}, "category": {}}
    for row in rows:
        video = without_suffix(row.first("video"))
        if not video:
            raise WatchwordError(f"{row.where}: the video has no name")
        sentences = [row.cells[column] for column in caption_columns]
        # a table that is as wide as its most described video has empty cells for all others: these are no mistakes
        captions.setdefault(video, []).extend([text for text in sentences if text.strip()] or sentences[:1])
        for column, values in said.items():
            if column in columns:
                _note(values, video, row, column)

    splits = said["split"] or hashed_splits({video: said["source"].get(video) or video for video in captions})
    _warn_of_shared_sources(path, splits, said["source"])
    videos = _videos(path, captions)
    categories = _numbered(said["category"])
    return checked(
        (
            Clip(video, splits[video], tuple(sentences), categories.get(video), videos.get(video))
            for video, sentences in captions.items()
        ),
        str(path),
    )


def hashed_splits(groups: dict[str, str]) -> dict[str, str]:
    """video -> train, val or test; videos of one group (video -> group) stay together."""
    place = {
        group: int(hashlib.sha256(group.encode("utf-8", "surrogatepass")).hexdigest()[:8], 16) / 16**8
        for group in groups.values()
    }
    split_of = {group: "train" if where < 0.8 else "val" if where < 0.9 else "test" for group, where in place.items()}
    for split in ("val", "test"):  # a handful of videos may leave one empty: it takes the train group that is nearest
        train = [group for group, given in split_of.items() if given == "train"]
        if split not in split_of.values() and len(train) > 1:
            split_of[max(train, key=place.__getitem__)] = split
    return {video: split_of[group] for video, group in groups.items()}


def _note(values: dict[str, str], video: str, row: Row, column: str) -> None:
    """What a row says about its video, which must be what the other rows say."""
    value = row.first(column)
    if column == "split":
        value = split_named(value, row.where)
    if values.setdefault(video, value) != value:
        raise WatchwordError(f"{row.where}: {column} {value!r} of video {video!r}; before it was {values[video]!r}")


def _warn_of_shared_sources(path: Path, splits: dict[str, str], sources: dict[str, str]) -> None:
    sides: dict[str, set[str]] = {}
    for video, source in sources.items():
        sides.setdefault(source, set()).add(splits[video])
    shared = [source for source, found in sides.items() if source and len(found) > 1]
    if shared:
        log.warning("%s: source %r is in more than one split; scores will look better than they are", path, shared[0])


def _videos(path: Path, captions: dict[str, list[str]]) -> dict[str, Path]:
    folder = path.parent / "videos"
    if not folder.is_dir():  # features alone are enough to train on
        return {}
    videos = videos_in(folder)
    missing = [video for video in captions if video not in videos]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise WatchwordError(f"{path}: no video of {missing[0]!r}{more} in {folder}; put it there or delete its rows")
    for video in captions:
        if len(videos[video]) > 1:
            names = " and ".join(video.name for video in videos[video])
            raise WatchwordError(f"{path}: video {video!r} may be {names}; rename one of them")
    silent = [video for video in videos if video not in captions]
    if silent:
        log.warning("%s: %d videos have no caption (such as %r); left out", path, len(silent), silent[0])
    return {video: videos[video][0] for video in captions}


def _numbered(categories: dict[str, str]) -> dict[str, int]:
    """Categories by number: their own numbers if all are, otherwise their place in the alphabet."""
    named = {video: name for video, name in categories.items() if name}
    if all(name.isdecimal() for name in named.values()):
        return {video: int(name) for video, name in named.items()}
    order = {name: number for number, name in enumerate(sorted(set(named.values())))}
    return {video: order[name] for video, name in named.items()}
