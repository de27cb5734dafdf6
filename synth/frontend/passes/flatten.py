"""Flatten: a program over several files becomes one self-contained file.

The compiler's record of the files it entered says what is inlined and where, so include guards, `#pragma once` and
conditional includes mean what they mean to the compiler. Library headers stay as includes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from synth.frontend.edits import Edit, apply_edits
from synth.frontend.parse import DEVICE, HOST, Diagnostic, ParseConfig, inclusions, load_source

SOURCES = (".hip", ".cpp", ".cc", ".cxx", ".cu", ".c")
HEADERS = (".h", ".hpp", ".hh", ".hxx", ".cuh", ".inc", ".inl", ".tpp", ".def")
_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]\w*))[^\n]*', re.M)
_ONCE = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+once[^\n]*", re.M)
_COMMENT = re.compile(rb"//(?:\\\r?\n|[^\n])*|/\*.*?\*/", re.S)
_LITERAL = re.compile(rb'R"([^()\\ ]{0,16})\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.S)

Chain = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class _Record:
    """Which file each directive led to. A key is the chain of directives from the main file down."""

    entered: Mapping[Chain, str]
    sources: Mapping[str, bytes]


def flatten(main: Path, text: bytes, root: Path, config: ParseConfig) -> tuple[bytes | None, list[Diagnostic]]:
    """`text`, standing for the file `main`, with every header below `root` inlined where the compiler entered it.

    Fails with `missing_include`, `syntax_error`, `include_outside` (a header that is neither below `root` nor a
    library's), or the reasons of `load_source` for a header.
    """
    chains: dict[Chain, str] = {}
    for side in (HOST, DEVICE):
        found, problems = inclusions(text, str(main), config, side)
        if problems:
            return None, problems
        for name, chain, library in found:
            if library or not chain:
                continue
            if not Path(name).resolve().is_relative_to(root.resolve()):
                return None, [Diagnostic("include_outside", f"{name} lies outside {root}")]
            chains[_by_line(chain, text, str(main))] = name
    sources: dict[str, bytes] = {str(main): text}
    for name in set(chains.values()):
        source, problems = load_source(Path(name))
        if source is None and problems[0].reason != "empty_file":
            return None, problems
        sources[name] = source or b""
    return _inline(str(main), (), _Record(chains, sources), root), []


def _by_line(chain: Chain, text: bytes, main: str) -> Chain:
    """The chain with each place moved to the start of its line: where a directive begins."""
    places = []
    for name, offset in chain:
        source = text if name == main else Path(name).read_bytes()
        places.append((name, source.rfind(b"\n", 0, offset) + 1))
    return tuple(places)


def _inline(name: str, chain: Chain, record: _Record, root: Path) -> bytes:
    source = record.sources[name]
    hidden = _hidden(source)
    edits = []
    for match in _INCLUDE.finditer(source):
        if any(a <= match.start() < b for a, b in hidden):
            continue
        here = (*chain, (name, match.start()))
        target = record.entered.get(here)
        if target is not None:
            edits.append(Edit(match.start(), match.end(), _inline(target, here, record, root).decode().rstrip("\n")))
        elif _is_users(match, name, record, root):
            edits.append(Edit(match.start(), match.end(), ""))
    edits += [Edit(m.start(), m.end(), "") for m in _ONCE.finditer(source) if not _inside(m.start(), hidden)]
    return apply_edits(source, edits)


def _inside(place: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(a <= place < b for a, b in ranges)


def _hidden(source: bytes) -> list[tuple[int, int]]:
    """The ranges of comments and literals, where a directive is only text."""
    found, position = [], 0
    pattern = re.compile(_COMMENT.pattern + b"|" + _LITERAL.pattern, re.S)
    while match := pattern.search(source, position):
        found.append((match.start(), match.end()))
        position = match.end()
    return [r for r in found if b"\n" in source[r[0] : r[1]] or source[r[0] : r[0] + 2] in (b"//", b"/*")]


def _is_users(match: re.Match[bytes], name: str, record: _Record, root: Path) -> bool:
    """Whether a directive the compiler did not follow (guarded, or in a branch not taken) names a user's header."""
    quoted = (match[1] or match[2] or b"").decode(errors="replace")
    if not quoted:
        return False
    beside = (Path(name).parent / quoted).resolve()
    if match[1] is not None and beside.is_file() and beside.is_relative_to(root.resolve()):
        return True
    known = {str(Path(f).resolve()) for f in record.entered.values()}
    return any(k.endswith("/" + quoted) for k in known)


# --- several translation units --------------------------------------------------------------------------------------


def umbrella(sources: Sequence[Path]) -> bytes:
    """A main file that includes every source in the given order."""
    return "".join(f'#include "{path.resolve()}"\n' for path in sources).encode()


def program_sources(folder: Path) -> list[Path]:
    """The source files of one program in a folder, `main` last; headers come in through includes."""
    files = sorted(p for p in folder.rglob("*") if p.suffix in SOURCES and p.is_file())
    mains = [p for p in files if re.search(rb"\bmain\s*\(", p.read_bytes())]
    return [p for p in files if p not in mains] + mains
