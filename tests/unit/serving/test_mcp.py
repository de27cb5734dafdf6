"""The MCP server, asked by the SDK's own client."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from hipsynth.profiling.backends.protocol import Target
from hipsynth.serving.mcp.server import describe_tool, http_app, make_server, require_token
from hipsynth.serving.mcp.tool_calls import CallTool, ToolProcess
from hipsynth.serving.mcp.tool_worker import (
    CallRequest,
    SessionStart,
    ToolAnswer,
    ToolSettings,
    call_tool,
    start_session,
)
from hipsynth.tuning.tools import TOOLS, ToolSession, Version

SETTINGS = ToolSettings(Target("gfx942", "-O3", "mi300x"))
ADDING = {"compile", "edit", "apply", "swizzle"}


def call_here(session: ToolSession) -> CallTool:
    """Calls the tools of a session in this process."""

    async def call(tool: str, arguments: Mapping[str, object]) -> ToolAnswer:
        return call_tool(session, CallRequest(tool, json.dumps(arguments)))

    return call


def asked(client: Client, name: str, arguments: dict[str, Any]) -> Any:
    async def run() -> Any:
        async with client:
            tools = await client.list_tools()
            assert [tool.name for tool in tools.tools] == list(TOOLS)
            assert all(tool.input_schema == TOOLS[tool.name].schema for tool in tools.tools)
            assert {tool.name for tool in tools.tools if not tool.annotations.read_only_hint} == ADDING
            assert all(tool.output_schema["type"] == "object" for tool in tools.tools)
            return await client.call_tool(name, arguments)

    return anyio.run(run)


def test_tools_are_listed_and_called() -> None:
    found = asked(
        Client(make_server(call_here(start_session(SessionStart(SETTINGS))))), "profile", {"program": "/etc/passwd"}
    )
    assert found.is_error and json.loads(found.content[0].text)["error"] == "unknown_program"
    assert found.structured_content["error"] == "unknown_program"


def test_an_answer_fits_the_output_schema() -> None:
    session = start_session(SessionStart(SETTINGS))
    session.add("int main() {\n}\n", made="source")
    server = make_server(call_here(session))
    found = asked(Client(server), "read", {"program": "v0"})
    assert found.structured_content == {"program": "v0", "text": "1\tint main() {\n2\t}", "lines": 2}
    jsonschema.validate(found.structured_content, describe_tool(TOOLS["read"]).output_schema)


@pytest.mark.full
def test_standard_input_and_output() -> None:
    command = StdioServerParameters(command=sys.executable, args=["-m", "hipsynth.cli.main", "mcp"])
    found = asked(Client(stdio_client(command)), "compile", {"source": "int main() {}"})
    assert found.is_error and found.structured_content["error"] == "no_kernel"


@pytest.mark.parametrize("headers", [[], [(b"authorization", b"Bearer x")], [(b"authorization", b"Bearer t")] * 2])
def test_http_needs_the_token(headers: list[tuple[bytes, bytes]]) -> None:
    sent: list[Any] = []

    async def reached(*_: object) -> None:
        sent.append("reached")

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        raise AssertionError("a request without the token is not read")

    scope = {"type": "http", "headers": headers}
    anyio.run(require_token(reached, "t"), scope, receive, send)
    assert sent[0]["status"] == 401 and "reached" not in sent


def test_http_with_the_token() -> None:
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    token = "a-token-of-a-test"
    app = http_app(call_here(start_session(SessionStart(SETTINGS))), token)

    async def run() -> Any:
        import uvicorn

        config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error")
        listening = config.bind_socket()
        server = uvicorn.Server(config)
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.serve, [listening])
            headers = {"Authorization": f"Bearer {token}"}
            http = httpx2.AsyncClient(headers=headers)
            async with http, Client(streamable_http_client(url, http_client=http)) as client:
                found = await client.call_tool("profile", {"program": "v7"})
            server.should_exit = True
        return found

    assert anyio.run(run).structured_content["error"] == "unknown_program"


PROGRAM = """#include <hip/hip_runtime.h>
__global__ void count(float* x, int n) { for (int i = 0; i < n; ++i) x[threadIdx.x] += 1.0f; }
int main() {
  float* x;
  if (hipMalloc(&x, 256) != hipSuccess) return 1;
  count<<<1, 64>>>(x, STEPS);
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}
"""
ENDLESS = PROGRAM.replace("STEPS", "2000000000")


def with_tools(test: Callable[[ToolProcess], Awaitable[None]], **settings: Any) -> None:
    async def bounded() -> None:
        tools = ToolProcess(SETTINGS, **settings)
        try:
            async with asyncio.timeout(120):
                await test(tools)
        finally:
            await tools.close()

    asyncio.run(bounded())


def test_a_call_that_is_cancelled_makes_room_for_the_next() -> None:
    async def test(tools: ToolProcess) -> None:
        assert not (await tools("compile", {"source": ENDLESS})).failed
        profiling = asyncio.ensure_future(tools("profile", {"program": "v0"}))
        reading = asyncio.ensure_future(tools("read", {"program": "v0"}))
        await asyncio.sleep(1)
        assert not profiling.done() and not reading.done()
        profiling.cancel()
        async with asyncio.timeout(20):  # profiling would take a minute
            assert json.loads((await reading).document)["lines"] == PROGRAM.count("\n")

    with_tools(test)


def test_a_call_ends_at_its_limit() -> None:
    async def test(tools: ToolProcess) -> None:
        assert not (await tools("compile", {"source": ENDLESS})).failed
        tools.call_s = 1
        late = await tools("profile", {"program": "v0"})
        assert late.failed and json.loads(late.document)["error"] == "timeout"

    with_tools(test)


def test_programs_outlive_the_process_that_holds_them() -> None:
    async def test(tools: ToolProcess) -> None:
        source = PROGRAM.replace("STEPS", "8")
        assert not (await tools("compile", {"source": source})).failed
        assert tools._worker is not None
        tools._worker.process.send_signal(signal.SIGKILL)
        await tools._worker.process.wait()
        edit = {"program": "v0", "old": "1.0f", "new": "2.0f"}
        assert json.loads((await tools("edit", edit)).document)["program"] == "v1"
        assert [version.root for version in tools.versions] == ["v0", "v0"]

    with_tools(test)


def test_the_limit_on_calls_counts_those_of_processes_that_ended() -> None:
    settings = ToolSettings(SETTINGS.target, calls=2)
    session = start_session(SessionStart(settings, (Version("v0", PROGRAM, "v0", "v0"),), used=1))
    assert not call_tool(session, CallRequest("read", '{"program": "v0"}')).failed
    assert json.loads(call_tool(session, CallRequest("read", '{"program": "v0"}')).document)["error"] == "limit"
