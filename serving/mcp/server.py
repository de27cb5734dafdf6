"""An MCP server over the table of tools: on standard input and output, or over HTTP for those who have the token."""

from __future__ import annotations

import hmac
import json
from importlib.metadata import version
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server

from hipsynth.core.document_schema import make_schema
from hipsynth.core.stop_signal import end_at_signals
from hipsynth.serving.asgi import App, Message, Receive, Send
from hipsynth.serving.mcp.tool_calls import CallTool, ToolProcess
from hipsynth.serving.mcp.tool_worker import ToolSettings
from hipsynth.tuning.tools import TOOLS, Tool

MOST_REQUEST = 1 << 20  # bytes
INSTRUCTIONS = (
    "Make HIP kernels faster without changing what they do. Give a whole program to `compile`; the other tools take "
    "the name that it answers with. `profile` says what limits a kernel, `what_if` what that is worth, `propose` what "
    "can be changed, `apply` changes it, `edit` does what no proposal does, `compare` shows what that gained, and "
    "`run_and_verify` whether the program still does the same."
)


def describe_tool(tool: Tool) -> types.Tool:
    """A tool as clients see it: nothing outside the session is read or changed, and a call that is made again has the
    same answer."""
    hints = types.ToolAnnotations(
        read_only_hint=not tool.adds, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    )
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        output_schema=make_schema(tool.answer),
        annotations=hints,
    )


def make_server(call: CallTool) -> Server[Any]:
    """A server whose clients share the programs of a session."""

    async def list_tools(_: Any, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe_tool(tool) for tool in TOOLS.values()])

    async def call_tool(_: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await call(params.name, params.arguments or {})
        text = types.TextContent(type="text", text=answer.document)
        return types.CallToolResult(
            content=[text], structured_content=json.loads(answer.document), is_error=answer.failed
        )

    return Server(
        "hipsynth",
        version=version("hipsynth"),
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def serve_stdio(settings: ToolSettings) -> None:
    """Serves one client until it closes standard input."""

    async def run() -> None:
        process = ToolProcess(settings)
        server = make_server(process)
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await process.close()

    end_at_signals()
    anyio.run(run)


def http_app(call: CallTool, token: str) -> App:
    """The ASGI application of the server at /mcp; a request without the token gets 401 and nothing else."""
    return require_token(make_server(call).streamable_http_app(max_request_body_size=MOST_REQUEST), token)


def require_token(app: App, token: str) -> App:
    """The application behind a check of the bearer token: HTTP requests without it are answered 401."""
    expected = f"Bearer {token}".encode()

    async def checked(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            tokens = [value for name, value in scope["headers"] if name == b"authorization"]
            if len(tokens) != 1 or not hmac.compare_digest(tokens[0], expected):
                headers = [(b"content-type", b"text/plain"), (b"www-authenticate", b"Bearer")]
                await send({"type": "http.response.start", "status": 401, "headers": headers})
                await send({"type": "http.response.body", "body": b"the token is missing or wrong\n"})
                return
        await app(scope, receive, send)

    return checked
