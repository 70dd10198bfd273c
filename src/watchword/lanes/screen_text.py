"""Text on screen: PP-OCR by rapidocr, on a frame a second, and only on frames that changed.

A line that stays on screen is one cue, from its first to its last frame, wherever it moves.
"""

import os
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from watchword.features.segments import From
from watchword.lanes.reading import LanePart, LaneProgress
from watchword.lanes.tracking import CueTracker, Sighting
from watchword.types import Cue, FloatArray
from watchword.video import Rate, iterate_frames, read_timeline
from watchword.video.transforms import Within

PER_SECOND = 1.0
PIXELS = 1280  # the longer side of a frame that is read
DETECTION_PIXELS = 800  # the longer side for finding lines; they are read at full size
MIN_SCORE = 0.75
MIN_LETTERS = 2  # single letters are mostly edges of things
SAME = 0.7  # similarity of two readings of one line
GAP = 2.5  # seconds that a line may be missed
CHUNK = 8  # frames between two parts
BLOCK = 8  # pixels of a side
CHANGE = 8.0  # of a block's mean, of 255
CHANGED_BLOCKS = 4

Picture = NDArray[np.uint8]


class TextReader:
    """Lines of text as cues with boxes."""

    def __init__(self) -> None:
        from rapidocr import RapidOCR

        threads = 1 if os.environ.get("OMP_NUM_THREADS") == "1" else -1
        self.network = RapidOCR(
            params={
                "Global.log_level": "error",
                "Global.use_cls": False,  # text that is upside down
                "Det.limit_type": "max",
                "Det.limit_side_len": DETECTION_PIXELS,
                "EngineConfig.onnxruntime.intra_op_num_threads": threads,
            }
        )

    def read(self, path: Path, progress: LaneProgress, warnings: list[str]) -> Iterator[LanePart]:
        end = read_timeline(path, warnings.append).end
        lines = CueTracker(GAP, similarity, SAME)
        lines.resume(progress.open_cues, progress.reached)
        reached = progress.reached
        before: FloatArray | None = None
        plan = From(Rate(PER_SECOND), reached)
        for frames in iterate_frames(path, plan, Within(PIXELS), chunk=CHUNK, report=warnings.append):
            ended: list[Cue] = []
            for time, picture in zip(frames.times.tolist(), frames.pictures, strict=True):
                now = block_means(picture)
                if before is None or has_changed(before, now):
                    before, sightings = now, self.recognise(picture)
                ended += lines.see(time, sightings)
                reached = time + 0.5 / PER_SECOND
            yield LanePart(min(reached, end), tuple(ended), lines.open_cues(min(reached, end)))
        yield LanePart(end, lines.finish(end))

    def recognise(self, picture: Picture) -> list[Sighting]:
        """The lines of a picture (H, W, 3), RGB."""
        height, width = picture.shape[:2]
        if min(height, width) < BLOCK:
            return []
        found: Any = self.network(np.ascontiguousarray(picture[:, :, ::-1]))
        if found.txts is None:
            return []
        corners = np.asarray(found.boxes) / [width, height]  # (lines, 4, 2)
        sightings = []
        for text, score, points in zip(found.txts, found.scores, corners, strict=True):
            line = " ".join(text.split())
            if score >= MIN_SCORE and sum(map(str.isalnum, line)) >= MIN_LETTERS:
                (x0, y0), (x1, y1) = (corner.clip(0, 1).tolist() for corner in (points.min(0), points.max(0)))
                sightings.append(Sighting(line, float(score), (x0, y0, x1, y1)))
        return sightings


def similarity(one: str, other: str) -> float:
    """1 for the same letters and digits, 0 for none in common."""
    first, second = ("".join(filter(str.isalnum, text.casefold())) for text in (one, other))
    return 1.0 if first == second else SequenceMatcher(None, first, second, autojunk=False).ratio()


def block_means(picture: Picture) -> FloatArray:
    """Mean green of blocks of 8 x 8 pixels; what is left at the edges is not compared."""
    height, width = (side // BLOCK for side in picture.shape[:2])
    green = picture[: height * BLOCK, : width * BLOCK, 1].astype(np.float32)
    means: FloatArray = green.reshape(height, BLOCK, width, BLOCK).mean((1, 3))
    return means


def has_changed(before: FloatArray, now: FloatArray) -> bool:
    """Whether a line may have appeared, gone or moved."""
    return int((np.abs(before - now) > CHANGE).sum()) >= CHANGED_BLOCKS
