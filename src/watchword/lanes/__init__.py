"""Lanes of a description beside its captions: speech, text on screen, sounds. Each reads a video in a pass of its own.

    for part in open_reader("speech", options).read(path, LaneProgress(), warnings): print(part.cues)

A reader gives part after part, in bounded memory, and continues from the progress of an earlier run. The packages that
recognise speech and text are extras; nothing is imported before a lane is wanted, and nothing leaves the machine.
"""

from watchword.lanes.reading import (
    LANES,
    LaneOptions,
    LanePart,
    LaneProgress,
    LaneReader,
    check_lanes,
    open_reader,
    read_lanes,
)

__all__ = [
    "LANES",
    "LaneOptions",
    "LanePart",
    "LaneProgress",
    "LaneReader",
    "check_lanes",
    "open_reader",
    "read_lanes",
]
