"""A client for OpenAI-compatible chat endpoints that trusts nothing: time, size and form of answers are checked.

Redirects are not followed, so the key goes to the given host only.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol

from hipsynth.core.errors import HipsynthError, MissingDependency, UsageError
from hipsynth.core.reasons import Reason

MOST_BYTES = 1 << 20  # of an answer's body: 250,000 tokens
MOST_WAIT_S = 300.0  # of Retry-After
_SHOWN = 300  # characters of a body in messages
_BUSY = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})  # worth asking again
_HOPELESS = {
    401: "set the key with --api-key-env",
    403: "check the key's rights",
    404: "check --url and --model: the path below --url is /chat/completions",
    405: "check --url",
}


class NoAnswer(HipsynthError):
    """A request failed. `again`: asking again may help, after `wait_s` seconds; `hopeless`: no request can succeed.

    `code`: as which it is counted: the reason, or "http_" and the status that says failure."""

    def __init__(
        self,
        reason: Reason,
        what: str,
        *,
        again: bool = False,
        wait_s: float = 0.0,
        hopeless: bool = False,
        remedy: str = "",
        status: int = 0,
    ) -> None:
        super().__init__(what, remedy=remedy, reason=reason)
        self.code = f"http_{status}" if status else str(reason)
        self.again, self.wait_s, self.hopeless = again, wait_s, hopeless


class EndpointFailed(MissingDependency):
    """The endpoint cannot be used at all (exit 4)."""

    reason = Reason.ENDPOINT_FAILED


@dataclass(frozen=True)
class ToolCall:
    """A tool call as the model wrote it: `arguments` should be JSON, `name` a tool; "" where it wrote no text."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True)
class ChatReply:
    """A model's answer: its text, why it ended, the tokens read and written (None if not stated), and the raw body.

    `calls`: of tools, if any were offered; the text may be empty then.
    """

    text: str
    finish: str
    model: str
    read: int | None
    written: int | None
    raw: str
    calls: tuple[ToolCall, ...] = ()


class ChatClient(Protocol):
    """Whatever answers chats."""

    def ask(self, body: Mapping[str, object]) -> ChatReply:
        """The answer to one chat. Raises NoAnswer."""
        ...


class Client:
    """Posts chats to URL/chat/completions. Threads may share it; `close` ends their open requests."""

    def __init__(self, url: str, key: str = "", timeout_s: float = 120.0) -> None:
        problem, remedy = "no address of a server of models", "give for example http://127.0.0.1:8080/v1"
        try:
            parts = urllib.parse.urlsplit(url)
            self.port = parts.port
        except ValueError as error:
            raise UsageError(problem, cause=str(error), remedy=remedy) from None
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
            cause = "not http or https with a host, or it holds a user or a query"
            raise UsageError(problem, cause=cause, remedy=remedy)
        if not key.isascii() or not key.isprintable():
            raise UsageError("the API key holds characters that no HTTP header may have", remedy="check the variable")
        self.parts, self.key, self.timeout_s = parts, key, timeout_s
        self.path = parts.path.rstrip("/").removesuffix("/chat/completions") + "/chat/completions"
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()

    def ask(self, body: Mapping[str, object]) -> ChatReply:
        """The answer to one chat. Raises NoAnswer; every failure of server or network is one."""
        try:
            with self._open_connection() as connection:
                connection.request("POST", self.path, json.dumps(body).encode(), self._request_headers())
                response = connection.getresponse()
                status, headers, raw = response.status, response.headers, response.read(MOST_BYTES + 1)
                if response.length and len(raw) <= MOST_BYTES:
                    raise http.client.IncompleteRead(raw, response.length)
        except TimeoutError:
            raise self._late_answer() from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(Reason.UNREACHABLE, self._clean(f"{type(error).__name__}: {error}"), again=True) from None
        if status != 200:
            raise self._make_refusal(status, headers, raw)
        return read_answer(raw, headers.get("Content-Type", ""), headers.get("Content-Encoding", "identity"))

    def close(self) -> None:
        """Ends all open requests: they fail as unreachable."""
        with self._lock:
            for socket in self._open:
                _shut_socket(socket)

    def _request_headers(self) -> dict[str, str]:
        fixed = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        return fixed | ({"Authorization": f"Bearer {self.key}"} if self.key else {})

    @contextlib.contextmanager
    def _open_connection(self) -> Iterator[http.client.HTTPConnection]:
        """A connection that is shut after `timeout_s`, however slowly bytes arrive; then TimeoutError."""
        connection = self._make_connection()
        late = threading.Event()
        try:
            connection.connect()
            socket = connection.sock

            def shut() -> None:
                late.set()
                _shut_socket(socket)

            timer = threading.Timer(self.timeout_s, shut)
            timer.daemon = True
            with self._lock:
                self._open.add(socket)
            timer.start()
            try:
                yield connection
            finally:
                timer.cancel()
                with self._lock:
                    self._open.discard(socket)
        except (OSError, http.client.HTTPException, ValueError) as error:
            if late.is_set():
                raise TimeoutError from error
            raise
        finally:
            connection.close()
        if late.is_set():  # a body without a length ends like a whole one
            raise TimeoutError

    def _make_connection(self) -> http.client.HTTPConnection:
        host, port = str(self.parts.hostname), self.port
        if self.parts.scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=self.timeout_s)
        context = ssl.create_default_context()
        proxy = urllib.request.getproxies().get("https")
        if not proxy or urllib.request.proxy_bypass(host):
            return http.client.HTTPSConnection(host, port, timeout=self.timeout_s, context=context)
        through = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        connection = http.client.HTTPSConnection(
            str(through.hostname), through.port, timeout=self.timeout_s, context=context
        )
        connection.set_tunnel(host, port, _proxy_headers(through))
        return connection

    def _late_answer(self) -> NoAnswer:
        return NoAnswer(
            Reason.TIMEOUT, f"no whole answer within {self.timeout_s:g} s", again=True, remedy="raise --wait"
        )

    def _make_refusal(self, status: int, headers: http.client.HTTPMessage, raw: bytes) -> NoAnswer:
        words = " ".join(raw[: 4 * _SHOWN].decode(errors="replace").split())
        problem = self._clean(f"HTTP {status}: {words}"[:_SHOWN])
        if 300 <= status < 400:
            place = headers.get("Location", "another place")
            return NoAnswer(
                Reason.REDIRECTED, f"{problem} to {place[:_SHOWN]}", hopeless=True, remedy="give that --url"
            )
        return NoAnswer(
            Reason.RATE_LIMITED if status == 429 else Reason.HTTP_FAILED,
            problem,
            again=status in _BUSY,
            wait_s=_parse_retry_after(headers.get("Retry-After", "")),
            hopeless=status in _HOPELESS,
            remedy=_HOPELESS.get(status, ""),
            status=0 if status == 429 else status,
        )

    def _clean(self, text: str) -> str:
        return text.replace(self.key, "***") if self.key else text


