"""Errors as responses: a fitting status, and one line."""

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match

from watchword.atomic_io import DiskFull
from watchword.errors import WatchwordError
from watchword.library.edits import TooLong
from watchword.server.jobs import QueueFull
from watchword.server.multipart import BadForm
from watchword.server.probe_pool import Busy
from watchword.server.service import NotAVideo
from watchword.server.storage import Stalled, TooLarge

RETRY_SECONDS = 10
STATUSES: dict[type[Exception], int] = {
    BadForm: 400,
    Stalled: 408,
    TooLarge: 413,
    NotAVideo: 422,
    TooLong: 422,
    QueueFull: 429,
    Busy: 503,
    DiskFull: 507,
}


def add_error_handlers(app: FastAPI) -> None:
    @app.exception_handler(HTTPException)
    async def known(request: Request, error: HTTPException) -> Response:
        headers = {"allow": _allowed(app, request)} if error.status_code == 405 else error.headers
        return JSONResponse({"error": str(error.detail)}, error.status_code, headers)

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


def _allowed(app: FastAPI, request: Request) -> str:
    """All methods of a path; Starlette names those of the first endpoint there alone."""
    routes = [route for route in app.routes if route.matches(request.scope)[0] is not Match.NONE]
    return ", ".join(sorted({method for route in routes for method in getattr(route, "methods", None) or ()}))


def _error(status: int, line: str) -> Response:
    retry, close = {"retry-after": str(RETRY_SECONDS)}, {"connection": "close"}
    return JSONResponse({"error": line}, status, {429: retry, 503: retry, 408: close}.get(status))
