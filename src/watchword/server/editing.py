"""The endpoints that change what is said of a video: captions by hand, and a new description."""

from typing import Annotated

from fastapi import FastAPI, HTTPException
from fastapi import Path as InPath

from watchword.server.parameters import CaptionerName, Number, captioner_of, row_of
from watchword.server.schemas import CaptionEdit, JobCreated, SegmentAnswer, errors
from watchword.server.service import Service

SegmentNumber = Annotated[int, InPath(ge=0, le=2**31, description="The segment of the video, counted from 0.")]


def add_editing(app: FastAPI, service: Service) -> None:
    def edit(video: int, segment: int, text: str) -> SegmentAnswer:
        row_of(service, video)
        edited = service.storage.library.edit(video, segment, text)
        if edited is None:
            raise HTTPException(404, f"video {video} has no segment {segment}: it may have been described again")
        return SegmentAnswer.of(edited)

    path = "/api/videos/{video}/segments/{segment}/caption"

    @app.put(path, tags=["videos"], responses=errors(400, 404))
    def edit_caption(video: Number, segment: SegmentNumber, edit_to: CaptionEdit) -> SegmentAnswer:
        """Corrects a caption. The original one is kept below it; search and downloads have the corrected one."""
        if not edit_to.caption.split():
            raise HTTPException(422, "caption: write at least a word, or restore the original with DELETE")
        return edit(video, segment, edit_to.caption)

    @app.delete(path, tags=["videos"], responses=errors(404))
    def restore_caption(video: Number, segment: SegmentNumber) -> SegmentAnswer:
        """Restores the caption of the captioner."""
        return edit(video, segment, "")

    @app.post("/api/videos/{video}/describe", status_code=202, tags=["videos"], responses=errors(404, 429, 507))
    def describe_again(video: Number, captioner: CaptionerName = "") -> JobCreated:
        """Describes a video of the library again. Captions that a person wrote stay."""
        row = row_of(service, video)
        if service.storage.video_file(row) is None:
            raise HTTPException(404, "the file of the video does not exist any more: it cannot be described again")
        return JobCreated(job=service.describe_again(row, captioner_of(service, captioner)).id)
