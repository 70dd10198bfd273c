"""The endpoints. The work is done by the service."""

import asyncio
import json
import logging
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import h11
import uvicorn
from fastapi import FastAPI, HTTPException, Query
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response, StreamingResponse
from fastapi.routing import APIRoute
from starlette.middleware.cors import CORSMiddleware
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

import watchword
from watchword.captioning.confidence import UNSURE
from watchword.captioning.writers import LANE_WRITERS, WRITERS, Format
from watchword.errors import WatchwordError
from watchword.lanes import LANES
from watchword.library import Listing, VideoRow
from watchword.library.query import Sort
from watchword.server.auth import AccessPolicy, AuthMiddleware
from watchword.server.editing import add_editing
from watchword.server.export import add_export
from watchword.server.jobs import Job
from watchword.server.parameters import Limit, Number, Offset, Seconds, row_of
from watchword.server.probe_pool import Busy
from watchword.server.problems import DrainMiddleware, add_error_handlers
from watchword.server.reference import openapi_page
from watchword.server.schemas import (
    About,
    Health,
    HitAnswer,
    HitList,
    JobAnswer,
    JobList,
    VideoAnswer,
    VideoList,
    VideoSummary,
    errors,
)
from watchword.server.service import Service
from watchword.server.storage import TYPES
from watchword.server.uploads import add_uploads
from watchword.types import Lane

PAGE = Path(__file__).parent / "static"
VIEWER = PAGE.parents[1] / "explain" / "page" / "attention.js"  # shared with `watchword explain`
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


class JsonProtocol(H11Protocol):
    """What is no HTTP gets an error in JSON, as every other request does."""

    def send_400_response(self, msg: str) -> None:
        body = json.dumps({"error": msg}).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


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
    app: ASGIApp = AuthMiddleware(create_app(service), policy)
    if policy.origins:
        app = CORSMiddleware(
            app,
            allow_origins=sorted(policy.origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=["authorization", "content-type", "range", "x-watchword-name"],
            expose_headers=["content-disposition", "retry-after"],
        )
    config = uvicorn.Config(
        DrainMiddleware(app),
        http=JsonProtocol,
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
    add_error_handlers(app)
    _add_page(app)
    add_uploads(app, service)
    _add_jobs(app, service)
    _add_videos(app, service)
    add_editing(app, service)
    _add_files(app, service)
    add_export(app, service)
    _answer_head(app)
    return app


def _answer_head(app: FastAPI) -> None:
    """HEAD wherever GET is, but for event streams. It is not in the schema, which is made before."""
    app.openapi()
    for route in app.routes:
        if isinstance(route, APIRoute) and not route.path.endswith("/events"):
            route.methods = {*(route.methods or ()), *({"HEAD"} if "GET" in (route.methods or ()) else ())}


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

    @app.get("/healthz", tags=["server"], responses=errors(503))
    def health() -> Health:
        """Whether videos are captioned and the library can be read; it needs no token."""
        service.storage.library.count()
        if not service.is_healthy:
            raise HTTPException(503, "the server is stopping, or captions no more videos: start it again")
        return Health(status="ok")

    @app.get("/api/about", tags=["server"])
    def about() -> About:
        """The server, its captioner and its limits."""
        return About(
            version=watchword.__version__,
            captioner=service.info.captioner,
            hint=service.info.hint,
            captioners=list(service.info.captioners),
            unsure_below=UNSURE,
            limits=service.limits,
            semantic_search=service.info.semantic_search,
        )

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
        service.cancel(job_of(job))
        return JobAnswer.of(job_of(job))

    @app.get(
        "/api/jobs/{job}/events",
        tags=["jobs"],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}, **errors(404)},
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


def _add_videos(app: FastAPI, service: Service) -> None:
    storage, library = service.storage, service.storage.library

    @app.get("/api/videos", tags=["videos"])
    def list_videos(
        limit: Limit = 50,
        offset: Offset = 0,
        sort: Sort = "added",
        descending: bool = True,
        name: Annotated[str, Query(max_length=200, description="A part of the name.")] = "",
        unsure: Annotated[bool, Query(description="Only videos whose caption is a guess.")] = False,
        edited: Annotated[bool, Query(description="Only videos with a caption that a person wrote.")] = False,
        captioner: Annotated[str, Query(max_length=200)] = "",
    ) -> VideoList:
        """The videos of the library, from uploads and from `watchword library add`."""
        listing = Listing(sort, descending, name, UNSURE if unsure else None, edited, captioner)
        rows = library.videos(listing, limit=limit, offset=offset)
        return VideoList(videos=[VideoSummary.of(row) for row in rows], total=library.count(listing))

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
        if seconds is None:
            seconds = storage.library.key_seconds(video)
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
        """A small frame of what the caption of the video says."""
        return frame_of(video, None, THUMBNAIL)

    @app.get("/api/videos/{video}/frame", tags=["files"], response_class=Response, responses=a_frame)
    def frame(video: Number, seconds: Seconds, small: bool = False) -> Response:
        """The frame at a time, for videos that a browser cannot play; `small` for lists."""
        return frame_of(video, seconds, THUMBNAIL if small else FRAME)

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
