"""The endpoints. The work is done by the service."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, Header, HTTPException, Query, Request
from fastapi import Path as InPath
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException as PlainHTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

import watchword
from watchword.atomic_io import DiskFull
from watchword.captioning.writers import LANE_WRITERS, WRITERS, Format
from watchword.errors import WatchwordError
from watchword.lanes import LANES
from watchword.library import VideoRow
from watchword.server.auth import AccessPolicy, AuthMiddleware
from watchword.server.jobs import Job, QueueFull
from watchword.server.probe_pool import Busy
from watchword.server.schemas import (
    About,
    HitAnswer,
    HitList,
    JobAnswer,
    JobCreated,
    JobList,
    VideoAnswer,
    VideoList,
    VideoSummary,
    errors,
    openapi_page,
)
from watchword.server.service import NotAVideo, Service
from watchword.server.storage import TYPES, Stalled, TooLarge, clean_name
from watchword.types import Lane

PAGE = Path(__file__).parent / "static"
VIEWER = PAGE.parents[1] / "explain" / "page" / "attention.js"  # shared with `watchword explain`
RETRY_SECONDS = 10
EVENT_SECONDS = 0.25  # between two queries of a job for its event stream
HEARTBEAT_SECONDS = 15.0
THUMBNAIL = (320, 240)  # pixels, at most
FRAME = (960, 720)

# Download -> the writer's format and the MIME type.
DOWNLOADS: dict[str, tuple[Format, str]] = {
    "descriptions.vtt": ("vtt", "text/vtt"),
    "chapters.vtt": ("chapters", "text/vtt"),
    "subtitles.srt": ("srt", "application/x-subrip"),
    "description.json": ("json", "application/json"),
    "description.csv": ("csv", "text/csv"),
    "description.txt": ("text", "text/plain"),
}
STATUSES: dict[type[Exception], int] = {
    Stalled: 408,
    TooLarge: 413,
    NotAVideo: 422,
    QueueFull: 429,
    Busy: 503,
    DiskFull: 507,
}

Number = Annotated[int, InPath(ge=1, le=2**62, description="The number of the video.")]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Seconds = Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)]


class WebServer(uvicorn.Server):
    """Stops at once and quietly: event streams end, uploads are cut off."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.stopping.set()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would report every connection that is cut
        await super().shutdown(sockets)


def web_server(service: Service, policy: AccessPolicy) -> WebServer:
    """To be run inside `with service`; the middleware runs before everything, error handlers too."""
    config = uvicorn.Config(
        AuthMiddleware(create_app(service), policy),
        http="h11",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        limit_concurrency=512,
        timeout_graceful_shutdown=2,
    )
    return WebServer(config, service)


def create_app(service: Service) -> FastAPI:
    app = FastAPI(
        title="Watchword",
        version=watchword.__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        summary="Captions videos, stores the captions, searches them.",
        responses=errors(422),
    )
    _add_error_handlers(app)
    _add_page(app)
    _add_jobs(app, service)
    _add_videos(app, service)
    _add_files(app, service)
    _answer_head(app)
    return app


def _answer_head(app: FastAPI) -> None:
    """HEAD wherever GET is, but for event streams. It is not in the schema, which is made before."""
    app.openapi()
    for route in app.routes:
        if isinstance(route, APIRoute) and not route.path.endswith("/events"):
            route.methods = {*(route.methods or ()), *({"HEAD"} if "GET" in (route.methods or ()) else ())}


# --- errors ------------------------------------------------------------------------------------------------------


def _add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(PlainHTTPException)
    async def known(request: Request, error: PlainHTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return _error(422, f"{where}: {first['msg']}")

    @app.exception_handler(WatchwordError)
    async def failed(request: Request, error: WatchwordError) -> Response:
        return _error(STATUSES.get(type(error), 500), str(error))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # the client is gone

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "an error in watchword itself: see the server's terminal"}, 500)


def _error(status: int, line: str) -> Response:
    """uvicorn reads and drops what the client still sends: closing the connection would lose the response."""
    retry, close = {"retry-after": str(RETRY_SECONDS)}, {"connection": "close"}
    return JSONResponse({"error": line}, status, {429: retry, 503: retry, 408: close}.get(status))


# --- the page ------------------------------------------------------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def front() -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/api/docs", include_in_schema=False)
    def api_docs() -> Response:
        return HTMLResponse(openapi_page(app.openapi()))

    @app.get("/static/attention.js", include_in_schema=False)
    def viewer() -> Response:
        return FileResponse(VIEWER, headers={"cache-control": "no-cache"})

    app.mount("/static", Page(directory=PAGE, check_dir=False))


