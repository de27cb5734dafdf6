"""The table of tools, their JSON schemas, and the one way to call them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

from hipsynth.core.errors import HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.tuning.tools import functions
from hipsynth.tuning.tools.tool_session import ToolRefusal, Workshop

_TYPES: Mapping[type, str] = {str: "string", int: "integer"}
_MESSAGE = 2000  # characters of a failure's message
_FOLDERS = re.compile(r"/[\w./-]*/(?=program\.hip\b)")


@dataclass(frozen=True)
class Tool:
    """A tool as callers see it. `run` takes a workshop and the arguments of the schema."""

    name: str
    run: Callable[..., dict[str, Any]]

    @property
    def description(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def schema(self) -> dict[str, Any]:
        """JSON schema of the arguments, from the function's annotations."""
        hints = get_type_hints(self.run, include_extras=True)
        properties: dict[str, Any] = {}
        required = []
        for name, parameter in list(inspect.signature(self.run).parameters.items())[1:]:
            kind, text = hints[name].__origin__, hints[name].__metadata__[0]
            properties[name] = {"type": _TYPES[kind], "description": text}
            if parameter.default is inspect.Parameter.empty:
                required.append(name)
            else:
                properties[name]["default"] = parameter.default
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_ALL = (
    Tool("compile", functions.compile_source),
    Tool("profile", functions.profile),
    Tool("predict", functions.predict),
    Tool("hot_lines", functions.hot_lines),
    Tool("propose", functions.propose),
    Tool("apply", functions.apply),
    Tool("compare", functions.compare),
    Tool("run_and_verify", functions.run_and_verify),
    Tool("swizzle", functions.swizzle),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}


@dataclass(frozen=True)
class ToolResult:
    """What a call gave: the tool's answer, or {"error", "message", "cause", "remedy"}."""

    document: dict[str, Any]
    failed: bool = False


def tool_definitions() -> list[dict[str, Any]]:
    """The tools as OpenAI function definitions."""
    return [
        {"type": "function", "function": {"name": t.name, "description": t.description, "parameters": t.schema}}
        for t in TOOLS.values()
    ]


def run_tool(shop: Workshop, name: str, arguments: object) -> ToolResult:
    """Calls a tool. Whatever is wrong with the call or happens in it is a result with a reason; raises nothing."""
    try:
        begin = shop.charge()
        try:
            tool = TOOLS.get(name)
            if tool is None:
                names = ", ".join(TOOLS)
                raise ToolRefusal(
                    f"no tool is called {str(name)[:80]!r}", cause=f"tools: {names}", reason=Reason.UNKNOWN_TOOL
                )
            return ToolResult(tool.run(shop, **check_arguments(tool.schema, arguments)))
        finally:
            shop.charged(begin)
    except HipsynthError as error:
        texts = [error.what, getattr(error, "diagnostics", "")]
        message = "\n".join(filter(None, texts))
        words = {"error": error.reason, "message": message, "cause": error.cause, "remedy": error.remedy}
        return ToolResult(
            {key: without_folders(value)[:_MESSAGE] for key, value in words.items() if value}, failed=True
        )
    except Exception as error:  # a defect must not end a server
        message = f"{type(error).__name__}: {error}"[:_MESSAGE]
        return ToolResult({"error": "internal_error", "message": message}, failed=True)


def without_folders(text: str) -> str:
    """A message without the temporary folders of this machine, which mean nothing to a caller."""
    return _FOLDERS.sub("", text)


def check_arguments(schema: Mapping[str, Any], arguments: object) -> dict[str, Any]:
    """Arguments that fit a schema of the table. Raises ToolRefusal with everything that does not."""
    if not isinstance(arguments, Mapping):
        raise ToolRefusal("the arguments are no JSON object", remedy="send an object", reason=Reason.BAD_ARGUMENTS)
    properties = schema["properties"]
    wrong = [f"{name} is missing" for name in schema["required"] if name not in arguments]
    wrong += [f"there is no argument {str(name)[:40]!r}" for name in arguments if name not in properties]
    kinds = {name: next(t for t, kind in _TYPES.items() if kind == row["type"]) for name, row in properties.items()}
    for name, value in arguments.items():
        if name in kinds and type(value) is not kinds[name]:
            wrong.append(f"{name} is no {properties[name]['type']}")
        elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
            wrong.append(f"{name} holds characters that no source may have")
    if wrong:
        expected = ", ".join(f"{name}: {row['type']}" for name, row in properties.items())
        raise ToolRefusal("; ".join(wrong[:5]), remedy=f"arguments: {expected}", reason=Reason.BAD_ARGUMENTS)
    return {str(name): value for name, value in arguments.items()}


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
