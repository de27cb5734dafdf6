"""Parses one HIP file with libclang: its tokens, and the entities that every identifier refers to.

For invalid code `parse` returns diagnostics with reason codes; it does not raise.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.synth.core.cache import cache_dir
from hipsynth.synth.core.errors import BadInput
from hipsynth.synth.core.files import read_regular, replacing, write_whole
from hipsynth.synth.frontend import clang
from hipsynth.synth.frontend.clang import TU, Kind
from hipsynth.synth.frontend.entities import Entity, Resolver

Chain = tuple[tuple[str, int], ...]  # (file, offset) of include directives, outermost first
COORDINATES = {"threadIdx", "blockIdx", "blockDim", "gridDim"}
VIRTUAL = "/hipsynth/program.hip"
MAX_BYTES = 4 << 20
KEPT_PREAMBLES = 32  # files of about 17 MB each
# The preamble instantiates the templates of its headers; otherwise every parse would do so again (6 times slower).
ALWAYS = ("-w", "-Xclang", "-fpch-instantiate-templates")
HOST = ("--cuda-host-only",)
DEVICE = ("--cuda-device-only",)
_DEVICE_ONLY_TEXT = re.compile(rb"__HIP_DEVICE_COMPILE__|__HIP_ARCH|__CUDA_ARCH__|__AMDGCN|__AMDGPU|__gfx\w+__")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\r?\n)*[^\n]*", re.M)


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

    reason: str
    message: str
    line: int = 0
    column: int = 0

    def in_file(self, path: Path) -> Diagnostic:
        """The same, naming the file: for a program of several files."""
        return replace(self, message=f"{path.name}: {self.message}")

    def __str__(self) -> str:
        position = f"{self.line}:{self.column}: " if self.line else ""
        return f"{self.reason}: {position}{self.message}"


@dataclass(frozen=True)
class Token:
    """One token of the file; `text` is its spelling, [start, end) its byte range."""

    kind: int
    start: int
    end: int
    text: str

    @property
    def identifier(self) -> bool:
        return self.kind == clang.TOKEN_IDENTIFIER


@dataclass(frozen=True)
class Unit:
    """A parsed file. `referents[i]` are the entities that token i refers to in the host and device compilations.

    `cursor_kinds[i]` is the kind of token i's AST node in the host compilation. `functions` are [start, end) byte
    ranges. `header_words` are all identifiers in included headers, `macro_words` those on their #define lines.
    """

    path: str
    text: bytes
    tokens: tuple[Token, ...]
    referents: tuple[frozenset[Entity], ...]
    cursor_kinds: tuple[int, ...]
    functions: tuple[tuple[int, int], ...]
    header_words: frozenset[str]
    macro_words: frozenset[str]

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
    """Why the bytes are not a usable HIP source: empty, larger than MAX_BYTES, NUL bytes, or not UTF-8; else None."""
    if not text.strip():
        return Diagnostic("empty_file", "the file is empty")
    if len(text) > MAX_BYTES:
        return Diagnostic("too_large", f"the file has {len(text)} bytes; the limit is {MAX_BYTES}")
    if b"\0" in text:
        return Diagnostic("not_text", "the file contains NUL bytes")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return Diagnostic("not_utf8", f"byte {error.start} is not UTF-8", text[: error.start].count(b"\n") + 1)
    return None


def parse(
    source: bytes | Path, config: ParseConfig, *, path: str | None = None
) -> tuple[Unit | None, list[Diagnostic]]:
    """The parsed unit, or None and diagnostics.

    `source` is a file or its content; for content, `path` gives the file's path, so that headers beside it are found.
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
    host = _view(text, path, config, HOST)
    if isinstance(host, list):
        return None, host
    referents = host.referents
    if _DEVICE_ONLY_TEXT.search(text):
        device = _view(text, path, config, DEVICE)
        if isinstance(device, list):
            return None, device
        if len(device.referents) == len(referents):
            referents = [a | b for a, b in zip(referents, device.referents, strict=True)]
    words, macro_words = host.words
    unit = Unit(
        path, text, host.tokens, tuple(referents), host.kinds, host.functions, words, macro_words
    )  # fmt: skip
    return unit, []


