"""A drawn data set on disk: `captions.jsonl`, `truth.jsonl` and a feature store, as any other data set has them."""

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from watchword.atomic_io import whole_file
from watchword.documents import parse_json
from watchword.errors import WatchwordError
from watchword.features.store import Store, settings_key
from watchword.research.shapes.descriptors import STREAMS, streams_of
from watchword.research.shapes.grammar import Facts, Thing
from watchword.research.shapes.videos import DrawnVideo, ShapesConfig, Truth, draw_videos

DRAWING = "shapes 2"  # counted up when the same options give other numbers
T = TypeVar("T")
SMALL_STREAMS = ("appearance", "regions", "motion")  # what a first training needs; the grids are ten times as big


def write_shapes(
    folder: Path,
    config: ShapesConfig,
    streams: tuple[str, ...] = SMALL_STREAMS,
    each: Callable[[DrawnVideo], object] = lambda drawn: None,
    regions_every: int = 1,
) -> None:
    """Draws the videos and writes the data set; `each` gets every video once it is written.

    Regions are those of the middle one of each `regions_every` frames.
    """
    settings = {"drawn": DRAWING, **{name: value for name, value in asdict(config).items() if name != "count"}}
    if regions_every != 1:
        settings["regions_every"] = regions_every
    store = Store(folder / "store")
    if any(key != settings_key(settings) for name in STREAMS for key in store.keys(name)):
        raise WatchwordError(f"{folder} holds videos that were drawn otherwise: choose another folder or delete it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        captions, truth = folder / "captions.jsonl", folder / "truth.jsonl"
        with whole_file(captions) as spoken, whole_file(truth) as true:  # they never name what is not there
            for drawn in draw_videos(config):
                for name, arrays in streams_of(drawn, streams, regions_every).items():
                    store.write(drawn.video, name, arrays, settings)
                line = {"video": drawn.video, "split": drawn.split, "captions": drawn.captions}
                spoken.write(f"{json.dumps(line)}\n".encode())
                true.write(f"{json.dumps(truth_to_json(drawn.video, drawn.truth))}\n".encode())
                each(drawn)
    except OSError as error:
        raise WatchwordError(f"cannot write {folder}: {error.strerror or error}; choose another folder") from error


def read_truth(path: Path) -> dict[str, Truth]:
    """video -> truth, from the `truth.jsonl` of a drawn data set."""
    return _read_lines(path, truth_from_json)


def read_events(path: Path) -> dict[str, tuple[int, int]]:
    """video -> first frame of its event and the one after it, from the `truth.jsonl` of drawn or spliced videos."""

    def event_of(record: dict[str, Any]) -> tuple[int, int]:
        start, end = record["event"]
        return int(start), int(end)

    return _read_lines(path, event_of)


def _read_lines(path: Path, read: Callable[[dict[str, Any]], T]) -> dict[str, T]:
    found = {}
    try:
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
            try:
                record = parse_json(line)
                found[str(record["video"])] = read(record)
            except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
                raise WatchwordError(f"cannot read {path}, line {number}: {error}; draw the data set again") from error
    except (OSError, UnicodeDecodeError) as error:
        problem = getattr(error, "strerror", None) or error
        raise WatchwordError(
            f"cannot read {path}: {problem}; make it: watchword research shapes {path.parent}"
        ) from error
    return found


def truth_to_json(video: str, truth: Truth) -> dict[str, Any]:
    return {
        "video": video,
        "event": truth.event,
        "subject": truth.subject,
        "second": truth.second,
        "distractors": truth.distractors,
        "order_words": truth.order_words,
        "rare_words": truth.rare_words,
        "facts": asdict(truth.facts),
        "things": [asdict(thing) if thing else None for thing in truth.things],
        "visible": truth.visible.astype(int).tolist(),
        "boxes": np.round(truth.boxes, 4).tolist(),
    }


def truth_from_json(record: dict[str, Any]) -> Truth:
    facts = {name: value for name, value in record["facts"].items() if name not in ("subject", "second")}
    second = record["facts"]["second"]
    start, end = record["event"]
    return Truth(
        facts=Facts(subject=Thing(**record["facts"]["subject"]), second=Thing(**second) if second else None, **facts),
        event=(start, end),
        boxes=np.array(record["boxes"], np.float64),
        visible=np.array(record["visible"], bool),
        things=tuple(Thing(**thing) if thing else None for thing in record["things"]),
        subject=record["subject"],
        second=record["second"],
        order_words=tuple(record["order_words"]),
        rare_words=tuple(record["rare_words"]),
    )
