"""Refused uploads: the response is sent at once, and the rest of the request is read and dropped.

A connection that is closed while its client still sends is reset, and the client loses the response. uvicorn closes it
five seconds after a complete response. So the response stays incomplete, by an empty last piece, until all is read.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

SILENT_SECONDS = 30.0  # without data, then the connection is closed
DRAIN_SECONDS = 900.0  # in all


class DrainMiddleware:
    """Runs around everything that may refuse a request."""

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
