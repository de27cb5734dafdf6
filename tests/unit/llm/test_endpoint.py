"""Is everything that a chat endpoint may do an answer or a NoAnswer with a reason, in bounded time and memory?"""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from typing import Any

import pytest
from chat_server import Handler, completion, serving
from hypothesis import given
from hypothesis import strategies as st

from hipsynth.core.errors import UsageError
from hipsynth.synth.llm.endpoint import MOST_BYTES, Client, NoAnswer, read_answer

KEY = "sk-secret"


def _ask(reply: Any, timeout_s: float = 5.0) -> NoAnswer:
    with serving(reply) as server, pytest.raises(NoAnswer) as caught:
        Client(server.url, KEY, timeout_s).ask({"model": "m"})
    assert KEY not in str(caught.value)
    return caught.value


def test_an_answer_has_its_text_tokens_and_raw_body() -> None:
    with serving(lambda handler, _: handler.send(completion("hé\n", "length", 7, 3))) as server:
        answer = Client(server.url + "/", KEY).ask({"model": "m", "messages": []})
        assert server.requests == [("/v1/chat/completions", {"model": "m", "messages": []}, f"Bearer {KEY}")]
    assert (answer.text, answer.finish, answer.read, answer.written, answer.model) == ("hé\n", "length", 7, 3, "m-1")
    assert read_answer(answer.raw.encode()) == answer


@pytest.mark.parametrize(
    ("body", "headers", "reason"),
    [
        (b"{", {}, "bad_json"),
        (b"[" * 100_000, {}, "bad_json"),
        (b"", {}, "bad_json"),
        (completion("x").replace(b"x", b"\xff"), {}, "bad_encoding"),
        ("{}".encode("utf-16"), {}, "bad_encoding"),
        (b"\x1f\x8b...", {"Content_Encoding": "gzip"}, "bad_encoding"),
        (b" " * (20 << 20), {}, "too_large"),
        (b'data: {"choices": []}\n\ndata: [DONE]\n', {}, "streamed"),
        (b"event: x\n\n", {"kind": "text/event-stream; charset=utf-8"}, "streamed"),
        (b"[]", {}, "no_text"),
        (b'{"choices": []}', {}, "no_text"),
        (b'{"choices": {"0": 1}}', {}, "no_text"),
        (completion(None), {}, "no_text"),
        (completion([{"type": "text"}]), {}, "no_text"),
        (completion("\ud800"), {}, "no_text"),
    ],
)
def test_a_malformed_answer_has_a_reason(body: bytes, headers: dict[str, str], reason: str) -> None:
    error = _ask(lambda handler, _: handler.send(body, **headers))
    assert (error.reason, error.again) == (reason, False)


@pytest.mark.parametrize(
    ("status", "headers", "reason", "again", "hopeless"),
    [
        (429, {"Retry_After": "7"}, "rate_limited", True, False),
        (503, {}, "http_503", True, False),
        (400, {}, "http_400", False, False),
        (401, {}, "http_401", False, True),
        (404, {}, "http_404", False, True),
        (307, {"Location": "http://127.0.0.1:1/steal"}, "redirected", False, True),
    ],
)
def test_a_status_decides_whether_asking_again_helps(
    status: int, headers: dict[str, str], reason: str, again: bool, hopeless: bool
) -> None:
    error = _ask(lambda handler, _: handler.send(b"no: " + KEY.encode(), status, **headers))
    assert (error.code, error.again, error.hopeless) == (reason, again, hopeless)
    assert error.wait_s == (7 if status == 429 else 0)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [("1e9", 0, 0), ("-5", 0, 0), ("99999", 300, 300), ("soon", 0, 0), ("", 0, 0), (None, 20, 60)],
)
def test_retry_after_is_bounded(text: str | None, least: float, most: float) -> None:
    wait = text if text is not None else formatdate(time.time() + 60, usegmt=True)
    assert least <= _ask(lambda handler, _: handler.send(b"", 429, Retry_After=wait)).wait_s <= most


def _drip(handler: Handler, _: object) -> None:
    """A byte at a time, for ever: each arrives within any time limit on a single read."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.05)


def _drip_headers(handler: Handler, _: object) -> None:
    while True:
        handler.wfile.write(b"H")
        time.sleep(0.05)


@pytest.mark.parametrize("reply", [_drip, _drip_headers, lambda *_: time.sleep(5)])
def test_a_slow_answer_ends_after_the_time_limit(reply: Any) -> None:
    error = _ask(reply, timeout_s=0.5)
    assert (error.reason, error.again) == ("timeout", True)


def test_lost_connections_may_be_tried_again() -> None:
    def half(handler: Handler, _: object) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}")

    for reply in (half, lambda *_: None, lambda handler, _: handler.wfile.write(b"SSH-2.0\r\n\r\n")):
        error = _ask(reply)
        assert (error.reason, error.again) == ("unreachable", True)
    with pytest.raises(NoAnswer, match="refused"):
        Client("http://127.0.0.1:9/v1").ask({})


def test_closing_ends_open_requests() -> None:
    started, done = threading.Event(), threading.Event()

    def hang(*_: object) -> None:
        started.set()
        done.wait(100)

    with serving(hang) as server:
        client = Client(server.url, timeout_s=100)
        threading.Thread(target=lambda: (started.wait(10), client.close())).start()
        with pytest.raises(NoAnswer) as caught:
            client.ask({})
        assert caught.value.reason == "unreachable" and not done.is_set(), "it neither timed out nor was answered"
        done.set()


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1", "file:///etc/passwd", "http://", "http://user:pw@host/v1", "http://h/?a=b", "http://h:99999/v1",
     "http://h:x", "http://[::1"],
)  # fmt: skip
def test_only_plain_urls_are_taken(url: str) -> None:
    with pytest.raises(UsageError):
        Client(url)


def test_a_proxy_is_told_its_user_and_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    for user, header in (("", None), ("me:p%40ss@", "Basic bWU6cEBzcw==")):
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            monkeypatch.setenv("https_proxy", f"http://{user}127.0.0.1:{server.getsockname()[1]}")
            refused = pool.submit(_refuse_tunnel, server)
            with pytest.raises(NoAnswer):
                Client("https://chat.example/v1", KEY, 5.0).ask({"model": "m"})
            request = refused.result(timeout=5)
            assert request.startswith("CONNECT chat.example:443 ") and KEY not in request
            assert (f"Proxy-Authorization: {header}\r\n" in request) if header else ("Proxy-Auth" not in request)


def _refuse_tunnel(server: socket.socket) -> str:
    server.settimeout(5)
    connection, _ = server.accept()
    with connection:
        request = connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        return request.decode()


def test_a_key_cannot_add_headers() -> None:
    with pytest.raises(UsageError):
        Client("http://h/v1", "a\r\nHost: b")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_a_reason(raw: bytes) -> None:
    try:
        answer = read_answer(raw)
    except NoAnswer as error:
        assert error.reason in {"bad_json", "bad_encoding", "no_text", "streamed"}
    else:
        assert answer.raw.encode() == raw


@pytest.mark.parametrize("count", [-1, True, 1.5, "7", None, 1 << 50])
def test_odd_token_counts_are_not_counted(count: Any) -> None:
    assert read_answer(completion("x", read=count)).read is None
    assert MOST_BYTES < 8 << 20, "a journal's line holds an answer"
