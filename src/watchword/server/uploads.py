"""The endpoints that take a video: as a job, or with the description as the response."""

import asyncio
import time
from typing import Annotated, Any

from fastapi import FastAPI, Header, HTTPException, Query, Request
from fastapi.responses import JSONResponse, Response

from watchword.server.jobs import Job
from watchword.server.parameters import CaptionerName, captioner_of
from watchword.server.schemas import JobCreated, VideoAnswer, errors
from watchword.server.service import Service

SHORT_SECONDS = 60.0  # a longer video is not waited for
POLL_SECONDS = 0.1
A_FILE = {"schema": {"type": "string", "format": "binary"}}
A_FORM = {"schema": {"type": "object", "required": ["file"], "properties": {"file": A_FILE["schema"]}}}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": A_FILE, "multipart/form-data": A_FORM},
    }
}
Name = Annotated[
    str,
    Header(alias="x-watchword-name", description="The name of the video, percent-encoded UTF-8; a form has its own."),
]
Wait = Annotated[float, Query(ge=0, le=600, description="Seconds to wait; then the response is a job.")]


def add_uploads(app: FastAPI, service: Service) -> None:
    async def upload(request: Request, name: str, captioner: str) -> Job:
        return await service.upload(request, name, captioner_of(service, captioner))

    refusals = errors(400, 408, 413, 422, 429, 503, 507)

    @app.post("/api/videos", status_code=202, tags=["videos"], responses=refusals, openapi_extra=BODY)
    async def add_video(request: Request, name: Name = "", captioner: CaptionerName = "") -> JobCreated:
        """Uploads a video: the body is the file, or a form with a file. The response comes when the file was checked
        and is in the queue."""
        return JobCreated(job=(await upload(request, name, captioner)).id)

    @app.post(
        "/api/describe",
        response_model=VideoAnswer,
        tags=["videos"],
        responses={202: {"model": JobCreated}, **refusals},
        openapi_extra=BODY,
    )
    async def describe(
        request: Request, name: Name = "", captioner: CaptionerName = "", wait: Wait = 120.0
    ) -> VideoAnswer | Response:
        """Uploads a short video and waits for its description. A video of more than a minute, or one that waits too
        long for its turn, is a job: 202, as from POST /api/videos."""
        job = await upload(request, name, captioner)
        deadline = time.monotonic() + (wait if job.seconds <= SHORT_SECONDS else 0.0)
        while time.monotonic() < deadline and not service.stopping.is_set():
            found = service.storage.jobs.find(job.id)
            if found is None or found.is_final:
                return await asyncio.to_thread(_described, service, found)
            await asyncio.sleep(POLL_SECONDS)
        return JSONResponse({"job": job.id}, 202)


def _described(service: Service, job: Job | None) -> VideoAnswer:
    row = service.storage.library.video(job.video) if job is not None and job.video is not None else None
    if row is None:
        raise HTTPException(422, (job and job.error) or "the video was cancelled or deleted meanwhile")
    return VideoAnswer.of(row, service.storage.description(row), service.storage.video_file(row) is not None)