def _proxy_headers(proxy: urllib.parse.SplitResult) -> dict[str, str]:
    """What tells a proxy the user and password of its address."""
    if not proxy.username:
        return {}
    words = (urllib.parse.unquote(text) for text in (proxy.username, proxy.password or ""))
    return {"Proxy-Authorization": "Basic " + base64.b64encode(":".join(words).encode()).decode()}


def _shut_socket(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)


def _parse_retry_after(text: str) -> float:
    """Retry-After, which is in seconds or a date, in seconds from now; 0 if it is neither, at most MOST_WAIT_S."""
    try:
        wait = (
            float(text)
            if text.isascii() and text.isdecimal()
            else parsedate_to_datetime(text).timestamp() - time.time()
        )
    except (ValueError, OverflowError):
        return 0.0
    return min(max(wait, 0.0), MOST_WAIT_S)


def read_answer(raw: bytes, kind: str = "", encoding: str = "identity") -> ChatReply:
    """The answer in a body with this Content-Type and Content-Encoding. Raises NoAnswer for anything else."""
    if len(raw) > MOST_BYTES:
        raise NoAnswer(Reason.TOO_LARGE, f"the answer has more than {MOST_BYTES} bytes")
    if encoding not in ("", "identity"):
        raise NoAnswer(Reason.BAD_ENCODING, f"the answer is encoded as {encoding[:40]!r}, which was not asked for")
    if kind.startswith("text/event-stream") or raw[:5] == b"data:":
        raise NoAnswer(Reason.STREAMED, "the server streams although `stream` is false")
    try:
        document = json.loads(raw.decode())
    except UnicodeDecodeError as error:
        raise NoAnswer(Reason.BAD_ENCODING, f"the answer is not UTF-8: {error}") from None
    except (ValueError, RecursionError) as error:
        raise NoAnswer(Reason.BAD_JSON, f"the answer is not JSON: {str(error)[:_SHOWN]}") from None
    try:
        choice = document["choices"][0]
        calls = _parse_calls(choice["message"].get("tool_calls"))
        text = (choice["message"].get("content") or "") if calls else choice["message"]["content"]
        if not isinstance(text, str):
            raise TypeError
        text.encode()  # half a surrogate pair cannot be stored
    except (LookupError, TypeError, AttributeError, UnicodeEncodeError):
        raise NoAnswer(Reason.NO_TEXT, "the answer lacks the text choices[0].message.content") from None
    usage = document.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    finish, model = choice.get("finish_reason"), document.get("model")
    return ChatReply(
        text,
        finish if isinstance(finish, str) else "",
        model if isinstance(model, str) else "",
        _parse_count(usage.get("prompt_tokens")),
        _parse_count(usage.get("completion_tokens")),
        raw.decode(),
        calls,
    )


def _parse_calls(entries: object) -> tuple[ToolCall, ...]:
    """Tool calls, whatever their form: what is no text becomes "", which no tool is called."""
    calls = []
    for call in entries if isinstance(entries, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        arguments = json.dumps(arguments) if isinstance(arguments, dict) else arguments
        fields = (call.get("id") if isinstance(call, dict) else "", function.get("name"), arguments)
        id_, name, text = (_clean_text(value) for value in fields)
        calls.append(ToolCall(id_, name, text))
    return tuple(calls)


def _clean_text(value: object) -> str:
    return value.encode(errors="replace").decode() if isinstance(value, str) else ""


def _parse_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 40 else None