@dataclass
class _View:
    tokens: tuple[Token, ...]
    referents: list[frozenset[Entity]]
    kinds: tuple[int, ...]
    functions: tuple[tuple[int, int], ...]
    words: tuple[frozenset[str], frozenset[str]]


def _open(text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]) -> tuple[TU, Preamble | None]:
    """Parses the file for one side, HOST or DEVICE; also returns the preamble it uses."""
    args = (*config.search, *side, *ALWAYS)
    preamble = _preamble(preamble_includes(text, (*config.include, Path(path).parent)), args, config.cache)
    extra = ("-Xclang", "-include-pch", "-Xclang", str(preamble.path)) if preamble else ()
    return TU(path, text, args + extra, clang.DETAILED_RECORD), preamble


def _open_again(text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]) -> tuple[TU, Preamble | None]:
    """Like _open, with one retry: in a long-running process a cached preamble may be deleted or outdated."""
    try:
        return _open(text, path, config, side)
    except ValueError:
        _preamble.cache_clear()
        return _open(text, path, config, side)


def _view(text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]) -> _View | list[Diagnostic]:
    try:
        opened, preamble = _open_again(text, path, config, side)
        with opened as tu:
            errors = tu.errors()
            if errors:
                return [_diagnostic(e.text, e.line, e.column, e.file, path) for e in errors]
            return _read(tu, text, preamble)
    except ValueError as error:
        return [Diagnostic("parser_failed", str(error))]


def _diagnostic(text: str, line: int, column: int, file: str, path: str) -> Diagnostic:
    reason = "missing_include" if text.endswith("file not found") else "syntax_error"
    if file not in ("", path):
        return Diagnostic(reason, f"{file}:{line}:{column}: {text}")
    return Diagnostic(reason, text, line, column)


_FUNCTION_KINDS = {
    k.value for k in (Kind.FUNCTION_DECL, Kind.FUNCTION_TEMPLATE, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR)
} | {Kind.CONVERSION_FUNCTION.value}
_TEXT_KINDS = {Kind.PREPROCESSING_DIRECTIVE.value, Kind.INCLUSION_DIRECTIVE.value}


def _read(tu: TU, text: bytes, preamble: Preamble | None) -> _View:
    raw = tu.tokens(len(text))
    tokens = tuple(Token(k, s, e, text[s:e].decode(errors="replace")) for k, s, e, _ in raw)
    resolver = Resolver(tu)
    referents = []
    for token, (_, _, _, cursor) in zip(tokens, raw, strict=True):
        found = resolver.referents(cursor) if token.identifier else ()
        referents.append(frozenset(e for e in found if e.name == token.text))
    functions = _walk(tu, resolver, tokens, [c.kind for _, _, _, c in raw], referents)
    words = header_words(tu.includes(), preamble)
    return _View(tokens, referents, tuple(c.kind for _, _, _, c in raw), functions, words)


def _walk(
    tu: TU, resolver: Resolver, tokens: Sequence[Token], kinds: Sequence[int], referents: list[frozenset[Entity]]
) -> tuple[tuple[int, int], ...]:
    """Resolves tokens that clang_annotateTokens leaves unresolved by walking the AST; returns all function ranges.

    Such tokens are macro bodies (resolved once per expansion) and some operands of overloaded operators.
    """
    open_tokens = {
        t.start: i
        for i, t in enumerate(tokens)
        if t.identifier and not (referents[i] or kinds[i] in _TEXT_KINDS or _is_coordinate(tokens, i))
    }
    functions = []
    for cursor in tu.walk(bodies=bool(open_tokens)):
        if cursor.kind in _FUNCTION_KINDS:
            functions.append(tu.extent(cursor))
        if not open_tokens:
            continue
        file, offset = tu.spelling_place(cursor)
        if file != tu.file or offset not in open_tokens:
            continue
        i = open_tokens[offset]
        found = (e for e in resolver.referents(cursor) if e.name == tokens[i].text)
        referents[i] = referents[i] | frozenset(found)
    return tuple(functions)


