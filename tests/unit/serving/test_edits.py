"""Edits of open documents: the text that they leave, and that a stream of them holds nothing up."""

from __future__ import annotations

import asyncio
import io
import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import needs
import pytest
from hypothesis import given
from hypothesis import strategies as st

needs.package("pygls")
from lsprotocol import types  # noqa: E402
from pygls.workspace import PositionCodec  # noqa: E402

from hipsynth.serving.limits import REQUEST_SOURCE_BYTES  # noqa: E402
from hipsynth.serving.lsp import session  # noqa: E402
from hipsynth.serving.lsp.analysis_provider import Query  # noqa: E402
from hipsynth.serving.lsp.buffer import TextBuffer, split_lines  # noqa: E402

HANG_S = 60
EDITS = 2000


def change(text: str, *ends: tuple[int, int]) -> types.TextDocumentContentChangePartial:
    start, end = (types.Position(*place) for place in ends)
    return types.TextDocumentContentChangePartial(types.Range(start, end), text)


def offset(text: str, place: tuple[int, int]) -> int:
    """Where a line and a column of characters lie in a text, by the words of the protocol."""
    line, column = place
    begins = [0, *(match.end() for match in re.finditer(r"\r\n|\n|\r", text))]
    if line >= len(begins):
        return len(text)
    return begins[line] + min(column, len(re.split(r"[\r\n]", text[begins[line] :])[0]))


TEXTS = st.text(st.sampled_from("ab\r\n\u2028\x0c\U0001f600"), max_size=12)
PLACES = st.tuples(st.integers(0, 6), st.integers(0, 9))


@given(TEXTS, st.lists(st.tuples(TEXTS, PLACES, PLACES)))
def test_edits_leave_what_the_protocol_says(text: str, edits: list[tuple[str, Any, Any]]) -> None:
    buffer, codec = TextBuffer(text), PositionCodec(types.PositionEncodingKind.Utf32)
    for fresh, *ends in edits:
        buffer.apply(change(fresh, *ends), codec)
        begin, end = sorted(offset(text, place) for place in ends)
        text = text[:begin] + fresh + text[end:]
        assert buffer.text == text and buffer._lines == split_lines(text)


@pytest.mark.parametrize(("units", "column"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3)])
def test_columns_count_in_the_units_of_the_client(units: str, column: int) -> None:
    buffer = TextBuffer("x\naé\U0001f600b")
    buffer.apply(change("+", (1, column), (1, column)), PositionCodec(types.PositionEncodingKind(units)))
    assert buffer.text == "x\naé\U0001f600+b"
    buffer.apply(types.TextDocumentContentChangeWholeDocument("all\n"), PositionCodec())
    assert (buffer.text, buffer._lines) == ("all\n", ["all\n", ""])


class Asked:
    """A source that answers nothing and keeps what it was asked."""

    def __init__(self) -> None:
        self.queries: list[Query] = []

    async def predict(self, query: Query) -> Any:
        self.queries.append(query)
        raise session.QueryFailed("none", "none")

    profile = predict

    async def close(self) -> None: ...


def test_only_the_last_of_many_edits_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    outlined: list[str] = []
    find = session.locate_kernels
    monkeypatch.setattr(session, "locate_kernels", lambda text: (outlined.append(text), find(text))[1])

    async def changed(_: session.OpenDocument) -> None: ...

    async def edits() -> None:
        source = Asked()
        made = session.EditorSession(source, changed)
        made.options = session.EditorOptions(debounce_ms=20)
        made.open("u", Path("/k.hip"), 0, "__global__ void f() {}")
        for version in range(1, 200):
            made.edit("u", version, [change("\n", (0, 0), (0, 0))], PositionCodec())
        task = made.documents["u"].task
        assert task
        await task
        newest = "\n" * 199 + "__global__ void f() {}"
        assert outlined == [newest] and [query.source for query in source.queries] == [newest]

    asyncio.run(edits())


class SourceWithoutKernels(Asked):
    """A source that knows of no kernel."""

    async def predict(self, query: Query) -> Any:
        self.queries.append(query)
        return SimpleNamespace(source="program", kernels=(), model="")


def test_the_first_edit_after_an_answer_and_each_save_are_told(tmp_path: Path) -> None:
    path = tmp_path / "k.hip"
    path.write_text("__global__ void f() {}")
    told: list[str] = []

    async def changed(document: session.OpenDocument) -> None:
        told.append(document.state())

    async def edits() -> None:
        source = SourceWithoutKernels()
        made = session.EditorSession(source, changed)
        made.options = session.EditorOptions(debounce_ms=20)
        made.open("u", path, 0, path.read_text())
        document = made.documents["u"]
        assert document.task
        await document.task
        assert told == [""] and source.queries[0].path == str(path), "the headers beside a file are there"
        for version in (1, 2):
            made.edit("u", version, [change("\n", (0, 0), (0, 0))], PositionCodec())
            await asyncio.sleep(0)
        assert told == ["", "…"]
        await document.task
        made.save("u")
        await asyncio.sleep(0)
        assert told == ["", "…", "", ""]
        made.configure(replace(made.options, inlay_hints=True))
        await asyncio.sleep(0.05)
        assert len(source.queries) == 2, "what is shown decides nothing that is asked"

    asyncio.run(edits())


