"""MSR-VTT, 10,000 clips with 20 captions each: videodatainfo.json, whole or in parts.

    {"videos": [{"video_id": "video0", "category": 9, "split": "train", ...}, ...],
     "sentences": [{"video_id": "video0", "caption": "a car is shown", ...}, ...]}

It goes around as one file (videodatainfo.json, videodatainfo_2017.json, MSRVTT_data.json) and as two
(train_val_videodatainfo.json, test_videodatainfo.json). The official split is 6,513 / 497 / 2,990; files call the
second one "validate".
"""

from pathlib import Path
from typing import Any

from watchword.data.reading import checked, read_utf8, split_named
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.types import Clip

INFO_NAMES = ("*videodatainfo*.json", "*videodatainfo*.json.gz", "MSRVTT_data.json", "MSR_VTT.json")


def info_files(folder: Path) -> list[Path]:
    """The files of a folder that hold MSR-VTT's captions."""
    return sorted(path for pattern in INFO_NAMES for path in folder.glob(pattern))


def read_msrvtt(paths: list[Path]) -> list[Clip]:
    """Clips from one file or several."""
    clips: list[Clip] = []
    for path in paths:
        clips += _read_one(path)
    return checked(clips, str(paths[0] if len(paths) == 1 else paths[0].parent))


def _read_one(path: Path) -> list[Clip]:
    try:
        info: Any = parse_json(read_utf8(path))
    except ValueError as error:
        raise WatchwordError(f"{path}: broken JSON ({error}); get it again") from error
    if not isinstance(info, dict) or not all(isinstance(info.get(key), list) for key in ("videos", "sentences")):
        raise WatchwordError(f'{path}: expected MSR-VTT\'s {{"videos": [...], "sentences": [...]}}')
    captions: dict[str, list[str]] = {}
    for number, sentence in enumerate(info["sentences"], 1):
        row = sentence if isinstance(sentence, dict) else {}
        if not isinstance(row.get("video_id"), str | int) or not isinstance(row.get("caption"), str):
            raise WatchwordError(f"{path}: sentence {number} lacks video_id or caption")
        captions.setdefault(str(row["video_id"]), []).append(row["caption"])
    clips = [_clip(video, captions, f"{path}: video {number}") for number, video in enumerate(info["videos"], 1)]
    unknown = captions.keys() - {clip.video for clip in clips}
    if unknown:
        raise WatchwordError(f"{path}: captions for {min(unknown)!r}, which is not among its videos")
    return clips


def _clip(video: Any, captions: dict[str, list[str]], where: str) -> Clip:
    if not isinstance(video, dict) or "split" not in video or not isinstance(video.get("video_id"), str | int):
        raise WatchwordError(f"{where} lacks video_id or split")
    name, category = str(video["video_id"]), video.get("category")
    split = split_named(video["split"], f"{where} ({name})")
    try:
        number = int(category) if category is not None else None
    except (TypeError, ValueError, OverflowError) as error:
        raise WatchwordError(f"{where} ({name}): category {category!r:.40} is no whole number") from error
    return Clip(name, split, tuple(captions.get(name, ())), number)