def _is_coordinate(tokens: Sequence[Token], i: int) -> bool:
    return i >= 2 and tokens[i - 1].text == "." and tokens[i - 2].text in COORDINATES


def inclusions(
    text: bytes, path: str, config: ParseConfig, side: tuple[str, ...]
) -> tuple[list[tuple[str, Chain, bool]], list[Diagnostic]]:
    """Each file that the preprocessor entered: (path, chain of include directives, whether it is a system header).

    Returns an empty list and diagnostics if the file does not compile.
    """
    try:
        opened, _ = _open(text, path, config, side)
        with opened as tu:
            errors = tu.errors()
            if errors:
                return [], [_diagnostic(e.text, e.line, e.column, e.file, path) for e in errors]
            return tu.inclusions(), []
    except ValueError as error:
        return [], [Diagnostic("parser_failed", str(error))]


def prepare(text: bytes, own: Sequence[Path], config: ParseConfig) -> None:
    """Builds the missing preambles of a file in the cache. Reads library headers only, so it is safe outside a sandbox.

    `own`: folders whose headers belong to the program.
    """
    _make_folder(config.cache)  # a sandbox shows only what exists when it is made
    includes = preamble_includes(text, own)
    sides = (HOST, DEVICE) if _DEVICE_ONLY_TEXT.search(text) else (HOST,)
    for side in sides:
        _preamble(includes, (*config.search, *side, *ALWAYS), config.cache)


# --- precompiled preambles ------------------------------------------------------------------------------------------

_SYSTEM_INCLUDE = re.compile(rb'#\s*include\s*(<[^>\n]+>|"(?:hip|hsa|rocprim|hipcub|thrust)/[^"\n]+")')
_COMMENT_LINE = re.compile(rb"//[^\n]*|/\*.*?\*/", re.S)
# Headers designed to be included repeatedly: their meaning depends on the macros defined at that point.
_REPEATABLE = {b"<assert.h>", b"<cassert>", b"<stddef.h>"}


def preamble_includes(text: bytes, own: Sequence[Path] = ()) -> tuple[str, ...]:
    """The library headers that a file includes first, before other code; a preamble precompiles them.

    A header found in one of the folders `own` belongs to the program and ends the preamble.
    """
    found = []
    position = 0
    while position < len(text):
        if text[position : position + 1].isspace():
            position += 1
            continue
        comment = _COMMENT_LINE.match(text, position)
        if comment:
            position = comment.end()
            continue
        include = _SYSTEM_INCLUDE.match(text, position)
        if include is None:
            once = re.compile(rb"#\s*pragma\s+once[^\n]*").match(text, position)
            if once is None:
                break
            position = once.end()
            continue
        name = include[1][1:-1].decode(errors="replace")
        if name.startswith("/") or ".." in name or any((folder / name).exists() for folder in own):
            break
        if include[1] not in _REPEATABLE:
            found.append(include[1].decode(errors="replace"))
        position = include.end()
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Preamble:
    """A precompiled sequence of includes, with the files and identifiers of its headers."""

    path: Path
    files: frozenset[str]
    words: frozenset[str]
    macro_words: frozenset[str]


