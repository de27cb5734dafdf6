"""Runs the front end on untrusted programs in a sandbox: one long-lived process that parses for each worker.

libclang reads any file that a program includes, so it runs where only the headers and the program's own folder exist.
Requests and answers are lines of JSON; what comes back is checked, because a program may have taken over the parser.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from multiprocessing import util
from pathlib import Path
from typing import Any

import hipsynth
from hipsynth.profiling import sandbox
from hipsynth.profiling.toolchain import find
from hipsynth.synth.core.errors import BadInput, HipsynthError
from hipsynth.synth.core.files import read_regular
from hipsynth.synth.core.program import Program, is_id
from hipsynth.synth.frontend.parse import MAX_BYTES, ParseConfig, prepare
from hipsynth.synth.frontend.vary import Failure, Item, Varied

LIMITS = sandbox.SandboxLimits(cpu_s=1e6, memory_bytes=4 << 30, file_bytes=1 << 20, threads=64)
MOST_ANSWER_BYTES = 64 << 20
_TEXT_CHARS = 4000


class ParserLost(HipsynthError):
    """The process that parses ended without an answer: a crash of libclang, or too much memory."""

    reason = "worker_died"


@dataclass(frozen=True)
class Request:
    """One item to vary."""

    item: Item
    copies: int
    seed: int
    config: ParseConfig
    isolate: bool = True


def vary_isolated(request: Request) -> Varied:
    """Like `vary.vary`, in a sandbox that sees the headers and the item's own folder.

    Raises Missing if programs cannot be isolated here, ParserLost if the parser crashes on this item.
    """
    item = request.item
    if item.problem is not None:
        return Varied((), (Failure(item.name, 0, item.problem.reason, str(item.problem)),))
    for text, folder in _texts(item):
        prepare(text, (*request.config.include, *folder), request.config)
    root = item.root.absolute() if item.root else None  # the parser has another working folder
    answer = _session(request.config, root, request.isolate).ask(_encoded(request))
    try:
        return _decoded(json.loads(answer), item)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        close()
        raise ParserLost(f"{item.name}: the parser's answer cannot be used", cause=str(error)[:200]) from None


def _texts(item: Item) -> list[tuple[bytes, tuple[Path, ...]]]:
    """The texts of the item's files, with the folders whose headers are the program's own."""
    if item.program is not None:
        return [(item.program.text.encode(errors="replace"), ())]
    with contextlib.suppress(BadInput):
        return [(read_regular(path, MAX_BYTES, inside=item.root), (path.parent,)) for path in item.files]
    return []


def _encoded(request: Request) -> bytes:
    item, config = request.item, request.config
    document: dict[str, Any] = {
        "copies": request.copies,
        "seed": request.seed,
        "args": config.args,
        "cache": str(config.cache),
        "include": [str(path.absolute()) for path in config.include],
        "name": item.name,
        "files": [str(path.absolute()) for path in item.files],
        "root": str(item.root.absolute()) if item.root else None,
    }
    if item.program is not None:
        document["program"] = {**item.program.record(), "text": item.program.text}
    return json.dumps(document).encode() + b"\n"


def _decoded(answer: Mapping[str, Any], item: Item) -> Varied:
    """The answer as programs; raises ValueError and the like for anything that the front end would not say."""
    programs = [_program(row, item) for row in answer["programs"]]
    failures = [
        Failure(item.name, int(copy), _short(reason), _short(message)) for copy, reason, message in answer["failures"]
    ]
    return Varied(tuple(programs), tuple(failures))


def _program(row: Mapping[str, Any], item: Item) -> Program:
    text, lineage, derivation = row["text"], row["lineage"], tuple(_short(step) for step in row["derivation"])
    if not isinstance(text, str) or not text or len(text.encode()) > 4 * MAX_BYTES:
        raise ValueError("a program is no text")
    if lineage != "" and not is_id(lineage):
        raise ValueError("a lineage is no id")
    if item.program is not None:
        return replace(item.program, text=text, derivation=derivation, lineage=item.program.lineage or item.program.id)
    main = item.files[-1]
    return Program(text, "handwritten", main.parent.name, main.stem, derivation=derivation, lineage=lineage)


def _short(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _TEXT_CHARS:
        raise ValueError("a text is missing or too long")
    return value


# --- the parser's process ---------------------------------------------------------------------------------------------


class _Parser:
    """A sandboxed `python -m hipsynth.synth.frontend.server` for one configuration and one visible folder."""

    def __init__(self, config: ParseConfig, root: Path | None, isolate: bool) -> None:
        self.key = (config, root, isolate)
        shows = [*find().folders, config.cache, *config.include, *python_folders(), *([root] if root else [])]
        command = [sys.executable, "-B", "-s", "-m", "hipsynth.synth.frontend.server"]
        self.session = sandbox.Session(command, LIMITS, read_only=shows, isolate=isolate)

    def ask(self, request: bytes) -> bytes:
        try:
            return self.session.ask(request, MOST_ANSWER_BYTES)
        except EOFError as error:
            close()
            raise ParserLost("the parser crashed or took too much memory", cause=str(error)) from None


_parser: _Parser | None = None


def _session(config: ParseConfig, root: Path | None, isolate: bool) -> _Parser:
    global _parser
    if _parser is None or _parser.key != (config, root, isolate):
        close()
        _parser = _Parser(config, root, isolate)
    return _parser


def close() -> None:
    """Ends this process's parser, if it has one."""
    global _parser
    if _parser is not None:
        _parser.session.close()
        _parser = None


# Before the process's scratch folder is deleted, which multiprocessing's workers do in the same way.
util.Finalize(None, close, exitpriority=0)


def python_folders() -> list[Path]:
    """What a Python process of ours reads: the interpreter, its packages, and this package's modules."""
    package = Path(next(iter(hipsynth.__path__)))
    ours = [package, *((package / name).resolve() for name in ("synth", "profiling"))]
    packages = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    found = [Path(sys.base_prefix), Path(sys.prefix), *packages, *ours]
    return [path for path in dict.fromkeys(found) if not path.is_relative_to("/usr")]
