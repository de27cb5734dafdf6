"""Checks of every request before it reaches a route: host, origin, token, size. Pure ASGI: other middleware would hide
from routes that a client has gone."""

from __future__ import annotations

import hashlib
import hmac
import http.cookies
import json
import logging
import time
from dataclasses import dataclass
from urllib.parse import parse_qs

from hipsynth.core.documents import to_json
from hipsynth.core.errors import ErrorDocument
from hipsynth.core.reasons import Reason
from hipsynth.serving.asgi import App, Message, Receive, Send
from hipsynth.serving.limits import BODY_BYTES
from hipsynth.serving.prometheus import RequestMeter

HTTP_PORT = 80  # clients leave it out of a host
OPEN = frozenset({"/healthz"})  # needs no token
HEADERS = (
    (b"content-security-policy", b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
     b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)  # fmt: skip
log = logging.getLogger("hipsynth.access")


class BodyTooLarge(Exception):
    """The body is longer than BODY_BYTES."""


@dataclass
class Refusal(Exception):
    """An answer that is given in place of the route's."""

    status: int
    error: Reason
    message: str
    remedy: str = ""


TOO_LARGE = Refusal(413, Reason.TOO_LARGE, f"a request may have {BODY_BYTES >> 20} MiB", "send less")


class Guard:
    """Middleware. `port` is part of the origin, and of the cookie's name: cookies do not tell ports apart."""

    def __init__(self, app: App, token: str, port: int, meter: RequestMeter) -> None:
        self.app, self.token, self.port, self.meter = app, token, port, meter
        names = ("127.0.0.1", "localhost", "[::1]")
        self.hosts = {f"{name}:{port}" for name in names} | (set(names) if port == HTTP_PORT else set())
        self.cookie = f"hipsynth-{port}"
        # The cookie is no token: what a browser tells other servers of this machine opens no API elsewhere.
        self.session = hmac.new(token.encode(), b"session of the workbench", hashlib.sha256).hexdigest()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start, status, size, begun = time.monotonic(), 0, 0, False

        async def receive_limited() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > BODY_BYTES:
                raise BodyTooLarge
            return message

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if size > BODY_BYTES and not begun:
                return  # the route's view of a body that was cut
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS]
            await send(message)

        try:
            await self._answer_guarded(scope, receive_limited, send_with_headers)
            if size > BODY_BYTES and not status:
                begun = True
                await _send_refusal(send_with_headers, TOO_LARGE)
        finally:
            took = time.monotonic() - start
            self.meter.count_answer(scope, status, took)
            # The path alone: a query may hold the token, a body holds somebody's source.
            log.info(
                "%s %r %s %.1f ms %d bytes", scope["method"], scope["path"][:100], status or 499, 1000 * took, size
            )

    async def _answer_guarded(self, scope: Message, receive: Receive, send: Send) -> None:
        try:
            headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
            self._check_place(scope, headers)
            if await self._enter_by_link(scope, send):
                return
            self._check_token(scope, headers)
            length = headers.get("content-length", "0")
            if not length.isdecimal() or int(length) > BODY_BYTES:
                raise TOO_LARGE
            scope["headers"] = _as_json(scope["headers"])
            await self.app(scope, receive, send)
        except Refusal as refusal:
            await _send_refusal(send, refusal)

    def _check_place(self, scope: Message, headers: dict[str, str]) -> None:
        """Another site's page, also one whose name was made to lead here (DNS rebinding), is refused."""
        if headers.get("host", "").lower() not in self.hosts:
            raise Refusal(400, Reason.BAD_HOST, "the request names another host", f"use http://127.0.0.1:{self.port}")
        origin = headers.get("origin")
        if origin is not None and origin.lower() not in {f"http://{host}" for host in self.hosts}:
            raise Refusal(403, Reason.BAD_ORIGIN, "a page of another site may not call this server")
        followed = scope["method"] == "GET" and headers.get("sec-fetch-mode") == "navigate"
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not followed:
            raise Refusal(403, Reason.BAD_ORIGIN, "a page of another site may not call this server")

    async def _enter_by_link(self, scope: Message, send: Send) -> bool:
        """The printed link holds the token: it becomes a cookie and leaves the address bar."""
        tokens = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if scope["path"] != "/" or scope["method"] != "GET" or not tokens:
            return False
        if not hmac.compare_digest(tokens[0].encode(), self.token.encode()):
            raise Refusal(401, Reason.BAD_TOKEN, "the token is wrong or of an older server", "open the newest link")
        cookie = f"{self.cookie}={self.session}; HttpOnly; SameSite=Lax; Path=/"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return True

    def _check_token(self, scope: Message, headers: dict[str, str]) -> None:
        if scope["path"] in OPEN:
            return
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), self.token.encode()):
            return
        cookies: http.cookies.SimpleCookie = http.cookies.SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except http.cookies.CookieError:
            cookies.clear()
        cookie_value = cookies[self.cookie].value if self.cookie in cookies else ""
        if not kind and hmac.compare_digest(cookie_value.encode(), self.session.encode()):
            return
        remedy = "send `Authorization: Bearer TOKEN`, or open the link that `synth serve` printed"
        raise Refusal(401, Reason.BAD_TOKEN, "the token is missing, wrong, or of an older server", remedy)


def _as_json(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Every body is JSON, also where a client (curl -d) says otherwise; what a page may send, its origin decides."""
    other_headers = [(name, value) for name, value in headers if name.lower() != b"content-type"]
    return [*other_headers, (b"content-type", b"application/json")]


async def _send_refusal(send: Send, refusal: Refusal) -> None:
    words = to_json(ErrorDocument(refusal.error, refusal.message, "", refusal.remedy, ""))
    text = json.dumps(words).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": text})
