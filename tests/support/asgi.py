"""Asks an ASGI application without a socket, as one client: a request, its answer, or a client that goes away."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PORT, TOKEN = 8765, "t" * 43


@dataclass
class HttpReply:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AsgiClient:
    """`parts`: the body as it arrives; `gone`: an event after which the client has closed its connection."""

    def __init__(self, app: Any, headers: Mapping[str, str] | None = None) -> None:
        self.app = app
        self.headers = {"host": f"127.0.0.1:{PORT}", "authorization": f"Bearer {TOKEN}"} if headers is None else headers

    async def ask(
        self,
        method: str,
        target: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        parts: Sequence[bytes] | None = None,
        gone: asyncio.Event | None = None,
    ) -> HttpReply:
        path, _, query = target.partition("?")
        chunks = list(parts or [b"" if body is None else json.dumps(body).encode()])
        given = {**self.headers, "content-type": "application/json", **(headers or {})}
        if parts is None:
            given = {"content-length": str(len(chunks[0])), **given}
        answer = HttpReply()

        async def receive() -> dict[str, Any]:
            if chunks:
                chunk = chunks.pop(0)
                return {"type": "http.request", "body": chunk, "more_body": bool(chunks)}
            await (gone or asyncio.Event()).wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {name.decode().lower(): value.decode() for name, value in message["headers"]}
            else:
                answer.body += message.get("body", b"")

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 50000),
            "server": ("127.0.0.1", PORT),
        }
        await self.app(scope, receive, send)
        return answer
