"""Where the film of a video lies: what pictures of a data set are drawn on."""

from pathlib import Path

from watchword.data.annotations import read_annotations
from watchword.data.reading import films_in
from watchword.errors import WatchwordError, unknown


def film_of(video: str, captions: Path, films: Path | None = None) -> Path:
    """`films` is the film itself, or a folder of films called as their videos are; None: where the captions say."""
    if films is not None and films.is_file():
        return films
    if films is not None:
        found = films_in(films).get(video, []) if films.is_dir() else []
        if not found:
            raise WatchwordError(f"there is no film of {video} in {films}: name it, --films {video}.mp4, or its folder")
        return found[0]
    known = {clip.video: clip.path for clip in read_annotations(captions)}
    if video not in known:
        raise unknown(f"video of {captions}", video, known)
    path = known[video]
    if path is None or not path.is_file():
        raise WatchwordError(f"there is no film of {video} beside the captions: say where with --films FOLDER")
    return path
