"""A small OpenAI-compatible server on this machine whose answers a test chooses, hostile ones among them."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Keeps each request, and passes it to the server's reply function."""

    server: ChatStub

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append((self.path, body, self.headers.get("Authorization", "")))
        with contextlib.suppress(OSError):  # the client left
            self.server.reply(self, body)

    def send(self, raw: bytes, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """A whole answer. Underscores in header names stand for dashes."""
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(raw)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


class ChatStub(ThreadingHTTPServer):
    """A server with its reply function and what it was asked: (path, body, Authorization) of each request."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, reply: Reply) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.reply = reply
        self.lock = threading.Lock()
        self.requests: list[tuple[str, dict[str, Any], str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextlib.contextmanager
def serving(reply: Reply) -> Iterator[ChatStub]:
    server = ChatStub(reply)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def completion(text: Any, finish: str = "stop", read: Any = 100, written: Any = 50) -> bytes:
    """The body of an answer."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    usage = {"prompt_tokens": read, "completion_tokens": written}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": usage}).encode()
