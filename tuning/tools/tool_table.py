"""The table of tools, their JSON schemas, and the one way to call them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import get_type_hints

from hipsynth.core.documents import JsonObject, document_json, to_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.tuning.tools import functions
from hipsynth.tuning.tools.documents import ToolDefinition, ToolFailure, ToolFunction, ToolTable
from hipsynth.tuning.tools.tool_session import ToolRefusal, ToolSession

_TYPES: Mapping[type, str] = {str: "string", int: "integer"}
_MESSAGE = 2000  # characters of a failure's message
_FOLDERS = re.compile(r"/[\w./-]*/(?=program\.hip\b)")


@dataclass(frozen=True)
class ToolParameter:
    """An argument of a tool; `default` is Parameter.empty if it has to be given."""

    name: str
    kind: type
    description: str
    default: object

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty

    @property
    def schema(self) -> JsonObject:
        schema: JsonObject = {"type": _TYPES[self.kind], "description": self.description}
        return schema if self.required else schema | {"default": to_json(self.default)}


@dataclass(frozen=True)
class Tool:
    """A tool as callers see it. `run` takes a session and the arguments of the schema; `adds`: it makes a program."""

    name: str
    run: Callable[..., object]
    adds: bool = False

    @property
    def description(self) -> str:
        return inspect.getdoc(self.run) or ""

    @property
    def answer(self) -> type:
        """The dataclass of its answer."""
        kind = get_type_hints(self.run)["return"]
        assert isinstance(kind, type)
        return kind

    @property
    def parameters(self) -> tuple[ToolParameter, ...]:
        """The arguments, from the function's annotations; the session is none."""
        hints = get_type_hints(self.run, include_extras=True)
        return tuple(
            ToolParameter(name, hints[name].__origin__, hints[name].__metadata__[0], parameter.default)
            for name, parameter in list(inspect.signature(self.run).parameters.items())[1:]
        )

    @property
    def schema(self) -> JsonObject:
        """JSON schema of the arguments."""
        return {
            "type": "object",
            "properties": {parameter.name: parameter.schema for parameter in self.parameters},
            "required": [parameter.name for parameter in self.parameters if parameter.required],
            "additionalProperties": False,
        }


_ALL = (
    Tool("compile", functions.compile_source, adds=True),
    Tool("read", functions.read),
    Tool("edit", functions.edit, adds=True),
    Tool("profile", functions.profile),
    Tool("predict", functions.predict),
    Tool("hot_lines", functions.hot_lines),
    Tool("resources", functions.resources),
    Tool("what_if", functions.what_if),
    Tool("propose", functions.propose),
    Tool("apply", functions.apply, adds=True),
    Tool("compare", functions.compare),
    Tool("run_and_verify", functions.run_and_verify),
    Tool("verify", functions.verify),
    Tool("swizzle", functions.swizzle, adds=True),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}


@dataclass(frozen=True)
class ToolResult:
    """What a call gave: the tool's answer, one of the classes in documents.py."""

    answer: object

    @property
    def failed(self) -> bool:
        return isinstance(self.answer, ToolFailure)

    @functools.cached_property
    def document(self) -> JsonObject:
        """The answer as JSON."""
        return document_json(self.answer)


def tool_table() -> ToolTable:
    """The tools with the schemas of their arguments."""
    functions = (ToolFunction(tool.name, tool.description, tool.schema) for tool in TOOLS.values())
    return ToolTable(tuple(ToolDefinition("function", function) for function in functions))


def tool_definitions() -> list[JsonObject]:
    """The tools as OpenAI function definitions."""
    return [document_json(tool) for tool in tool_table().tools]


def run_tool(session: ToolSession, name: str, arguments: object) -> ToolResult:
    """Calls a tool. Whatever is wrong with the call or happens in it is a result with a reason; raises nothing."""
    try:
        begin = session.begin_call()
        try:
            tool = TOOLS.get(name)
            if tool is None:
                names = ", ".join(TOOLS)
                raise ToolRefusal(
                    f"no tool is called {str(name)[:80]!r}", cause=f"tools: {names}", reason=Reason.UNKNOWN_TOOL
                )
            return ToolResult(tool.run(session, **check_arguments(tool.parameters, arguments)))
        finally:
            session.end_call(begin)
    except HipsynthError as error:
        texts = [error.what, getattr(error, "diagnostics", "")]
        message = "\n".join(filter(None, texts))
        words = (without_folders(text)[:_MESSAGE] or None for text in (message, error.cause, error.remedy))
        return ToolResult(ToolFailure(error.reason, *words))
    except Exception as error:  # a defect must not end a server
        message = f"{type(error).__name__}: {error}"[:_MESSAGE]
        return ToolResult(ToolFailure(Reason.INTERNAL_ERROR, message))


def without_folders(text: str) -> str:
    """A message without the temporary folders of this machine, which mean nothing to a caller."""
    return _FOLDERS.sub("", text)


def check_arguments(parameters: Sequence[ToolParameter], arguments: object) -> dict[str, object]:
    """Arguments that fit a tool's parameters. Raises ToolRefusal with everything that does not."""
    if not isinstance(arguments, Mapping):
        raise ToolRefusal("the arguments are no JSON object", remedy="send an object", reason=Reason.BAD_ARGUMENTS)
    by_name = {parameter.name: parameter for parameter in parameters}
    wrong = [
        f"{parameter.name} is missing"
        for parameter in parameters
        if parameter.required and parameter.name not in arguments
    ]
    wrong += [f"there is no argument {str(name)[:40]!r}" for name in arguments if name not in by_name]
    for name, value in arguments.items():
        if name in by_name and type(value) is not by_name[name].kind:
            wrong.append(f"{name} is no {_TYPES[by_name[name].kind]}")
        elif isinstance(value, str) and ("\0" in value or not _is_encodable(value)):
            wrong.append(f"{name} holds characters that no source may have")
    if wrong:
        expected = ", ".join(f"{parameter.name}: {_TYPES[parameter.kind]}" for parameter in parameters)
        raise ToolRefusal("; ".join(wrong[:5]), remedy=f"arguments: {expected}", reason=Reason.BAD_ARGUMENTS)
    return {str(name): value for name, value in arguments.items()}


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
