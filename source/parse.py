"""Parses one HIP file with libclang: its tokens, and the entities that every identifier refers to.

For invalid code `parse_source` returns diagnostics with reason codes; it does not raise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hipsynth.core.cache import cache_dir
from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular
from hipsynth.core.reasons import Reason
from hipsynth.source import clang
from hipsynth.source.clang import TU, CompilerMessage
from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.cursor_kinds import Kind
from hipsynth.source.encoding import find_misplaced
from hipsynth.source.entities import NOTHING, Entity, Resolver
from hipsynth.source.functions import FunctionNode, find_functions
from hipsynth.source.preambles import (
    Macros,
    Preamble,
    forget_preambles,
    header_words,
    includes_of,
    make_folder,
    preamble_of,
    reserved_by,
)
from hipsynth.toolchain.diagnostics import read_missing_header

Chain = tuple[tuple[str, int], ...]  # (file, offset) of include directives, outermost first
VIRTUAL = "/hipsynth/program.hip"
MAX_BYTES = 4 << 20
# The preamble instantiates the templates of its headers, and a file parsed as INCOMPLETE its own: then libclang leaves
# out only the checks at the end of a file, such as for unused functions, for which it would read most of the preamble.
ALWAYS = ("-w", "-Xclang", "-fpch-instantiate-templates")
HOST = ("--cuda-host-only",)
DEVICE = ("--cuda-device-only",)
_DEVICE_ONLY_TEXT = re.compile(rb"__HIP_DEVICE_COMPILE__|__HIP_ARCH|__CUDA_ARCH__|__AMDGCN|__AMDGPU|__gfx\w+__")


def _preamble_folder() -> Path:
    return cache_dir() / "preambles"


@dataclass(frozen=True)
class ParseConfig:
    """Parser settings: clang driver arguments for HIP (without the choice of host or device), and the preamble folder.

    `args` give the language, the architecture, the headers, and the resource directory of the clang that the headers
    belong to, e.g. ("-x", "hip", "--offload-arch=gfx90a", "-nogpulib", "--rocm-path=…", "-isystem", "…",
    "-resource-dir", "…").
    """

    args: tuple[str, ...]
    cache: Path = field(default_factory=_preamble_folder)
    include: tuple[Path, ...] = ()  # folders with the program's own headers (-I); flatten may inline from them

    @property
    def search(self) -> tuple[str, ...]:
        """`args` with the folders of the program's own headers."""
        return (*self.args, *(f"-I{folder}" for folder in self.include))


@dataclass(frozen=True)
class Diagnostic:
    """Why a file is unusable. `reason` is the code stored in a corpus; lines and columns count from 1, 0 is unknown."""

    reason: Reason
    message: str
    line: int = 0
    column: int = 0
    missing_header: str = ""  # the name of an included file that is not there

    def in_file(self, path: Path) -> Diagnostic:
        """The same, naming the file: for a program of several files."""
        return replace(self, message=f"{path.name}: {self.message}")

    def __str__(self) -> str:
        position = f"{self.line}:{self.column}: " if self.line else ""
        return f"{self.reason}: {position}{self.message}"


class UnparsableProgram(BadInput):
    """Code that cannot be parsed, for the reason that `problem` gives (exit 3)."""

    reason = Reason.SYNTAX_ERROR

    def __init__(self, what: str, *, problem: Diagnostic | None = None) -> None:
        self.problem = problem or Diagnostic(Reason.SYNTAX_ERROR, "")
        super().__init__(what, cause=str(self.problem), remedy=self.reason.remedy)


class Token(NamedTuple):
    """One token of the file; `text` is its spelling, [start, end) its byte range."""

    kind: int
    start: int
    end: int
    text: str

    @property
    def identifier(self) -> bool:
        return self.kind == clang.TOKEN_IDENTIFIER


@dataclass(frozen=True)
class ParsedUnit:
    """A parsed file. `referents[i]` are the entities that token i refers to in the host and device compilations.

    `cursor_kinds[i]` is the kind of token i's AST node in the host compilation. `functions` are [start, end) byte
    ranges. `header_words` are all identifiers in included headers, `macro_words` those that locals must not have
    because of macros (see `preambles.reserved_by`).
    """

    path: str
    text: bytes
    tokens: tuple[Token, ...]
    referents: tuple[frozenset[Entity], ...]
    cursor_kinds: tuple[int, ...]
    functions: tuple[tuple[int, int], ...]
    header_words: frozenset[str]
    macro_words: frozenset[str]
    skipped: frozenset[int] = frozenset()  # tokens in branches of #if that neither compilation takes
    definitions: tuple[FunctionNode, ...] = ()  # the functions with a body, if they were asked for

    @functools.cached_property
    def has_kernel(self) -> bool:
        """Whether the file itself contains `__global__` or the equivalent attribute."""
        return b"__global__" in {t.text.encode() for t in self.tokens} or b"__attribute__((global))" in self.text