def test_a_saved_header_asks_again_for_the_programs_with_headers_of_their_own() -> None:
    async def changed(_: session.OpenDocument) -> None: ...

    async def save() -> None:
        source = SourceWithoutKernels()
        made = session.EditorSession(source, changed)
        made.options = session.EditorOptions(debounce_ms=0)
        texts = {"p.hip": '#include "w.h"\n__global__ void f() {}', "q.hip": "__global__ void g() {}", "w.h": "int w;"}
        for name, text in texts.items():
            made.open(name, Path("/own", name), 0, text)
        await asyncio.gather(*(task for document in made.documents.values() if (task := document.task)))
        source.queries.clear()
        for name in texts:
            made.save(name)
        program = made.documents["p.hip"]
        assert program.predicted is None and made.documents["q.hip"].predicted is not None
        assert program.task
        await program.task
        assert [query.source for query in source.queries] == [texts["p.hip"]] and program.predicted is not None

    asyncio.run(save())


def test_what_no_answer_will_come_for_does_not_look_as_if_one_would() -> None:
    async def changed(_: session.OpenDocument) -> None: ...

    async def open_texts() -> None:
        made = session.EditorSession(Asked(), changed)
        for text, state in (("int main() {}", ""), (" " * (REQUEST_SOURCE_BYTES + 1), "longer than")):
            made.open("u", Path("/k.hip"), 0, text)
            assert made.documents["u"].state().startswith(state) and made.documents["u"].state() != "…"

    asyncio.run(open_texts())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_whose_client_is_still_there(number: int) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(LSP, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdin.write(INITIALIZE)
        server.stdin.flush()
        answer(server.stdout, 1)
        server.send_signal(number)
        assert server.wait(HANG_S / 4) == 128 + number and server.stderr.read() == b"interrupted\n"


LSP = [sys.executable, "-m", "hipsynth.cli.main", "lsp"]


def framed(method: str, params: Any, **more: Any) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


INITIALIZE = framed("initialize", {"capabilities": {}, "processId": None, "rootUri": None}, id=1)


def answer(stream: IO[bytes], number: int) -> Any:
    """The result of a request, read from what the server sends."""
    while header := stream.readline():
        size = int(header.removeprefix(b"Content-Length: "))
        while stream.readline() != b"\r\n":
            pass
        message = json.loads(stream.read(size))
        if message.get("id") == number:
            return message["result"]
    raise AssertionError(f"request {number} has no answer")


def test_a_stream_of_edits_of_a_long_text_delays_neither_answers_nor_the_end() -> None:
    named = {"uri": "file:///k.hip"}
    text = "__device__ int f(int x) { return x; }\n" * 20_000 + "__global__ void f() {}\n"
    begin = {"line": 0, "character": 0}
    edit = {"contentChanges": [{"range": {"start": begin, "end": begin}, "text": "\n"}]}
    parts = [
        INITIALIZE,
        framed("textDocument/didOpen", {"textDocument": {**named, "languageId": "hip", "version": 0, "text": text}}),
        *(framed("textDocument/didChange", {"textDocument": {**named, "version": n}, **edit}) for n in range(EDITS)),
        framed("textDocument/codeLens", {"textDocument": named}, id=2),
        *(framed("textDocument/didChange", {"textDocument": {**named, "version": n}, **edit}) for n in range(EDITS)),
    ]
    done = subprocess.run(LSP, input=b"".join(parts), capture_output=True, timeout=HANG_S)
    assert done.returncode == 0
    lenses = answer(io.BytesIO(done.stdout), 2)
    assert [lens["range"]["start"]["line"] for lens in lenses] == [20_000 + EDITS]


@pytest.mark.parametrize("politely", [True, False])
def test_an_exit_leaves_no_error(politely: bool) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(LSP, stdin=pipe, stdout=pipe, stderr=pipe) as server:
        assert server.stdin and server.stdout and server.stderr
        server.stdin.write(INITIALIZE + (framed("shutdown", None, id=2) if politely else b""))
        server.stdin.flush()
        answer(server.stdout, 2 if politely else 1)
        server.stdin.write(framed("exit", None))
        server.stdin.flush()
        assert server.wait(HANG_S) == 0 and server.stderr.read() == b""
