"""Parses untrusted programs in a sandbox: one long-lived process of this worker that answers in lines of JSON.

libclang reads any file that a program includes, so it runs where only the headers and the program's own folder exist.
Answers are validated, because a hostile program may have taken over the parser.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import util
from pathlib import Path
from typing import TypeVar

import hipsynth
from hipsynth.core.documents import document_json, from_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.source.parse import VIRTUAL, ParseConfig, ParsedUnit, Token, UnparsableProgram, prepare_preambles
from hipsynth.source.parse_protocol import ParseAnswer, ParseRequest, absolute_config
from hipsynth.toolchain import find_toolchain, sandbox

LIMITS = sandbox.SandboxLimits(cpu_s=1e6, memory_bytes=4 << 30, file_bytes=1 << 20, threads=64)
PARSE_SERVER = "hipsynth.source.parse_server"
MOST_ANSWER_BYTES = 64 << 20
ANSWER_SECONDS = 300.0  # of processor time for one request; also of waiting without any

R = TypeVar("R")


class ParserLost(HipsynthError):
    """The process that parses gave no answer: a crash of libclang, or too much memory or time."""

    reason = Reason.WORKER_DIED


def parse_isolated(text: str, config: ParseConfig, isolate: bool = True) -> ParsedUnit:
    """The tokens of a program and what they refer to, parsed in the sandbox; quoted includes are not found.

    It lists the functions that the text defines; kinds of cursors and the words of headers are left empty. Raises
    UnparsableProgram for code that cannot be parsed, ParserLost if the parser crashes or takes too long.
    """
    prepare_preambles(text.encode(), config.include, config)
    session = ParserSession(PARSE_SERVER, config, None, isolate)
    return session.ask("the program", ParseRequest(absolute_config(config), text), partial(_read_unit, text))


def _read_unit(text: str, value: object) -> ParsedUnit:
    answer = from_json(ParseAnswer, value)
    if answer.problem is not None:
        raise UnparsableProgram("the program cannot be parsed", problem=answer.problem)
    data = text.encode()
    tokens = tuple(Token(kind, start, end, data[start:end].decode()) for kind, start, end in answer.tokens)
    referents = tuple(frozenset(answer.entities[i] for i in referent) for referent in answer.referents)
    if len(referents) != len(tokens):
        raise ValueError("a token has no referents")
    words: frozenset[str] = frozenset()
    return ParsedUnit(VIRTUAL, data, tokens, referents, (), (), words, words, frozenset(), answer.definitions)


class ParserSession:
    """Questions to a server (a module of ours) that parses with one configuration and sees one folder of a program."""

    def __init__(self, server: str, config: ParseConfig, root: Path | None, isolate: bool) -> None:
        self.server, self.config, self.root, self.isolate = server, config, root, isolate

    def ask(self, name: str, request: object, read: Callable[[object], R]) -> R:
        """Sends a request (a document) about the program `name` and decodes the answer's JSON by `read`.

        Raises ParserLost if the parser crashes or takes too long (reason "timeout"), or if `read` rejects its answer
        with ValueError or the like: then the process is ended, too.
        """
        answer = _process_for(self).ask(json.dumps(document_json(request)).encode() + b"\n")
        try:
            return read(json.loads(answer))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
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
            return self.session.ask(request, MOST_ANSWER_BYTES, ANSWER_SECONDS)
        except EOFError as error:
            close_parser()
            raise ParserLost("the parser crashed or took too much memory", cause=str(error)) from None
        except TimeoutError as error:
            close_parser()
            problem = "the program cannot be parsed in time"
            raise ParserLost(problem, cause=str(error), remedy="make it simpler", reason=Reason.TIMEOUT) from None


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
