"""Connections over real sockets: clients that send slowly, or read nothing, keep nobody else from being answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import uvicorn
from asgi import PORT, TOKEN
from test_server import BODY, ServerBench, document, run

from hipsynth.serving import connections
from hipsynth.serving.connections import ClientTurn, configure_server
from hipsynth.serving.limits import CONNECTIONS

HEAD = f"Host: 127.0.0.1:{PORT}\r\n"
HALF_SENT = f"POST /v1/predict HTTP/1.1\r\n{HEAD}X-a: ".encode()
HEALTH = f"GET /healthz HTTP/1.1\r\n{HEAD}\r\n".encode()
AUTHORIZED = f"Authorization: Bearer {TOKEN}\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def prediction(body: bytes = json.dumps(BODY).encode(), token: str = AUTHORIZED, length: int = 0) -> bytes:
    """A request for a prediction; `length` declares more bytes than there are."""
    head = f"POST /v1/predict HTTP/1.1\r\n{HEAD}{token}Content-Length: {length or len(body)}\r\n\r\n"
    return head.encode() + body


@contextlib.asynccontextmanager
async def listening(app: Any, most: int = CONNECTIONS, **settings: Any) -> AsyncIterator[int]:
    """The port of a server of this event loop."""
    config = configure_server(app, log_config=None, lifespan="off", **settings)
    config.limit_concurrency = most
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        serving = asyncio.ensure_future(server.serve([listener]))
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = server.force_exit = True
            await serving


async def connect(port: int, sent: bytes = b"") -> Streams:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    return reader, writer


async def status(client: Streams) -> int:
    line = await client[0].readline()
    return int(line.split()[1]) if line else 0


async def closed(client: Streams) -> bytes:
    """What a client was sent until its connection was closed."""
    with contextlib.suppress(ConnectionError):
        return await client[0].read()
    return b""


async def drip(client: Streams) -> None:
    """Sends a byte at a time for as long as the server takes them."""
    with contextlib.suppress(ConnectionError):
        while not client[1].is_closing():
            client[1].write(b"y")
            await client[1].drain()
            await asyncio.sleep(0.05)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TURN_S", dict.fromkeys(ClientTurn, 0.3))


def test_half_sent_requests_leave_room_for_others() -> None:
    async def test() -> None:
        async with listening(ServerBench().app) as port:
            slow = [await connect(port, HALF_SENT) for _ in range(300)]
            assert await status(await connect(port, HEALTH)) == 200
            assert await status(await connect(port, prediction())) == 200
            ended = [asyncio.ensure_future(closed(client)) for client in slow]
            await asyncio.gather(*ended[:30])  # the oldest gave way
            assert not ended[-1].done()
            for waiting in ended:
                waiting.cancel()

    run(test)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b"HTTP/1.1 408"),
        (HALF_SENT, b"HTTP/1.1 408"),
        (prediction(b"{", length=1000), b"HTTP/1.1 408"),
        (prediction(b"{", token="", length=1000), b"HTTP/1.1 401"),
    ],
    ids=["nothing", "headers", "body", "body-without-token"],
)
def test_a_request_that_never_ends_is_given_up(sent: bytes, answer: bytes) -> None:
    async def test() -> None:
        async with listening(ServerBench().app) as port:
            client = await connect(port, sent)
            dripping = asyncio.ensure_future(drip(client))
            assert (await closed(client) or answer).startswith(answer)  # a reset may outrun the answer
            dripping.cancel()

    run(test)


@pytest.mark.usefixtures("impatient")
def test_an_answer_that_nobody_reads_is_given_up() -> None:
    async def test() -> None:
        told = asyncio.Event()

        async def large(_: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": bytes(64 << 20)})
            while (await receive())["type"] != "http.disconnect":
                pass
            told.set()

        async with listening(large) as port:
            reader, _ = await connect(port, HEALTH)
            await told.wait()
            assert not reader.at_eof()

    run(test)


def test_a_request_in_work_is_not_dropped_for_a_new_one() -> None:
    async def test() -> None:
        release = asyncio.Event()

        async def work(_: str, __: Mapping[str, Any]) -> dict[str, Any]:
            await release.wait()
            return document()

        bench = ServerBench(work)
        async with listening(bench.app, most=4) as port:
            working = [await connect(port, prediction()) for _ in range(3)]
            while len(bench.asked) + bench.service.predictors.waiting < len(working):
                await asyncio.sleep(0)
            idle = [await connect(port, HALF_SENT) for _ in range(6)]
            await asyncio.gather(*(closed(client) for client in idle[:-1]))
            working.append(await connect(port, prediction()))
            assert await status(working[-1]) == 503, "all connections are at work"
            release.set()
            assert [await status(client) for client in working[:-1]] == [200] * 3

    run(test)


def test_a_connection_serves_many_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they last longer than the limit of one request. The clock of the event loop is put forward, so that a
    machine that pauses does not make a client slow."""
    monkeypatch.setattr(connections, "TURN_S", dict.fromkeys(ClientTurn, 20.0))

    async def test() -> None:
        loop, skipped_s = asyncio.get_running_loop(), 0.0
        clock = loop.time
        monkeypatch.setattr(loop, "time", lambda: clock() + skipped_s)
        async with listening(ServerBench().app, timeout_keep_alive=1000) as port:
            client = await connect(port)
            for _ in range(3):
                await asyncio.sleep(0.01)
                skipped_s += 12.0
                await asyncio.sleep(0.01)  # timers that are due fire
                client[1].write(HEALTH)
                assert await status(client) == 200
                while await client[0].readline() != b"\r\n":
                    pass
                await client[0].readexactly(len(b'{"status":"ok"}'))

    run(test)
