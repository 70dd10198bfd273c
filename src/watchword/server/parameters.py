"""Parameters of the endpoints, and what they name."""

from typing import Annotated

from fastapi import HTTPException, Query
from fastapi import Path as InPath

from watchword.library import VideoRow
from watchword.server.service import Service

Number = Annotated[int, InPath(ge=1, le=2**62, description="The number of the video.")]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Seconds = Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)]
CaptionerName = Annotated[str, Query(max_length=200, description="One of `captioners` in /api/about.")]


def row_of(service: Service, video: int) -> VideoRow:
    row = service.storage.library.video(video)
    if row is None:
        raise HTTPException(404, f"no video {video}: it may have been deleted")
    return row


def captioner_of(service: Service, name: str) -> str:
    """The name of an offered captioner; empty for the server's own. A client never names a path."""
    if name and name not in service.info.captioners:
        raise HTTPException(422, f"captioner: choose one of {', '.join(service.info.captioners)}")
    return "" if name == service.info.captioner else name
