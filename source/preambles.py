"""Precompiled preambles: the library headers that a file includes first, parsed once and kept in a cache.

A preamble also instantiates what most programs instantiate (`instances.hpp`), so that no parse does so again.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import replace_atomically, write_whole
from hipsynth.source import clang
from hipsynth.source.clang import TU

MOST_CACHED_PREAMBLES = 32  # files of about 17 MB each
INSTANCES = Path(__file__).with_name("instances.hpp")
_WORD = re.compile(rb"[A-Za-z_]\w*")
_DEFINE = re.compile(rb"^[ \t]*#[ \t]*define\b(?:[^\n]*\\\r?\n)*[^\n]*", re.M)
_MACRO = re.compile(rb"[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?")
_NO_NAMES = re.compile(rb'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|__attribute__[ \t]*\(\([^()]*\)\)', re.S)

_SYSTEM_INCLUDE = re.compile(rb'#[ \t]*include[ \t]*(<[^>\n]+>|"(?:hip|hsa|rocprim|hipcub|thrust)/[^"\n]+")')
_PRAGMA = rb"#[ \t]*pragma[ \t]+(?:once|clang[ \t]+diagnostic|GCC[ \t]+diagnostic|nv_diag_suppress)[^\n]*"
# What may stand between the includes: blanks, comments, #pragma once, include guards, macros on one line.
_BETWEEN = re.compile(
    rb"\s+|//[^\n]*|/\*.*?\*/|" + _PRAGMA + rb"|#[ \t]*if[^\n]*\n(?:\s*" + _PRAGMA + rb"\n)*\s*#[ \t]*endif[^\n]*"
    rb"|#[ \t]*ifndef[ \t]+(?P<guard>\w+)[ \t]*\r?\n\s*#[ \t]*define[ \t]+(?P=guard)[ \t]*(?=\r?\n)"
    rb"|#[ \t]*define[ \t]+(?P<macro>\w+)(?:[^\\\n]|\\(?!\r?\n))*",
    re.S,
)
# Headers designed to be included repeatedly: their meaning depends on the macros defined at that point.
_REPEATABLE = {b"<assert.h>", b"<cassert>", b"<stddef.h>"}


@dataclass(frozen=True)
class Includes:
    """The library headers that a file includes first, and the macros that it defines before the last of them."""

    headers: tuple[str, ...]
    macros: frozenset[str] = frozenset()


def includes_of(text: bytes, folders: Sequence[Path] = ()) -> Includes:
    """The library headers that a file includes before other code; a preamble precompiles them.

    A header found in one of the folders `folders` belongs to the program and ends the preamble.
    """
    headers: list[str] = []
    macros: set[str] = set()
    before: set[str] = set()  # the macros defined so far
    position = 0
    while position < len(text):
        if between := _BETWEEN.match(text, position):
            before |= {word.decode() for word in between.groups() if word}
            position = between.end()
            continue
        include = _SYSTEM_INCLUDE.match(text, position)
        if include is None:
            break
        name = include[1][1:-1].decode(errors="replace")
        if name.startswith("/") or ".." in name or any((folder / name).exists() for folder in folders):
            break
        if include[1] not in _REPEATABLE:
            headers.append(include[1].decode(errors="replace"))
            macros |= before
        position = include.end()
    return Includes(tuple(dict.fromkeys(headers)), frozenset(macros))


@dataclass(frozen=True)
class Preamble:
    """A precompiled sequence of includes, with the files and identifiers of its headers."""

    path: Path
    files: frozenset[str]
    words: frozenset[str]
    macros: Macros


def preamble_of(includes: Includes, args: tuple[str, ...], cache: Path) -> Preamble | None:
    """Finds or builds the precompiled header; None if there is nothing to precompile or it cannot be built.

    None also if a header mentions a macro that the file defines before it, on whose value it may depend.
    """
    preamble = _load_stored(includes.headers, args, cache)
    return None if preamble is None or includes.macros & preamble.words else preamble


@functools.lru_cache(maxsize=64)
def _load_stored(headers: tuple[str, ...], args: tuple[str, ...], cache: Path) -> Preamble | None:
    if not headers:
        return None
    source = "".join(f"#include {name}\n" for name in headers) + INSTANCES.read_text()
    key = hashlib.sha256("\0".join((clang.libclang_version(), *args, "", source)).encode()).hexdigest()[:24]
    if not make_folder(cache):
        return None
    text, target, listing = cache / f"{key}.hip", cache / f"{key}.pch", cache / f"{key}.files"
    if _is_fresh(target, listing):
        with contextlib.suppress(OSError):  # in a sandbox the cache is read-only
            os.utime(target)
            _let_read(target, listing)
    elif _build_preamble(source.encode(), args, text, target, listing):
        _prune_cache(cache)
    else:
        return None
    files = _listed_headers(listing)
    words, macros = _words_of(files)
    return Preamble(target, frozenset(files), words, macros)


def forget_preambles() -> None:
    """Looks again for preambles on disk: in a long-running process one may have been deleted or outdated."""
    _load_stored.cache_clear()


def make_folder(cache: Path) -> bool:
    """Makes the folder of preambles, for all users of this machine to read; False if that fails."""
    try:
        if not cache.is_dir():
            cache.mkdir(parents=True, exist_ok=True)
            cache.chmod(0o755)
    except OSError:
        return False
    return True


def _is_fresh(target: Path, listing: Path) -> bool:
    """Whether every header of a stored preamble has the size and time that it was built with: of an update of a
    package, both may be older than the preamble."""
    try:
        stamps = [_stamp_header(name) for name in _listed_headers(listing)]
        return target.exists() and stamps == listing.read_text().splitlines()
    except (OSError, IndexError):
        return False


def _listed_headers(listing: Path) -> list[str]:
    return [line.split(" ", 2)[2] for line in listing.read_text().splitlines()]


def _stamp_header(name: str) -> str:
    """A line of a preamble's list of headers."""
    state = Path(name).stat()
    return f"{state.st_size} {state.st_mtime_ns} {name}"