class Page(StaticFiles):
    """Revalidated every time; 304 where nothing changed."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        answer = super().file_response(*arguments, **named)
        answer.headers["cache-control"] = "no-cache"
        return answer


# --- jobs ----------------------------------------------------------------------------------------------------------


def _add_jobs(app: FastAPI, service: Service) -> None:
    jobs = service.storage.jobs

    def job_of(job: str) -> Job:
        found = jobs.find(job)
        if found is None:
            raise HTTPException(404, "no such job: it may have finished long ago")
        return found

    @app.get("/api/about", tags=["server"])
    def about() -> About:
        """The server, its captioner and its limits."""
        return About(
            version=watchword.__version__,
            captioner=service.info.captioner,
            hint=service.info.hint,
            limits=service.limits,
            semantic_search=service.info.semantic_search,
        )

    body = {"required": True, "content": {"application/octet-stream": {"schema": {"format": "binary"}}}}

    @app.post(
        "/api/videos",
        status_code=202,
        tags=["videos"],
        responses=errors(400, 408, 413, 422, 429, 503, 507),
        openapi_extra={"requestBody": body},
    )
    async def add_video(
        request: Request,
        x_watchword_name: Annotated[
            str, Header(min_length=1, description="The name of the video, percent-encoded UTF-8.")
        ],
    ) -> JobCreated:
        """Uploads a video; the body is the file. The response comes when the file was checked and is in the queue."""
        job = await service.upload(request, clean_name(x_watchword_name))
        return JobCreated(job=job.id)

    @app.get("/api/jobs", tags=["jobs"])
    def list_jobs() -> JobList:
        """Waiting, running and recently finished jobs."""
        return JobList(jobs=[JobAnswer.of(job) for job in jobs.all()])

    @app.get("/api/jobs/{job}", tags=["jobs"], responses=errors(404))
    def show_job(job: str) -> JobAnswer:
        """The state of a job."""
        return JobAnswer.of(job_of(job))

    @app.delete("/api/jobs/{job}", tags=["jobs"], responses=errors(404))
    def cancel_job(job: str) -> JobAnswer:
        """Cancels a job and deletes the upload; a finished job stays as it is."""
        service.worker.cancel(job_of(job))
        return JobAnswer.of(job_of(job))

    @app.get(
        "/api/jobs/{job}/events",
        tags=["jobs"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **errors(404)},
    )
    def follow_job(job: str) -> StreamingResponse:
        """The job as server-sent events, until it is done, failed or cancelled."""
        job_of(job)
        return StreamingResponse(_events(service, job), media_type="text/event-stream")


async def _events(service: Service, job: str) -> AsyncIterator[str]:
    sent, silent = "", 0.0
    while not service.stopping.is_set():
        found = service.storage.jobs.find(job)
        if found is None:
            return
        line = JobAnswer.of(found).model_dump_json()
        if line != sent:
            yield f"data: {line}\n\n"
            sent, silent = line, 0.0
        elif silent > HEARTBEAT_SECONDS:
            yield ": heartbeat\n\n"
            silent = 0.0
        if found.is_final:
            return
        await asyncio.sleep(EVENT_SECONDS)
        silent += EVENT_SECONDS


# --- videos ---------------------------------------------------------------------------------------------------------


def row_of(service: Service, video: int) -> VideoRow:
    row = service.storage.library.video(video)
    if row is None:
        raise HTTPException(404, f"no video {video}: it may have been deleted")
    return row


def _add_videos(app: FastAPI, service: Service) -> None:
    storage, library = service.storage, service.storage.library

    @app.get("/api/videos", tags=["videos"])
    def list_videos(limit: Limit = 50, offset: Offset = 0) -> VideoList:
        """All videos of the library, from uploads and from `watchword library add`."""
        rows = library.videos(limit=limit, offset=offset)
        return VideoList(videos=[VideoSummary.of(row) for row in rows], total=library.count())

    @app.get("/api/videos/{video}", tags=["videos"], responses=errors(404))
    def show_video(video: Number) -> VideoAnswer:
        """The description of a video."""
        row = row_of(service, video)
        return VideoAnswer.of(row, storage.description(row), storage.video_file(row) is not None)

    @app.get("/api/videos/{video}/attention", tags=["videos"], response_model=dict[str, Any], responses=errors(404))
    def show_attention(video: Number) -> Response:
        """The attention of each word; docs/reference/explain.schema.json is the schema."""
        row_of(service, video)
        explanation = library.explanation(video)
        if explanation is None:
            raise HTTPException(404, "no attention is stored for this video")
        return JSONResponse(explanation)

    @app.delete("/api/videos/{video}", status_code=204, tags=["videos"], responses=errors(404))
    def delete_video(video: Number) -> None:
        """Deletes a video from the library, with its upload."""
        row_of(service, video)
        service.remove(video)

    @app.get("/api/search", tags=["search"])
    def search(
        q: Annotated[
            str,
            Query(max_length=1000, description='words, prefixes*, "phrases", -without, said: written: seen: heard:'),
        ],
        limit: Limit = 20,
        offset: Offset = 0,
        semantic: bool = False,
    ) -> HitList:
        """Segments whose captions match, and what is said, written and heard that does."""
        if semantic and not service.info.semantic_search:
            line = "semantic search needs weights: run watchword weights get minilm, and start the server again"
            raise HTTPException(422, line)
        hits = library.search(q, limit=limit, offset=offset, semantic=semantic)
        return HitList(hits=[HitAnswer.of(hit) for hit in hits], total=library.count_hits(q, semantic=semantic))


# --- files ---------------------------------------------------------------------------------------------------------


def _add_files(app: FastAPI, service: Service) -> None:
    storage = service.storage

    def file_of(video: int) -> tuple[VideoRow, Path]:
        row = row_of(service, video)
        path = storage.video_file(row)
        if path is None:
            raise HTTPException(404, "the file of the video does not exist any more; its description does")
        return row, path

    def frame_of(video: int, seconds: float | None, size: tuple[int, int]) -> Response:
        row, path = file_of(video)
        time = round(min(row.seconds / 2 if seconds is None else seconds, row.seconds), 2)
        try:
            jpeg = service.frame(path, path.stat().st_mtime_ns, time, size)
        except (OSError, WatchwordError) as error:
            if isinstance(error, Busy):
                raise
            raise HTTPException(404, "there is no frame at that time") from error
        return Response(jpeg, media_type="image/jpeg")

    a_video: dict[str, Any] = {"video/*": {}, "image/*": {}, "application/octet-stream": {}}
    a_frame: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}, **errors(404, 503)}

    @app.get(
        "/api/videos/{video}/file",
        tags=["files"],
        response_class=FileResponse,
        responses={200: {"content": a_video}, 206: {"content": a_video}, **errors(404)},
    )
    def file(video: Number) -> Response:
        """The file, or a part of it (`Range`)."""
        _, path = file_of(video)
        return FileResponse(path, media_type=TYPES[path.suffix.lower()], headers={"cache-control": "private, no-cache"})

    @app.get("/api/videos/{video}/thumbnail", tags=["files"], response_class=Response, responses=a_frame)
    def thumbnail(video: Number) -> Response:
        """A small frame from the middle of the video."""
        return frame_of(video, None, THUMBNAIL)

    @app.get("/api/videos/{video}/frame", tags=["files"], response_class=Response, responses=a_frame)
    def frame(video: Number, seconds: Seconds) -> Response:
        """The frame at a time, for videos that a browser cannot play."""
        return frame_of(video, seconds, FRAME)

    for name, (form, kind) in DOWNLOADS.items():
        _add_download(app, service, name, form, kind)
    for lane in LANES:
        _add_download(app, service, f"{lane}.vtt", "vtt", "text/vtt", lane)
        _add_download(app, service, f"{lane}.srt", "srt", "application/x-subrip", lane)


def _add_download(app: FastAPI, service: Service, name: str, form: Format, kind: str, lane: Lane = "captions") -> None:
    ending, write = WRITERS[form]

    @app.get(
        f"/api/videos/{{video}}/{name}",
        tags=["files"],
        response_class=Response,
        name=name,
        responses={200: {"content": {kind: {} if form == "json" else {"schema": {"type": "string"}}}}, **errors(404)},
        summary=f"The {'description' if lane == 'captions' else lane} of a video as {form}",
    )
    def download(video: Number, download: bool = False) -> Response:
        row = row_of(service, video)
        description = service.storage.description(row)
        text = write([description]) if lane == "captions" else LANE_WRITERS[form](description, lane)
        suffix = ending if lane == "captions" else f".{name}"
        headers = {"content-disposition": attachment(f"{Path(row.name).stem}{suffix}")} if download else None
        return Response(text.encode(), media_type=kind, headers=headers)


def attachment(name: str) -> str:
    """A header that is safe for any file name."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in " ._-()") else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"