def load_source(path: Path, inside: Path | None = None) -> tuple[bytes | None, list[Diagnostic]]:
    """The bytes of a source file, or None and why it is unusable (see `check_source` and `read_regular`)."""
    try:
        text = read_regular(path, MAX_BYTES, inside=inside)
    except BadInput as error:
        return None, [Diagnostic(error.reason, error.what + (f": {error.cause}" if error.cause else ""))]
    problem = check_source(text)
    return (None, [problem]) if problem else (text, [])


def check_source(text: bytes) -> Diagnostic | None:
    """Why the bytes are not a usable HIP source: empty, larger than MAX_BYTES, NUL bytes, or bytes that are not UTF-8
    outside comments and literals; else None."""
    if not text.strip():
        return Diagnostic(Reason.EMPTY_FILE, "the file is empty")
    if len(text) > MAX_BYTES:
        return Diagnostic(Reason.TOO_LARGE, f"the file has {len(text)} bytes; the limit is {MAX_BYTES}")
    if b"\0" in text:
        return Diagnostic(Reason.NOT_TEXT, "the file contains NUL bytes")
    if (at := find_misplaced(text)) is not None:
        problem = f"byte {at} is not UTF-8 and stands outside comments and narrow string literals"
        return Diagnostic(Reason.NOT_UTF8, problem, text[:at].count(b"\n") + 1)
    return None


def parse_source(
    source: bytes | Path, config: ParseConfig, *, path: str | None = None, definitions: bool = False
) -> tuple[ParsedUnit | None, list[Diagnostic]]:
    """The parsed unit, or None and diagnostics.

    `source` is a file or its content; for content, `path` gives the file's path, so that headers beside it are found.
    `definitions`: whether to list the functions that the file defines.
    """
    if isinstance(source, Path):
        text, diagnostics = load_source(source)
        if text is None:
            return None, diagnostics
        path = str(source.resolve())
    else:
        text = source
        problem = check_source(text)
        if problem:
            return None, [problem]
    path = path or VIRTUAL
    host = _view_side(text, path, config, HOST, definitions)
    if isinstance(host, list):
        return None, host
    device = _view_side(text, path, config, DEVICE, definitions) if _DEVICE_ONLY_TEXT.search(text) else None
    if isinstance(device, list):
        return None, device
    return _join_sides(path, text, host, device), []


def _join_sides(path: str, text: bytes, host: _View, device: _View | None) -> ParsedUnit:
    """The unit of both sides; what only the device side has is added to the host's."""
    referents, skipped = host.referents, host.skipped
    functions = {definition.place: definition for definition in host.definitions}
    if device is not None:
        if len(device.referents) == len(referents):
            referents = [a | b for a, b in zip(referents, device.referents, strict=True)]
            skipped &= device.skipped
        functions = {definition.place: definition for definition in device.definitions} | functions
    words, macros = host.words
    macro_words = reserved_by(macros, {t.text for t in host.tokens if t.identifier})
    return ParsedUnit(
        path, text, host.tokens, tuple(referents), host.kinds, host.functions, words, macro_words, skipped,
        tuple(functions[place] for place in sorted(functions)),
    )  # fmt: skip


@dataclass
class _View:
    tokens: tuple[Token, ...]
    referents: list[frozenset[Entity]]
    kinds: tuple[int, ...]
    functions: tuple[tuple[int, int], ...]
    words: tuple[frozenset[str], Macros]
    skipped: frozenset[int]
    definitions: list[FunctionNode]


def _open_unit(text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]) -> tuple[TU, Preamble | None]:
    """Parses the file for one side, HOST or DEVICE; also returns the preamble it uses."""
    args = (*config.search, *side, *ALWAYS)
    include_folders = (*config.include, Path(path).parent)
    preamble = preamble_of(includes_of(text, include_folders), (*config.args, *side, *ALWAYS), config.cache)
    extra = ("-Xclang", "-include-pch", "-Xclang", str(preamble.path)) if preamble else ()
    return TU(path, text, args + extra, clang.DETAILED_RECORD | clang.INCOMPLETE), preamble


def _open_again(text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]) -> tuple[TU, Preamble | None]:
    """Like _open, with one retry: in a long-running process a cached preamble may be deleted or outdated."""
    try:
        return _open_unit(text, path, config, side)
    except ValueError:
        forget_preambles()
        return _open_unit(text, path, config, side)