def _build_preamble(text: bytes, args: tuple[str, ...], source: Path, target: Path, listing: Path) -> bool:
    options = clang.DETAILED_RECORD | clang.INCOMPLETE | clang.FOR_SERIALIZATION
    try:
        if not source.exists() or source.read_bytes() != text:
            write_whole(source, text)
        with TU(str(source), None, args, options) as tu:
            if tu.errors():
                return False
            with replace_atomically(target) as fresh:
                if not tu.save(fresh):
                    raise OSError("the preamble cannot be saved")
                write_whole(listing, "".join(_stamp_header(name) + "\n" for name in tu.includes()))
        _let_read(source, target, listing)
    except (ValueError, OSError, BadInput):
        return False
    return True


def _let_read(*paths: Path) -> None:
    """Makes files of the cache readable for the user that sandboxes of root run as."""
    for path in paths:
        path.chmod(0o644)


def _prune_cache(cache: Path) -> None:
    """Removes the least recently used preambles, except those used in the last hour, which a worker may be reading."""
    with contextlib.suppress(OSError):
        used = sorted(((path.stat().st_mtime, path) for path in cache.glob("*.pch")), reverse=True)
        for when, path in used[MOST_CACHED_PREAMBLES:]:
            if when < time.time() - 3600:
                for suffix in (".pch", ".hip", ".files"):
                    path.with_suffix(suffix).unlink(missing_ok=True)


# --- identifiers of headers -----------------------------------------------------------------------------------------


Macros = Mapping[str, frozenset[str]]  # name -> the identifiers of its text that are not parameters


@functools.lru_cache(maxsize=4096)
def _file_words(path: str) -> tuple[frozenset[str], Macros]:
    try:
        text = Path(path).read_bytes()
    except OSError:
        return frozenset(), {}
    macros: dict[str, frozenset[str]] = {}
    for line in _DEFINE.findall(text):
        if head := _MACRO.match(line):
            name = head[1].decode()
            body = _list_identifiers(_NO_NAMES.sub(b" ", line[head.end() :])) - _list_identifiers(head[2] or b"")
            macros[name] = macros.get(name, frozenset()) | body
    return _list_identifiers(text), macros


def _list_identifiers(text: bytes) -> frozenset[str]:
    return frozenset(w.decode() for w in set(_WORD.findall(text)))


def _words_of(files: Sequence[str]) -> tuple[frozenset[str], Macros]:
    pairs = [_file_words(f) for f in files]
    macros: dict[str, frozenset[str]] = {}
    for _, word in pairs:
        for name, body in word.items():
            macros[name] = macros.get(name, frozenset()) | body
    return frozenset().union(*(p[0] for p in pairs)), macros


def header_words(files: Sequence[str], preamble: Preamble | None) -> tuple[frozenset[str], Macros]:
    """All identifiers of the given headers, and their macros."""
    if preamble is None:
        return _words_of(files)
    rest = [f for f in files if f not in preamble.files and f != str(preamble.path)]
    rest = [f for f in rest if not f.endswith(".pch") and Path(f).parent != preamble.path.parent]
    if not rest:
        return preamble.words, preamble.macros
    words, macros = _words_of(rest)
    return preamble.words | words, {**preamble.macros, **macros}


def reserved_by(macros: Macros, used: Collection[str]) -> frozenset[str]:
    """The names that a local must not have: of macros, and in the text of those that expand where `used` names are."""
    reserved: set[str] = set()
    queue = [name for name in used if name in macros]
    while queue:
        new = macros[queue.pop()] - reserved
        reserved |= new
        queue += [name for name in new if name in macros]
    return frozenset(macros).union(reserved)
