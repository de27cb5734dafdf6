"""Runs the front end on untrusted programs in a sandbox: one long-lived process that parses for each worker.

libclang reads any file that a program includes, so it runs where only the headers and the program's own folder exist.
Requests and answers are lines of JSON; what comes back is checked, because a program may have taken over the parser.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import util
from pathlib import Path
from typing import Any, TypeVar

import hipsynth
from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.core.files import read_regular
from hipsynth.core.program import Program
from hipsynth.synth.frontend.entities import Entity
from hipsynth.synth.frontend.parse import MAX_BYTES, VIRTUAL, ParseConfig, Token, Unit, prepare
from hipsynth.synth.frontend.proof import same_code
from hipsynth.synth.frontend.texts import DEFAULT_TEXTS, Texts
from hipsynth.synth.frontend.vary import Failure, Item, Varied, copy_seed, with_base
from hipsynth.toolchain import find, sandbox

LIMITS = sandbox.SandboxLimits(cpu_s=1e6, memory_bytes=4 << 30, file_bytes=1 << 20, threads=64)
RENAME = "rename"
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
    texts: Texts = DEFAULT_TEXTS
    kinds: tuple[str, ...] = (RENAME,)  # the passes that make a copy


def vary_isolated(request: Request) -> Varied:
    """Like `vary.vary`, in a sandbox that sees the headers and the item's own folder.

    Raises Missing if programs cannot be isolated here, ParserLost if the parser crashes on this item.
    """
    item = request.item
    if item.problem is not None:
        return Varied((), (Failure(item.name, 0, item.problem.reason, str(item.problem)),))
    base: Program | Failure | None = item.program
    if base is None:
        for text, folders in _texts(item):
            prepare(text, (*request.config.include, *folders), request.config)
        base = _ask(request, {"do": "flatten", "item": _item(item)}, _base)
    if isinstance(base, Failure):
        return Varied((), (base,))
    prepare(base.text.encode(), request.config.include, request.config)
    return with_base(item, base, _varied(request, base))


def parse_isolated(text: str, config: ParseConfig, isolate: bool = True) -> Unit:
    """The tokens of a program and what they refer to, parsed in the sandbox; quoted includes are not found.

    Ranges of functions, kinds of cursors and the words of headers are left empty. Raises BadInput for code that cannot
    be parsed, ParserLost if the parser crashes.
    """
    prepare(text.encode(), config.include, config)
    request = Request(Item("the program"), 0, 0, config, isolate)
    return _ask(request, {"do": "parse", "text": text}, partial(_unit, text))


def _varied(request: Request, base: Program) -> Varied:
    """The copies of a base."""
    numbers = range(1, request.copies + 1)
    if request.kinds == (RENAME,):
        return _renamed(request, base, numbers)
    made = []
    for number in numbers:
        start = _reformed(request, base, number)
        if RENAME in request.kinds:
            made.append(_renamed(request, start, [number]))
        elif start.text == base.text:
            nothing = Failure(request.item.name, number, "unchanged", "there is nothing to change")
            made.append(Varied((), (nothing,)))
        else:
            made.append(Varied((start,), ()))
    programs = tuple(program for one in made for program in one.programs)
    failures = tuple(failure for one in made for failure in one.failures)
    kept = {name: reason for one in made for name, reason in one.kept.items()}
    return Varied(programs, failures, kept, max((one.names for one in made), default=0))


def _renamed(request: Request, base: Program, numbers: Iterable[int]) -> Varied:
    question = {"do": "rename", "program": _program(base), "numbers": list(numbers)}
    return _ask(request, question, partial(_copies, base))


SHARES = ("", ",0.2")  # of its sites that a pass changes, one after the other until the proof succeeds


def _reformed(request: Request, base: Program, number: int) -> Program:
    """The base after the other passes: all of them if the result is proven to be the same program, else those one by
    one for which it is."""
    kinds = [kind for kind in request.kinds if kind != RENAME]
    seed = copy_seed(request.seed, number)
    whole = _passed(request, base, [f"{kind}:{seed}" for kind in kinds])
    if whole.text == base.text or same_code(base.text, whole.text):
        return whole
    made = base
    for kind in kinds:
        for share in SHARES:
            one = _passed(request, made, [f"{kind}:{seed}{share}"])
            if one.text == made.text or same_code(base.text, one.text):
                made = one
                break
    return made


def _passed(request: Request, base: Program, steps: Sequence[str]) -> Program:
    question = {"do": "reform", "program": _program(base), "steps": list(steps)}
    (program,) = _ask(request, question, partial(_copies, base)).programs
    return program


R = TypeVar("R")


def _ask(request: Request, question: Mapping[str, Any], read: Callable[[Item, Mapping[str, Any]], R]) -> R:
    """What `read` makes of the parser's answer; one that it rejects with ValueError or the like ends it."""
    item, config, texts = request.item, request.config, request.texts
    document = {
        "name": item.name,
        "seed": request.seed,
        "texts": [texts.comments, texts.strings],
        "args": config.args,
        "cache": str(config.cache),
        "include": _paths(config.include),
        **question,
    }
    root = item.root.absolute() if item.root else None  # the parser has another working folder
    answer = _session(config, root, request.isolate).ask(json.dumps(document).encode() + b"\n")
    try:
        return read(item, json.loads(answer))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        close()
        raise ParserLost(f"{item.name}: the parser's answer cannot be used", cause=str(error)[:200]) from None


