"""The MCP server, asked by the SDK's own client."""

from __future__ import annotations

import json
import sys
from typing import Any

import anyio
import jsonschema
import pytest
from mcp import Client, StdioServerParameters, stdio_client

from hipsynth.serving.mcp.server import describe_tool, http_app, make_server, require_token
from hipsynth.tuning.tools import TOOLS, ToolSession
from hipsynth.tuning.trial import target_of

ADDING = {"compile", "edit", "apply", "swizzle"}


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
    found = asked(Client(make_server(ToolSession(target_of("gfx942")))), "profile", {"program": "/etc/passwd"})
    assert found.is_error and json.loads(found.content[0].text)["error"] == "unknown_program"
    assert found.structured_content["error"] == "unknown_program"


def test_an_answer_fits_the_output_schema() -> None:
    session = ToolSession(target_of("gfx942"))
    session.add("int main() {\n}\n", made="source")
    server = make_server(session)
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
    app = http_app(ToolSession(target_of("gfx942")), token)

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
