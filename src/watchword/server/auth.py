"""Who may ask, and what a browser may do with the answer.

A page of a stranger, open in the same browser, must not read or change anything here: a name that is bound to our
address (DNS rebinding) fails by its `Host`, a request from another page by its `Origin` or `Sec-Fetch-Site`. Whoever is
not on this machine needs the token.
"""

import hmac
import ipaddress
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]/@?#\s]+)(?::\d{1,5})?")
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
class Door:
    """Whom to let in."""

    names: frozenset[str]     # hosts by name, small letters
    any_address: bool         # hosts by number too: a stranger's page has a name
    token: str | None
    cookie: str = "watchword"

    @classmethod
    def of(cls, host: str, port: int, names: Iterable[str], token: str) -> "Door":
        """On loopback, without other names, whoever is on this machine may come in; elsewhere a token is needed."""
        others = frozenset(name.lower().rstrip(".") for name in names)
        cookie = f"watchword_{port}"  # browsers send cookies to all ports of a host
        if is_loopback(host) and not others:
            return cls(frozenset({"localhost"}), False, None, cookie)
        ours = {"localhost", host.lower(), socket.gethostname().lower(), f"{socket.gethostname().lower()}.local"}
        return cls(others | ours, True, token, cookie)

    def knows_host(self, header: str) -> bool:
        found = HOST.fullmatch(header)
        if found is None:
            return False
        name = found[1].strip("[]").lower().rstrip(".")
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return name in self.names
        return self.any_address or address.is_loopback

    def is_token(self, word: str | None) -> bool:
        return self.token is None or (word is not None and hmac.compare_digest(word.encode(), self.token.encode()))


def is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """In front of everything."""

    def __init__(self, app: ASGIApp, door: Door) -> None:
        self.app, self.door = app, door

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        app = self._refusal(scope) or self.app
        await app(scope, receive, send_guarded)

    def _refusal(self, scope: Scope) -> Response | None:
        """What to answer to those who may not come in."""
        headers = Headers(scope=scope)
        hosts = headers.getlist("host")
        if scope["type"] != "http" or len(hosts) != 1 or not self.door.knows_host(hosts[0]):
            line = "this server is not known by that name: open the address that watchword serve printed (--allow-host)"
            return _refused(421, line)
        is_front = scope["path"] == "/" and scope["method"] in {"GET", "HEAD"}
        origins, site = headers.getlist("origin"), headers.get("sec-fetch-site", "none")
        is_visit = is_front and headers.get("sec-fetch-mode") == "navigate"  # a link to us
        is_ours = not origins or origins in ([f"http://{hosts[0]}"], [f"https://{hosts[0]}"])
        if not is_ours or (site not in {"same-origin", "none"} and not is_visit):
            return _refused(403, "pages of other origins may not use this server")
        if self.door.token is None:
            return None
        return self._without_token(scope, headers, is_front)

    def _without_token(self, scope: Scope, headers: Headers, is_front: bool) -> Response | None:
        words = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(words).get("token") if is_front else None
        if given is not None and self.door.is_token(given):
            rest = urlencode([(name, value) for name, value in words if name != "token"])
            welcome = RedirectResponse(f"/?{rest}" if rest else "/", 303)  # out of the address, which people share
            welcome.set_cookie(self.door.cookie, given, 30 * 24 * 3600, httponly=True, samesite="strict")
            return welcome
        kind, _, word = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and self.door.is_token(word.strip()):
            return None
        if self.door.is_token(cookie_parser(headers.get("cookie", "")).get(self.door.cookie)):
            return None
        line = "this server asks for its token: open the address with ?token=... that watchword serve printed"
        answer = _refused(401, line)
        answer.headers["www-authenticate"] = "Bearer"
        return answer


def _refused(status: int, line: str) -> Response:
    return JSONResponse({"error": line}, status)
