"""Errors as responses: a fitting status and one line, which reach a client that still sends."""

import asyncio

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watchword.atomic_io import DiskFull
from watchword.errors import WatchwordError
from watchword.library.edits import TooLong
from watchword.server.jobs import QueueFull
from watchword.server.multipart import BadForm
from watchword.server.probe_pool import Busy
from watchword.server.service import NotAVideo
from watchword.server.storage import Stalled, TooLarge

RETRY_SECONDS = 10
SILENT_SECONDS = 30.0  # without data, then the connection is closed
DRAIN_SECONDS = 900.0  # in all
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


class DrainMiddleware:
    """Sends a refusal of an upload at once, then reads and drops the rest of the request.

    A connection that is closed while its client still sends is reset, and the client loses the response. uvicorn closes
    it five seconds after a complete response. So the response stays incomplete, by an empty last piece, until all is
    read. Runs around everything that may refuse a request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else {}
        has_body = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        if not has_body or "expect" in headers:  # a client that asks first sends nothing after a refusal
            await self.app(scope, receive, send)
            return
        is_read = is_refusal = False

        async def receive_noted() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        async def send_drained(message: Message) -> None:
            nonlocal is_refusal
            if message["type"] == "http.response.start":
                says_close = MutableHeaders(scope=message).get("connection") == "close"
                is_refusal = message["status"] >= 400 and not says_close
            elif is_refusal and not message.get("more_body", False) and not is_read:
                await send({**message, "more_body": True})
                await drain(receive)
                message = {"type": "http.response.body", "body": b""}
            await send(message)

        await self.app(scope, receive_noted, send_drained)


async def drain(receive: Receive) -> None:
    """Until the request ends, the client goes, or time is over."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            while True:
                async with asyncio.timeout(SILENT_SECONDS):
                    message = await receive()
                if not message.get("more_body", False):  # nor has a disconnect more
                    return
    except TimeoutError:
        return