def _view_side(
    text: bytes, path: str, config: ParseConfig, side: tuple[str, ...], definitions: bool
) -> _View | list[Diagnostic]:
    try:
        opened, preamble = _open_again(text, path, config, side)
        with opened as tu:
            errors = tu.errors()
            if errors:
                return [_read_diagnostic(e, path) for e in errors]
            return _read_view(tu, text, preamble, definitions)
    except ValueError as error:
        return [Diagnostic(Reason.PARSER_FAILED, str(error))]


def _read_diagnostic(message: CompilerMessage, path: str) -> Diagnostic:
    header = read_missing_header(message.text)
    reason = Reason.MISSING_INCLUDE if header else Reason.SYNTAX_ERROR
    if message.file not in ("", path):
        _, problems = load_source(Path(message.file))
        if problems and problems[0].reason == Reason.NOT_UTF8:
            return problems[0].in_file(Path(message.file))
        text = f"{message.file}:{message.line}:{message.column}: {message.text}"
        return Diagnostic(reason, text, missing_header=header)
    return Diagnostic(reason, message.text, message.line, message.column, header)


def _read_view(tu: TU, text: bytes, preamble: Preamble | None, definitions: bool) -> _View:
    raw, cursors, kinds = tu.tokens(len(text))
    tokens = tuple([Token(k, s, e, text[s:e].decode(errors="replace")) for k, s, e in raw])
    resolver = Resolver(tu)
    referents = [NOTHING] * len(tokens)
    for i, token in enumerate(tokens):
        if token.kind == clang.TOKEN_IDENTIFIER:
            referents[i] = resolver.named(cursors[i], token.text)
    functions = _walk_cursors(tu, resolver, tokens, kinds, referents)
    branches = tu.skipped() if b"#" in text else []
    skipped = frozenset(i for i, t in enumerate(tokens) if branches and any(a <= t.start < b for a, b in branches))
    words = header_words(tu.includes(), preamble)
    nodes = find_functions(tu) if definitions else []
    return _View(tokens, referents, tuple(kinds), functions, words, skipped, nodes)


_TEXT_KINDS = {Kind.PREPROCESSING_DIRECTIVE.value, Kind.INCLUSION_DIRECTIVE.value}


def _walk_cursors(
    tu: TU, resolver: Resolver, tokens: Sequence[Token], kinds: Sequence[int], referents: list[frozenset[Entity]]
) -> tuple[tuple[int, int], ...]:
    """Resolves tokens that clang_annotateTokens leaves unresolved by walking the AST; returns all function ranges.

    Such tokens are macro bodies (resolved once per expansion) and some operands of overloaded operators.
    """
    open_tokens = {
        t.start: i
        for i, t in enumerate(tokens)
        if t.kind == clang.TOKEN_IDENTIFIER
        and not (referents[i] or kinds[i] in _TEXT_KINDS or _is_coordinate(tokens, i))
    }
    macros = {tokens[i + 1].text for i, t in enumerate(tokens[:-1]) if t.text == "define"}
    places = [t.start for i, t in enumerate(tokens) if t.start in open_tokens or t.text in macros]
    functions, entries = tu.walk(open_tokens, places if open_tokens else [])
    for offset, cursor in entries:
        i = open_tokens[offset]
        referents[i] |= resolver.named(cursor, tokens[i].text)
    return tuple(functions)


def _is_coordinate(tokens: Sequence[Token], i: int) -> bool:
    return i >= 2 and tokens[i - 1].text == "." and tokens[i - 2].text in COORDINATES


def list_inclusions(
    text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]
) -> tuple[list[tuple[str, Chain, bool]], list[Diagnostic]]:
    """Each file that the preprocessor entered: (path, chain of include directives, whether it is a system header).

    Returns an empty list and diagnostics if the file does not compile.
    """
    try:
        opened, _ = _open_unit(text, path, config, side)
        with opened as tu:
            errors = tu.errors()
            if errors:
                return [], [_read_diagnostic(e, path) for e in errors]
            return tu.inclusions(), []
    except ValueError as error:
        return [], [Diagnostic(Reason.PARSER_FAILED, str(error))]


def prepare_preambles(text: bytes, folders: Sequence[Path], config: ParseConfig) -> None:
    """Builds the missing preambles of a file in the cache. Reads library headers only, so it is safe outside a sandbox.

    `folders`: folders whose headers belong to the program.
    """
    make_folder(config.cache)  # a sandbox shows only what exists when it is made
    includes = includes_of(text, folders)
    sides = (HOST, DEVICE) if _DEVICE_ONLY_TEXT.search(text) else (HOST,)
    for side in sides:
        preamble_of(includes, (*config.args, *side, *ALWAYS), config.cache)
