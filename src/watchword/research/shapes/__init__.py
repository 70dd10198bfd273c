"""`shapes`: short videos of coloured shapes, drawn from a seed, with captions and with the truth that real data lacks.

grammar.py      what can be drawn, the phrases for it, and captions parsed back
drawing.py      painting
videos.py       configuration, staging, DrawnVideo and Truth
descriptors.py  streams from the pixels
folder.py       the data set on disk
"""

from watchword.research.shapes.descriptors import STREAMS, grid_boxes, streams_of
from watchword.research.shapes.folder import SMALL_STREAMS, read_events, read_truth, write_shapes
from watchword.research.shapes.grammar import LEXICON, RARE_WORDS, Facts, Thing, describe, kind_of, meaning
from watchword.research.shapes.videos import (
    DrawnVideo,
    ShapesConfig,
    Truth,
    draw_video,
    draw_videos,
    play_backwards,
    split_of,
)

__all__ = [
    "LEXICON",
    "RARE_WORDS",
    "SMALL_STREAMS",
    "STREAMS",
    "DrawnVideo",
    "Facts",
    "ShapesConfig",
    "Thing",
    "Truth",
    "describe",
    "draw_video",
    "draw_videos",
    "grid_boxes",
    "kind_of",
    "meaning",
    "play_backwards",
    "read_events",
    "read_truth",
    "split_of",
    "streams_of",
    "write_shapes",
]
