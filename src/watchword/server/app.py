"""The endpoints: thin, what they do is done by others."""

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
from starlette.exceptions import HTTPException as PlainHTTPException
from starlette.requests import ClientDisconnect
from starlette.staticfiles import StaticFiles

import watchword
from watchword.captioning.writers import WRITERS
from watchword.errors import WatchwordError
from watchword.library import FilmRow
from watchword.server.api_docs import as_page
from watchword.server.auth import Door, Guard
from watchword.server.jobs import Job, QueueFull
from watchword.server.probe_pool import Busy
from watchword.server.schemas import (
    About,
    FilmAnswer,
    FilmInList,
    FilmList,
    HitAnswer,
    HitList,
    JobAnswer,
    JobList,
    JobMade,
    problems,
)
from watchword.server.service import NotAFilm, Service
from watchword.server.storage import TYPES
from watchword.server.uploads import DiskFull, Stalled, TooLarge, clean_name

PAGE = Path(__file__).parent / "static"
RETRY_SECONDS = 10
EVENT_SECONDS = 0.25           # how often a job is looked at for those who listen
HEARTBEAT_SECONDS = 15.0
THUMBNAIL = (320, 240)         # pixels, at most
FRAME = (960, 720)

# Download -> the writer's format, and what a browser is told.
DOWNLOADS = {
    "descriptions.vtt": ("vtt", "text/vtt"),
    "chapters.vtt": ("chapters", "text/vtt"),
    "subtitles.srt": ("srt", "application/x-subrip"),
    "description.json": ("json", "application/json"),
    "description.csv": ("csv", "text/csv"),
    "description.txt": ("text", "text/plain"),
}
STATUSES: dict[type[Exception], int] = {
    Stalled: 408, TooLarge: 413, NotAFilm: 422, QueueFull: 429, Busy: 503, DiskFull: 507,
}  # fmt: skip

Number = Annotated[int, InPath(ge=1, le=2**62, description="The film's number.")]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Seconds = Annotated[float, Query(ge=0, le=1e7, allow_inf_nan=False)]