def _texts(item: Item) -> list[tuple[bytes, tuple[Path, ...]]]:
    """The texts of the item's files, with the folders whose headers are the program's own."""
    found = []
    with contextlib.suppress(BadInput):
        for build in item.ways:
            for number, path in enumerate(build.files):
                text = build.head(number) + read_regular(path, MAX_BYTES, inside=item.root)
                found.append((text, (path.parent, *build.includes)))
    return found


def _paths(paths: Iterable[Path]) -> list[str]:
    return [str(path.absolute()) for path in paths]


def _item(item: Item) -> dict[str, Any]:
    builds = []
    for build in item.ways:
        settings = [
            [one.defines, one.undefines, _paths(one.includes), _paths(one.preludes), one.standard]
            for one in build.settings
        ]
        builds.append([_paths(build.files), settings])
    return {"root": str(item.root.absolute()) if item.root else None, "builds": builds}


def _program(program: Program) -> dict[str, Any]:
    return {**program.record(), "text": program.text}


# --- what the parser says, which may be anything ---------------------------------------------------------------------


def _base(item: Item, answer: Mapping[str, Any]) -> Program | Failure:
    if answer["failures"]:
        return _failures(item, answer)[0]
    (row,) = answer["programs"]
    main = item.ways[-1].files[-1]
    return Program(_text(row), "handwritten", main.parent.name, main.stem, derivation=_steps(row))


def _copies(base: Program, item: Item, answer: Mapping[str, Any]) -> Varied:
    lineage = base.lineage or base.id
    programs = [replace(base, text=_text(row), derivation=_steps(row), lineage=lineage) for row in answer["programs"]]
    kept = {_short(name): _short(reason) for name, reason in answer["kept"].items()}
    return Varied(tuple(programs), tuple(_failures(item, answer)), kept, int(answer["names"]))


def _unit(text: str, item: Item, answer: Mapping[str, Any]) -> Unit:
    if "problem" in answer:
        raise BadInput("the program cannot be parsed", cause=_short(answer["problem"]), reason="syntax_error")
    data = text.encode()
    tokens = tuple(Token(int(k), int(a), int(b), data[a:b].decode()) for k, a, b, _ in answer["tokens"])
    places = [(_short(row["place"][0]), int(row["place"][1])) for row in answer["entities"]]
    entities = [Entity(**{**row, "place": at}) for row, at in zip(answer["entities"], places, strict=True)]
    referents = tuple(frozenset(entities[i] for i in found) for found in answer["referents"])
    if len(referents) != len(tokens):
        raise ValueError("a token has no referents")
    return Unit(VIRTUAL, data, tokens, referents, (), (), frozenset(), frozenset())


def _failures(item: Item, answer: Mapping[str, Any]) -> list[Failure]:
    return [Failure(item.name, int(copy), _short(reason), _short(text)) for copy, reason, text in answer["failures"]]


def _text(row: Mapping[str, Any]) -> str:
    text = row["text"]
    if not isinstance(text, str) or not text or len(text.encode()) > 4 * MAX_BYTES:
        raise ValueError("a program is no text")
    return text


def _steps(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(_short(step) for step in row["derivation"])


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
    ours = [package, *((package / name).resolve() for name in ("core", "toolchain", "synth"))]
    packages = [Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    found = [Path(sys.base_prefix), Path(sys.prefix), *packages, *ours]
    return [path for path in dict.fromkeys(found) if not path.is_relative_to("/usr")]
