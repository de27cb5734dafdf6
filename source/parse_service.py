"""Parses untrusted programs in a sandbox: one long-lived process of this worker that answers in lines of JSON.

libclang reads any file that a program includes, so it runs where only the headers and the program's own folder exist.
Answers are validated, because a hostile program may have taken over the parser.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing import util
from pathlib import Path
from typing import Any, TypeVar

import hipsynth
from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.source.entities import Entity
from hipsynth.source.functions import FunctionNode
from hipsynth.source.parse import VIRTUAL, ParseConfig, ParsedUnit, Token, prepare_preambles
from hipsynth.toolchain import find_toolchain, sandbox

LIMITS = sandbox.SandboxLimits(cpu_s=1e6, memory_bytes=4 << 30, file_bytes=1 << 20, threads=64)
PARSE_SERVER = "hipsynth.source.parse_server"
MOST_ANSWER_BYTES = 64 << 20
_TEXT_CHARS = 4000

R = TypeVar("R")


class ParserLost(HipsynthError):
    """The process that parses ended without an answer: a crash of libclang, or too much memory."""

    reason = Reason.WORKER_DIED


def parse_isolated(text: str, config: ParseConfig, isolate: bool = True) -> ParsedUnit:
    """The tokens of a program and what they refer to, parsed in the sandbox; quoted includes are not found.

    It lists the functions that the text defines; kinds of cursors and the words of headers are left empty. Raises
    BadInput for code that cannot be parsed, ParserLost if the parser crashes.
    """
    prepare_preambles(text.encode(), config.include, config)
    session = ParserSession(PARSE_SERVER, config, None, isolate)
    return session.ask("the program", {"do": "parse", "text": text}, partial(_read_unit, text))


def _read_unit(text: str, answer: Mapping[str, Any]) -> ParsedUnit:
    if "problem" in answer:
        raise BadInput("the program cannot be parsed", cause=short_text(answer["problem"]), reason=Reason.SYNTAX_ERROR)
    data = text.encode()
    tokens = tuple(Token(int(k), int(a), int(b), data[a:b].decode()) for k, a, b, _ in answer["tokens"])
    places = [(short_text(row["place"][0]), int(row["place"][1])) for row in answer["entities"]]
    entities = [Entity(**{**row, "place": at}) for row, at in zip(answer["entities"], places, strict=True)]
    referents = tuple(frozenset(entities[i] for i in referent) for referent in answer["referents"])
    if len(referents) != len(tokens):
        raise ValueError("a token has no referents")
    definitions = tuple(_read_definition(row) for row in answer["definitions"])
    return ParsedUnit(VIRTUAL, data, tokens, referents, (), (), frozenset(), frozenset(), frozenset(), definitions)


def _read_definition(row: Sequence[Any]) -> FunctionNode:
    name, place, (start, end), kernel, mangled, names, parameters = row
    checked = tuple((int(first), int(last), short_text(word)) for first, last, word in parameters)
    names = tuple(short_text(word) for word in names)
    mangled = short_text(mangled) if len(mangled) <= _TEXT_CHARS else ""
    return FunctionNode(short_text(name), int(place), (int(start), int(end)), bool(kernel), mangled, names, checked)


def short_text(value: Any) -> str:
    """A text of an answer; raises ValueError if it is none, or too long."""
    if not isinstance(value, str) or len(value) > _TEXT_CHARS:
        raise ValueError("a text is missing or too long")
    return value


def absolute_paths(paths: Iterable[Path]) -> list[str]:
    """Paths for a request: the parser has another working folder."""
    return [str(path.absolute()) for path in paths]


class ParserSession:
    """Questions to a server (a module of ours) that parses with one configuration and sees one folder of a program."""

    def __init__(self, server: str, config: ParseConfig, root: Path | None, isolate: bool) -> None:
        self.server, self.config, self.root, self.isolate = server, config, root, isolate

    def ask(self, name: str, question: Mapping[str, Any], read: Callable[[Mapping[str, Any]], R]) -> R:
        """Sends a request about the program `name` and decodes the answer by `read`.

        Raises ParserLost if the parser crashes, or if `read` rejects its answer with ValueError or the like: then the
        process is ended, too.
        """
        config = self.config
        request = {"args": config.args, "cache": str(config.cache), "include": absolute_paths(config.include)}
        answer = _process_for(self).ask(json.dumps({**request, **question}).encode() + b"\n")
        try:
            return read(json.loads(answer))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            close_parser()
            raise ParserLost(f"{name}: the parser's answer cannot be used", cause=str(error)[:200]) from None


# --- the parser's process ---------------------------------------------------------------------------------------------


class _Process:
    """A sandboxed `python -m SERVER` for one session's settings."""

    def __init__(self, session: ParserSession) -> None:
        self.key = _key_of(session)
        config, root, toolchain = session.config, session.root, find_toolchain()
        shows = [
            *toolchain.folders,
            config.cache,
            *config.include,
            *_python_folders(),
            *([root] if root else []),
        ]
        command = [sys.executable, "-B", "-s", "-m", session.server, str(toolchain.libclang)]
        self.session = sandbox.SandboxSession(command, LIMITS, read_only=shows, isolate=session.isolate)

    def ask(self, request: bytes) -> bytes:
        try:
            return self.session.ask(request, MOST_ANSWER_BYTES)
        except EOFError as error:
            close_parser()
            raise ParserLost("the parser crashed or took too much memory", cause=str(error)) from None


_process: _Process | None = None


def _key_of(session: ParserSession) -> tuple[object, ...]:
    return (session.server, session.config, session.root, session.isolate)


def _process_for(session: ParserSession) -> _Process:
    global _process
    # One that something ended between two programs is no fault of the next one.
    if _process is None or _process.key != _key_of(session) or _process.session.has_ended():
        close_parser()
        _process = _Process(session)
    return _process


def close_parser() -> None:
    """Ends this process's parser, if it has one."""
    global _process
    if _process is not None:
        _process.session.close()
        _process = None


# Before the process's scratch folder is deleted, which multiprocessing's workers do in the same way.
util.Finalize(None, close_parser, exitpriority=0)


def _python_folders() -> list[Path]:
    """What a Python process of ours reads: the interpreter, its packages, and the modules of a parser."""
    package = Path(next(iter(hipsynth.__path__)))
    ours = [package, *((package / name).resolve() for name in ("core", "toolchain", "source", "synth"))]
    packages = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    folders = [Path(sys.base_prefix), Path(sys.prefix), *packages, *ours]
    return [path for path in dict.fromkeys(folders) if not path.is_relative_to("/usr")]