@functools.lru_cache(maxsize=64)
def _preamble(includes: tuple[str, ...], args: tuple[str, ...], cache: Path) -> Preamble | None:
    """Finds or builds the precompiled header; None if there is nothing to precompile or it cannot be built."""
    if not includes:
        return None
    key = hashlib.sha256("\0".join((clang.version(), *args, "", *includes)).encode()).hexdigest()[:24]
    if not _make_folder(cache):
        return None
    source, target, listing = cache / f"{key}.hip", cache / f"{key}.pch", cache / f"{key}.files"
    if _fresh(target, listing):
        with contextlib.suppress(OSError):  # in a sandbox the cache is read-only
            os.utime(target)
            _let_read(target, listing)
    elif _build(includes, args, source, target, listing):
        _prune(cache)
    else:
        return None
    files = listing.read_text().splitlines()
    words, macro_words = _words_of(files)
    return Preamble(target, frozenset(files), words, macro_words)


def _make_folder(cache: Path) -> bool:
    """Makes the folder of preambles, for all users of this machine to read; False if that fails."""
    try:
        if not cache.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            cache.chmod(0o755)
    except OSError:
        return False
    return True


def _fresh(target: Path, listing: Path) -> bool:
    """Whether a stored preamble is at least as new as every header in it."""
    try:
        made = target.stat().st_mtime
        return all(Path(name).stat().st_mtime <= made for name in listing.read_text().splitlines())
    except OSError:
        return False


def _build(includes: tuple[str, ...], args: tuple[str, ...], source: Path, target: Path, listing: Path) -> bool:
    text = "".join(f"#include {name}\n" for name in includes).encode()
    options = clang.DETAILED_RECORD | clang.INCOMPLETE | clang.FOR_SERIALIZATION
    try:
        if not source.exists() or source.read_bytes() != text:
            write_whole(source, text)
        with TU(str(source), None, args, options) as tu:
            if tu.errors():
                return False
            with replacing(target) as fresh:
                if not tu.save(fresh):
                    raise OSError("the preamble cannot be saved")
                write_whole(listing, "".join(f + "\n" for f in tu.includes()))
        _let_read(source, target, listing)
    except (ValueError, OSError, BadInput):
        return False
    return True


def _let_read(*paths: Path) -> None:
    """Makes files of the cache readable for the user that sandboxes of root run as."""
    for path in paths:
        path.chmod(0o644)


def _prune(cache: Path) -> None:
    """Removes the least recently used preambles, except those used in the last hour, which a worker may be reading."""
    with contextlib.suppress(OSError):
        used = sorted(((path.stat().st_mtime, path) for path in cache.glob("*.pch")), reverse=True)
        for when, path in used[KEPT_PREAMBLES:]:
            if when < time.time() - 3600:
                for suffix in (".pch", ".hip", ".files"):
                    path.with_suffix(suffix).unlink(missing_ok=True)


# --- identifiers of headers -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _file_words(path: str) -> tuple[frozenset[str], frozenset[str]]:
    try:
        text = Path(path).read_bytes()
    except OSError:
        return frozenset(), frozenset()
    macros = b"\n".join(_DEFINE.findall(text))
    return _identifiers(text), _identifiers(macros)


def _identifiers(text: bytes) -> frozenset[str]:
    return frozenset(w.decode() for w in set(_WORD.findall(text)))


def _words_of(files: Sequence[str]) -> tuple[frozenset[str], frozenset[str]]:
    pairs = [_file_words(f) for f in files]
    return frozenset().union(*(p[0] for p in pairs)), frozenset().union(*(p[1] for p in pairs))


def header_words(files: Sequence[str], preamble: Preamble | None) -> tuple[frozenset[str], frozenset[str]]:
    """All identifiers of the given headers, and those on their #define lines."""
    if preamble is None:
        return _words_of(files)
    rest = [f for f in files if f not in preamble.files and f != str(preamble.path)]
    rest = [f for f in rest if not f.endswith(".pch") and Path(f).parent != preamble.path.parent]
    words, macro_words = _words_of(rest)
    if not rest:
        return preamble.words, preamble.macro_words
    return preamble.words | words, preamble.macro_words | macro_words
