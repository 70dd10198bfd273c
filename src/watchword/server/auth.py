"""Access to the server, and the security headers of its responses.

A foreign page in the same browser must not read or change anything: DNS rebinding fails by the `Host` header, requests
from other pages fail by `Origin` or `Sec-Fetch-Site`, but for origins that the operator has named. Clients on other
machines need the token.
"""

import hmac
import ipaddress
import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from watchword.errors import WatchwordError

HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@?#\s]+)(?::\d{1,5})?")
ORIGIN = re.compile(r"https?://(\[[0-9a-f:.]+\]|[a-z0-9.-]+)(:\d{1,5})?")
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; media-src 'self' blob:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclass(frozen=True)
class AccessPolicy:
    """Which requests are accepted."""

    names: frozenset[str]  # host names, lower case
    any_address: bool  # IP addresses as hosts too: a foreign page has a name
    token: str | None
    cookie: str = "watchword"
    origins: frozenset[str] = frozenset()  # of other pages that may use the API (CORS)

    @classmethod
    def of(cls, host: str, port: int, names: Iterable[str], token: str, origins: Iterable[str] = ()) -> "AccessPolicy":
        """No token on loopback without other names; a token for everything else."""
        allowed = frozenset(map(checked_origin, origins))
        others = frozenset(name.lower().rstrip(".") for name in names)
        cookie = f"watchword_{port}"  # browsers send cookies to all ports of a host
        if is_loopback(host) and not others:
            return cls(frozenset({"localhost"}), False, None, cookie, allowed)
        ours = {"localhost", host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
        return cls(others | ours, True, token, cookie, allowed)

    def accepts_host(self, header: str) -> bool:
        found = HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].strip("[]").lower().rstrip(".")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return self.any_address or address.is_loopback

    def accepts(self, word: str | None) -> bool:
        return self.token is None or (word is not None and hmac.compare_digest(word.encode(), self.token.encode()))


def checked_origin(origin: str) -> str:
    """An origin as browsers send it; anything else would never match."""
    if not ORIGIN.fullmatch(origin):
        raise WatchwordError(f"{origin!r} is no origin: write it as https://app.example or http://localhost:3000")
    return origin


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class AuthMiddleware:
    """Runs before every endpoint."""

    def __init__(self, app: ASGIApp, policy: AccessPolicy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        plain = False  # an error that Starlette reports as plain text: a bad range of a file

        async def send_guarded(message: Message) -> None:
            nonlocal plain
            if message["type"] == "http.response.body" and plain:
                line = message.get("body", b"").decode("utf-8", "replace") or "the file does not have this range"
                message = {**message, "body": json.dumps({"error": line}).encode()}
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                plain = message["status"] >= 400 and headers.get("content-type", "").startswith("text/plain")
                if plain:
                    headers["content-type"] = "application/json"
                    del headers["content-length"]  # the body is sent in pieces, until the connection says its end
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self._refusal(scope) or self.app
        await app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """The response to a request that is not accepted."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if scope["type"] != "http" or len(hosts) != 1 or not self.policy.accepts_host(hosts[0]):
            line = (
                "unknown host name: open the address that watchword serve printed, or start it with --allow-host NAME"
            )
            return _refused(421, line)
        is_front = scope["path"] == "/" and scope["method"] in {"GET", "HEAD"}
        origins, site = headers.getlist("origin"), headers.get("sec-fetch-site", "none")
        is_visit = is_front and headers.get("sec-fetch-mode") == "navigate"  # a link to this server
        is_ours = not origins or origins in ([f"http://{hosts[0]}"], [f"https://{hosts[0]}"])
        is_allowed = len(origins) == 1 and origins[0] in self.policy.origins
        if not is_allowed and (not is_ours or (site not in {"same-origin", "none"} and not is_visit)):
            return _refused(403, "pages of other origins may not use this server: start it with --allow-origin ORIGIN")
        if self.policy.token is None or scope["path"] == "/healthz":
            return None
        return self._without_token(scope, headers, is_front)

    def _without_token(self, scope: Scope, headers: Headers, is_front: bool) -> Response | None:
        words = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(words).get("token") if is_front else None
        if given is not None and self.policy.accepts(given):
            rest = urlencode([(name, value) for name, value in words if name != "token"])
            welcome = RedirectResponse(f"/?{rest}" if rest else "/", 303)  # out of the address, which may be shared
            welcome.set_cookie(self.policy.cookie, given, 30 * 24 * 3600, httponly=True, samesite="strict")
            return welcome
        kind, _, word = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.policy.accepts(word.strip()):
            return None
        if self.policy.accepts(cookie_parser(headers.get("cookie", "")).get(self.policy.cookie)):
            return None
        line = "this server needs its token: open the address with ?token=... that watchword serve printed"
        answer = _refused(401, line)
        answer.headers["www-authenticate"] = "Bearer"
        return answer


def _refused(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)