class WebServer(uvicorn.Server):
    """Ends at once and quietly: who listens to a job hears no more, uploads are broken off."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.service.leaving.set()
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # it would tell of every connection that is cut
        await super().shutdown(sockets)


def web_server(service: Service, door: Door) -> WebServer:
    """To be run while `service` is entered; the guard stands before everything, also before answers to bugs."""
    config = uvicorn.Config(
        Guard(create_app(service), door), http="h11", ws="none", lifespan="off", access_log=False, log_level="warning",
        server_header=False, proxy_headers=False, limit_concurrency=512, timeout_graceful_shutdown=2,
    )  # fmt: skip
    return WebServer(config, service)


def create_app(service: Service) -> FastAPI:
    app = FastAPI(
        title="Watchword", version=watchword.__version__, openapi_url="/api/openapi.json", docs_url=None,
        redoc_url=None, summary="Describes films, keeps what it said, finds it again.", responses=problems(422),
    )  # fmt: skip
    _answer_problems(app)
    _add_page(app)
    _add_jobs(app, service)
    _add_films(app, service)
    _add_files(app, service)
    return app


# --- problems ------------------------------------------------------------------------------------------------------


def _answer_problems(app: FastAPI) -> None:
    @app.exception_handler(PlainHTTPException)
    async def known(request: Request, error: PlainHTTPException) -> Response:
        return JSONResponse({"error": str(error.detail)}, error.status_code, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"][1:])
        return _problem(422, f"{where}: {first['msg']}")

    @app.exception_handler(WatchwordError)
    async def told(request: Request, error: WatchwordError) -> Response:
        return _problem(STATUSES.get(type(error), 500), str(error))

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=400)  # nobody reads it

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": "this is a bug of watchword: the server's terminal shows it"}, 500)


def _problem(status: int, line: str) -> Response:
    """At once. uvicorn reads on what a refused client still sends, and forgets it: a cut would lose the answer too."""
    retry, close = {"retry-after": str(RETRY_SECONDS)}, {"connection": "close"}
    return JSONResponse({"error": line}, status, {429: retry, 503: retry, 408: close}.get(status))


# --- the page ------------------------------------------------------------------------------------------------------


def _add_page(app: FastAPI) -> None:
    @app.get("/", include_in_schema=False)
    def front() -> Response:
        return FileResponse(PAGE / "index.html", headers={"cache-control": "no-cache"})

    @app.get("/api/docs", include_in_schema=False)
    def reference() -> Response:
        return HTMLResponse(as_page(app.openapi()))

    app.mount("/static", Page(directory=PAGE, check_dir=False))


class Page(StaticFiles):
    """Asked for anew every time, and answered with 304 where nothing changed."""

    def file_response(self, *arguments: Any, **named: Any) -> Response:
        answer = super().file_response(*arguments, **named)
        answer.headers["cache-control"] = "no-cache"
        return answer


# --- jobs ----------------------------------------------------------------------------------------------------------


def _add_jobs(app: FastAPI, service: Service) -> None:
    jobs = service.shelf.jobs

    def job_of(job: str) -> Job:
        found = jobs.find(job)
        if found is None:
            raise HTTPException(404, "no such job: it may be long done")
        return found

    @app.get("/api/about", tags=["server"])
    def about() -> About:
        """What this server is, and how much it takes."""
        return About(
            version=watchword.__version__, captioner=service.who.captioner, hint=service.who.hint,
            limits=service.limits, meaning=service.who.meaning,
        )  # fmt: skip

    body = {"required": True, "content": {"application/octet-stream": {"schema": {"format": "binary"}}}}

    @app.post(
        "/api/films", status_code=202, tags=["films"], responses=problems(400, 408, 413, 422, 429, 503, 507),
        openapi_extra={"requestBody": body},
    )  # fmt: skip
    async def add_film(
        request: Request,
        x_watchword_name: Annotated[str, Header(min_length=1, description="The film's name, percent-encoded UTF-8.")],
    ) -> JobMade:
        """Has a film described: the body is the file as it is. Answers when it is seen to be a film, and waits."""
        job = await service.take(request, clean_name(x_watchword_name))
        return JobMade(job=job.id)

    @app.get("/api/jobs", tags=["jobs"])
    def list_jobs() -> JobList:
        """What waits, what is being described, and what became of the last ones."""
        return JobList(jobs=[JobAnswer.of(job) for job in jobs.all()])

    @app.get("/api/jobs/{job}", tags=["jobs"], responses=problems(404))
    def show_job(job: str) -> JobAnswer:
        """How far a film is."""
        return JobAnswer.of(job_of(job))

    @app.delete("/api/jobs/{job}", tags=["jobs"], responses=problems(404))
    def cancel_job(job: str) -> JobAnswer:
        """Stops describing a film and forgets the upload; what is done already stays as it is."""
        service.worker.cancel(job_of(job))
        return JobAnswer.of(job_of(job))

    @app.get(
        "/api/jobs/{job}/events", tags=["jobs"], response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}, **problems(404)},
    )  # fmt: skip
    def follow_job(job: str) -> StreamingResponse:
        """The job as server-sent events whenever it changes, until it is done, failed or cancelled."""
        job_of(job)
        return StreamingResponse(_events(service, job), media_type="text/event-stream")


async def _events(service: Service, job: str) -> AsyncIterator[str]:
    said, silent = "", 0.0
    while not service.leaving.is_set():
        found = service.shelf.jobs.find(job)
        if found is None:
            return
        line = JobAnswer.of(found).model_dump_json()
        if line != said:
            yield f"data: {line}\n\n"
            said, silent = line, 0.0
        elif silent > HEARTBEAT_SECONDS:
            yield ": still here\n\n"
            silent = 0.0
        if found.is_final:
            return
        await asyncio.sleep(EVENT_SECONDS)
        silent += EVENT_SECONDS


# --- films ---------------------------------------------------------------------------------------------------------


def film_of(service: Service, film: int) -> FilmRow:
    row = service.shelf.library.film(film)
    if row is None:
        raise HTTPException(404, f"no film {film}: it may have been deleted")
    return row


def _add_films(app: FastAPI, service: Service) -> None:
    shelf, library = service.shelf, service.shelf.library

    @app.get("/api/films", tags=["films"])
    def list_films(limit: Limit = 50, offset: Offset = 0) -> FilmList:
        """All films that were described, from this page or by `watchword library add`."""
        rows = library.films(limit=limit, offset=offset)
        return FilmList(films=[FilmInList.of(row) for row in rows], total=library.count())

    @app.get("/api/films/{film}", tags=["films"], responses=problems(404))
    def show_film(film: Number) -> FilmAnswer:
        """What was said about a film, shot by shot."""
        row = film_of(service, film)
        return FilmAnswer.of(row, shelf.description(row), shelf.film_file(row) is not None)

    @app.get("/api/films/{film}/evidence", tags=["films"], response_model=dict[str, Any], responses=problems(404))
    def show_evidence(film: Number) -> Response:
        """For each word when and where it looked; docs/reference/explain.schema.json says what is in it."""
        film_of(service, film)
        evidence = library.evidence(film)
        if evidence is None:
            raise HTTPException(404, "nothing is kept of what this film's words looked at")
        return JSONResponse(evidence)

    @app.delete("/api/films/{film}", status_code=204, tags=["films"], responses=problems(404))
    def delete_film(film: Number) -> None:
        """Takes a film out of the library, with its upload and everything that was said about it."""
        film_of(service, film)
        service.remove(film)

    @app.get("/api/search", tags=["search"])
    def search(
        q: Annotated[str, Query(max_length=1000, description='words, beginnings*, "phrases", -without')],
        limit: Limit = 20, offset: Offset = 0, meaning: bool = False,
    ) -> HitList:  # fmt: skip
        """Moments of films that were described so."""
        if meaning and not service.who.meaning:
            raise HTTPException(422, "searching by meaning needs more: watchword weights get minilm, and start again")
        hits = library.search(q, limit=limit, offset=offset, meaning=meaning)
        return HitList(hits=[HitAnswer.of(hit) for hit in hits], total=library.count_hits(q, meaning=meaning))


# --- files ---------------------------------------------------------------------------------------------------------


def _add_files(app: FastAPI, service: Service) -> None:
    shelf = service.shelf

    def file_of(film: int) -> tuple[FilmRow, Path]:
        row = film_of(service, film)
        path = shelf.film_file(row)
        if path is None:
            raise HTTPException(404, "the film itself is not there any more; what was said about it is")
        return row, path

    def picture_of(film: int, seconds: float | None, size: tuple[int, int]) -> Response:
        row, path = file_of(film)
        moment = round(min(row.seconds / 2 if seconds is None else seconds, row.seconds), 2)
        try:
            jpeg = service.picture(path, path.stat().st_mtime_ns, moment, size)
        except (OSError, WatchwordError) as error:
            if isinstance(error, Busy):
                raise
            raise HTTPException(404, "there is no picture of that moment") from error
        return Response(jpeg, media_type="image/jpeg")

    a_film: dict[str, Any] = {"video/*": {}, "image/*": {}, "application/octet-stream": {}}
    a_picture: dict[int | str, dict[str, Any]] = {200: {"content": {"image/jpeg": {}}}, **problems(404, 503)}

    @app.get(
        "/api/films/{film}/video", tags=["files"], response_class=FileResponse,
        responses={200: {"content": a_film}, 206: {"content": a_film}, **problems(404)},
    )  # fmt: skip
    def video(film: Number) -> Response:
        """The film as it came, or a part of it (`Range`)."""
        _, path = file_of(film)
        return FileResponse(path, media_type=TYPES[path.suffix.lower()], headers={"cache-control": "private, no-cache"})

    @app.get("/api/films/{film}/thumbnail", tags=["files"], response_class=Response, responses=a_picture)
    def thumbnail(film: Number) -> Response:
        """A small picture of the middle of the film."""
        return picture_of(film, None, THUMBNAIL)

    @app.get("/api/films/{film}/frame", tags=["files"], response_class=Response, responses=a_picture)
    def frame(film: Number, seconds: Seconds) -> Response:
        """What is on screen at a moment; for films that a browser cannot play."""
        return picture_of(film, seconds, FRAME)

    for name, (form, kind) in DOWNLOADS.items():
        _add_download(app, service, name, form, kind)


def _add_download(app: FastAPI, service: Service, name: str, form: str, kind: str) -> None:
    ending, write = WRITERS[form]

    @app.get(
        f"/api/films/{{film}}/{name}", tags=["files"], response_class=Response, name=name,
        responses={200: {"content": {kind: {} if form == "json" else {"schema": {"type": "string"}}}}, **problems(404)},
        summary=f"What was said about a film, as {form}",
    )  # fmt: skip
    def download(film: Number, download: bool = False) -> Response:
        row = film_of(service, film)
        text = write([service.shelf.description(row)])
        headers = {"content-disposition": attachment(f"{Path(row.name).stem}{ending}")} if download else None
        return Response(text.encode(), media_type=kind, headers=headers)


def attachment(name: str) -> str:
    """A header in which any name is a name: no quote, no line, no folder gets out of it."""
    plain = "".join(char if char.isascii() and (char.isalnum() or char in " ._-()") else "_" for char in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


