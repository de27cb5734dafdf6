"""Flatten: merges a program of several files into one self-contained file.

The list of files that the compiler entered determines what is inlined and where, so include guards, `#pragma once`
and conditional includes keep their meaning. Library headers stay as includes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.core.languages import INCLUDED_SUFFIXES, SOURCE_SUFFIXES
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.source.encoding import BOM, split_pieces
from hipsynth.source.includes import REST_OF_LINE, ends_line, guards_itself, macro_definitions
from hipsynth.source.parse import DEVICE, HOST, Diagnostic, ParseConfig, list_inclusions, load_source, parse_source
from hipsynth.synth.frontend.inlined_text import Chain, InlinedText, join_pieces
from hipsynth.synth.frontend.pass_input import BuildConfiguration, ProgramSource
from hipsynth.synth.frontend.passes.rename import rename_only
from hipsynth.synth.frontend.shared_state import find_lasting_pragma, find_shared_variable
from hipsynth.synth.frontend.unit_names import (
    ProgramUnit,
    find_changed_names,
    find_claims,
    is_incomplete,
    list_claimed,
    list_entities,
    list_lasting_macros,
)

_REST = REST_OF_LINE.encode()
_SPACE = rb"(?:[ \t]|\\\r?\n)*"
_INCLUDE = re.compile(
    rb"^[ \t]*#%binclude%b" % (_SPACE, _SPACE) + rb'(?:"([^"\n]+)"|<([^>\n]+)>|([A-Za-z_]\w*))' + _REST, re.M
)
_WORD = re.compile(rb"[A-Za-z_]\w*")
_HAS_INCLUDE = re.compile(rb'\b__has_include[ \t]*\([ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)[ \t]*\)')
_ONCE = re.compile(rb"^[ \t]*#[ \t]*pragma[ \t]+once" + _REST, re.M)


@dataclass(frozen=True)
class _Record:
    """The file that each include directive entered. A key is the chain of directives from the main file down."""

    entered: Mapping[Chain, str]
    sources: Mapping[str, bytes]


def flatten_program(main: Path, text: bytes, root: Path, config: ParseConfig) -> tuple[bytes | None, list[Diagnostic]]:
    """Inlines the program's own headers, those below `root` or `config.include`, where the compiler entered them.

    `text` is the content of the file `main`. Returns the text, or None and diagnostics with reason `missing_include`,
    `syntax_error`, `include_outside` (a header that is neither the program's nor a library's), or a reason of
    `load_source` for a header.
    """
    inlined, problems = _inline_program(main, text, root, config)
    return (None if inlined is None else inlined.text), problems


def _inline_program(
    main: Path, text: bytes, root: Path, config: ParseConfig
) -> tuple[InlinedText | None, list[Diagnostic]]:
    """As flatten_program(), with the places from which the text comes."""
    chains: dict[Chain, str] = {}
    for side in (HOST, DEVICE):
        inclusions, problems = list_inclusions(text, str(main), config, side)
        if problems:
            return None, problems
        for name, chain, library in inclusions:
            if library or not chain:
                continue
            if not any(Path(name).resolve().is_relative_to(r.resolve()) for r in (root, *config.include)):
                return None, [Diagnostic(Reason.INCLUDE_OUTSIDE, f"{name} lies outside {root}: give -I for its folder")]
            chains[_by_line(chain, text, str(main))] = name
    sources: dict[str, bytes] = {str(main): text}
    for name in set(chains.values()):
        source, problems = load_source(Path(name))
        if source is None and problems[0].reason != Reason.EMPTY_FILE:
            return None, [problem.in_file(Path(name)) for problem in problems]
        sources[name] = source or b""
    return _inline_file(str(main), (), _Record(chains, sources), root), []


def _by_line(chain: Chain, text: bytes, main: str) -> Chain:
    """The chain with each offset moved to where the directive begins: the start of its line, or of one that this
    continues."""
    places = []
    for name, offset in chain:
        source = text if name == main else read_regular(Path(name), SOURCE_BYTES)
        start = source.rfind(b"\n", 0, offset) + 1
        while source.endswith((b"\\\n", b"\\\r\n"), 0, start):
            start = source.rfind(b"\n", 0, start - 1) + 1
        places.append((name, start))
    return tuple(places)


def _inline_file(name: str, chain: Chain, record: _Record, root: Path) -> InlinedText:
    source = record.sources[name]
    hidden = _hidden_ranges(source)
    edits = []
    entered: dict[int, InlinedText] = {}
    for match in _INCLUDE.finditer(source):
        if any(a <= match.start() < b for a, b in hidden):
            continue
        here = (*chain, (name, match.start()))
        target = record.entered.get(here)
        if target is not None:
            entered[match.start()] = _inline_file(target, here, record, root)
            text = _decode_source(entered[match.start()].text)
            edits.append(Edit(match.start(), match.end(), text if ends_line(match) else f"{text}\n"))
        elif _is_users(match, name, record, root):
            edits.append(Edit(match.start(), match.end(), ""))
    edits += [
        Edit(m.start(), m.end(), "1")
        for m in _HAS_INCLUDE.finditer(source)
        if not _inside_ranges(m.start(), hidden) and _is_users(m, name, record, root)
    ]
    edits += [Edit(m.start(), m.end(), "") for m in _ONCE.finditer(source) if not _inside_ranges(m.start(), hidden)]
    sizes = {edit: len(edit.text.encode(errors="surrogateescape")) for edit in edits}
    parts = ((edit.start, edit.end, sizes[edit], entered.get(edit.start)) for edit in sorted(sizes))
    return join_pieces(name, chain, apply_edits(source, edits), parts)


def _decode_source(source: bytes) -> str:
    return source.removeprefix(BOM).decode(errors="surrogateescape").rstrip("\n")


def _inside_ranges(offset: int, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(a <= offset < b for a, b in ranges)


def _hidden_ranges(source: bytes) -> list[tuple[int, int]]:
    """The byte ranges of comments and multi-line literals, where an #include is not a directive."""
    return [(a, b) for kind, a, b in split_pieces(source) if kind == "comment" or b"\n" in source[a:b]]


def _is_users(match: re.Match[bytes], name: str, record: _Record, root: Path) -> bool:
    """Whether an include that the compiler did not enter (guarded, or in a skipped branch) names a program's header."""
    quoted = (match[1] or match[2] or b"").decode(errors="replace")
    if not quoted:
        return False
    beside = (Path(name).parent / quoted).resolve()
    if match[1] is not None and beside.is_file() and beside.is_relative_to(root.resolve()):
        return True
    entered_paths = {str(Path(f).resolve()) for f in record.entered.values()}
    return any(k.endswith("/" + quoted) for k in entered_paths)


# --- several translation units --------------------------------------------------------------------------------------


def combine_units(build: BuildConfiguration, root: Path, config: ParseConfig) -> tuple[bytes | None, list[Diagnostic]]:
    """Merges the translation units of one program into one self-contained text, in the given order.

    If two units use one name for different entities with internal linkage (static, unnamed namespaces, types), the
    later one gets the file's name appended, and so does one whose name another unit or its headers declare or use;
    each unit's macros are undefined at its end. Fails like `flatten_program`, with `name_collision` if such a name
    cannot be changed or is a header's, or a name would mean something else, with `header_differs`, or with
    `unsupported` for a pragma that would hold for other units, too.
    """
    with scratch_folder() as folder:
        copy = folder.resolve()
        _copy_tree(root, copy)
        inside = replace(config, include=tuple(_place_in_copy(place, root, copy) for place in config.include))
        heads = [(source, build.head(number)) for number, source in enumerate(build.files)]
        if problem := find_differing_header(heads, root, config) or _find_pragma(build.files[:-1], root, config):
            return None, [problem]
        paths = [_place_in_copy(source.resolve(), root, copy) for source in build.files]
        for path, (_, head) in zip(paths, heads, strict=True):
            path.write_bytes(head + path.read_bytes().removeprefix(BOM))
        units, problems = _read_units(paths, copy, inside)
        if not problems:
            units, problems = _separate_units(units, copy, inside)
        if problems:
            return None, problems
        text, problems = _merge_units(units, copy, inside)
        headers = _common_headers(build.files, root, config)
        shared = find_shared_variable(text, headers, inside) if text is not None else None
        return (None, [shared]) if shared else (text, problems)


def _read_units(paths: Iterable[Path], copy: Path, config: ParseConfig) -> tuple[list[ProgramUnit], list[Diagnostic]]:
    units: list[ProgramUnit] = []
    for path in paths:
        alone, problems = parse_source(path, config)
        inlined, problems = (
            (None, problems) if alone is None else _inline_program(path, path.read_bytes(), copy, config)
        )
        full, problems = (None, problems) if inlined is None else parse_source(inlined.text, config)
        if alone is None or inlined is None or full is None:
            return [], [replace(p, message=f"{path.name}: {p.message}") for p in problems]
        units.append(ProgramUnit(path, alone, inlined, full))
    return units, []


def _merge_units(
    units: Sequence[ProgramUnit], copy: Path, config: ParseConfig
) -> tuple[bytes | None, list[Diagnostic]]:
    """One text of all units, in which every name means what it does in its unit alone."""
    lines = []
    for number, unit in enumerate(units):
        lines.append(f'#include "{unit.path.relative_to(copy).as_posix()}"\n')
        macros = {e.name for e in list_entities(unit.alone) if e.category == "macro"}
        lines += [f"#undef {macro}\n" for macro in sorted({*macros, *list_lasting_macros(units, number)})]
    merged, problems = _inline_program(copy / "combined.hip", "".join(lines).encode(), copy, config)
    parsed, problems = (None, problems) if merged is None else parse_source(merged.text, config)
    if merged is None or parsed is None:
        return None, [_explain_merge(problem, copy) for problem in problems]
    if changed := find_changed_names(units, merged, parsed):
        problem = f"{', '.join(changed)}: means something else beside the other files"
        return None, [Diagnostic(Reason.NAME_COLLISION, problem)]
    return merged.text, []


def _explain_merge(problem: Diagnostic, copy: Path) -> Diagnostic:
    """A diagnostic of all units in one text; as each compiles alone, an error is of a name that two of them declare."""
    reason = Reason.NAME_COLLISION if problem.reason == Reason.SYNTAX_ERROR else problem.reason
    return replace(problem, reason=reason, message=problem.message.replace(f"{copy}/", ""))


def _common_headers(files: Sequence[Path], root: Path, config: ParseConfig) -> list[bytes]:
    """The texts of the self-guarding headers that several files include."""
    counts = Counter(header for file in files for header in _guarded_headers(file, root, config))
    return [read_regular(header, SOURCE_BYTES) for header, count in sorted(counts.items()) if count > 1]


def find_differing_header(units: Sequence[tuple[Path, bytes]], root: Path, config: ParseConfig) -> Diagnostic | None:
    """A header that guards itself and means something else in one unit than in another, because it spells a macro that
    they define differently before their last #include: one text of all units could have only one of both. A unit is a
    file and the definitions that its build puts in front of it."""
    first_macros: dict[Path, tuple[Path, dict[bytes, bytes]]] = {}
    for source, head in units:
        text = read_regular(source, SOURCE_BYTES)
        includes = list(_INCLUDE.finditer(text))
        macros = macro_definitions(head + (text[: includes[-1].start()] if includes else b""))
        for header in sorted(_guarded_headers(source, root, config)):
            other, theirs = first_macros.setdefault(header, (source, macros))
            words = set(_WORD.findall(read_regular(header, SOURCE_BYTES)))
            if any(word in words and macros.get(word) != theirs.get(word) for word in {*macros, *theirs}):
                name = header.relative_to(root.resolve()).as_posix()
                problem = f"{name}: {other.name} and {source.name} define macros that it uses in different ways"
                return Diagnostic(Reason.HEADER_DIFFERS, problem)
    return None


def _find_pragma(units: Iterable[Path], root: Path, config: ParseConfig) -> Diagnostic | None:
    """A pragma of units that others follow, or of their headers, which would hold for those, too."""
    for file in sorted({path for unit in units for path in (unit, *_included_files(unit, root, config))}):
        if pragma := find_lasting_pragma(read_regular(file, SOURCE_BYTES)):
            return Diagnostic(Reason.UNSUPPORTED, f"{file.name}: #pragma {pragma} would hold for other files, too")
    return None


def _guarded_headers(source: Path, root: Path, config: ParseConfig) -> set[Path]:
    """The files that a file includes and that guard themselves."""
    files = _included_files(source, root, config)
    return {file for file in files if guards_itself(read_regular(file, SOURCE_BYTES))}


def _included_files(source: Path, root: Path, config: ParseConfig) -> set[Path]:
    """The files below `root` that a file includes, as their directives name them."""
    waiting, entered = [source], set[Path]()
    while waiting:
        path = waiting.pop()
        entered.add(path)
        for match in _INCLUDE.finditer(read_regular(path, SOURCE_BYTES)):
            name = (match[1] or match[2] or b"").decode(errors="replace")
            places = (folder / name for folder in (path.parent, *config.include))
            target = next((place.resolve() for place in places if name and place.is_file()), None)
            if target is not None and target not in entered and target.is_relative_to(root.resolve()):
                waiting.append(target)
    return entered - {source}


def _place_in_copy(path: Path, root: Path, copy: Path) -> Path:
    """The place in the copy of `root` of a path in it; other paths stay."""
    return copy / path.relative_to(root.resolve()) if path.is_relative_to(root.resolve()) else path


def _copy_tree(root: Path, copy: Path) -> None:
    for path in sorted(root.rglob("*")):
        if path.suffix in INCLUDED_SUFFIXES and path.is_file() and not path.is_symlink():
            target = copy / path.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(read_regular(path, SOURCE_BYTES))


def _separate_units(
    units: Sequence[ProgramUnit], copy: Path, config: ParseConfig
) -> tuple[list[ProgramUnit], list[Diagnostic]]:
    """The units after renaming, in their files, what they have for themselves and others have or use, too."""
    claims = [find_claims(unit) for unit in units]
    separated: list[ProgramUnit] = []
    taken: set[str] = set()
    for number, unit in enumerate(units):
        declared, used = list_claimed(claims, number, unit.files)
        others = {token.text for other in units if other is not unit for token in other.full.tokens}
        text, problems = _separate_names(unit, taken, declared, used, others)
        if text is not None:
            unit.path.write_bytes(text)
            again, problems = _read_units([unit.path], copy, config)
            separated += again
        if problems:
            return [], problems
        if text is None:
            separated.append(unit)
    return separated, []


def _separate_names(
    unit: ProgramUnit, taken: set[str], declared: set[str], used: set[str], others: set[str]
) -> tuple[bytes | None, list[Diagnostic]]:
    """The file's text with other names for what it has for itself and earlier units have, too (`taken`), or others
    declare or use; None if nothing changes, and diagnostics. Adds the unit's names to `taken`.

    A name that others use, but do not declare, may stay: most are a library's functions.
    """
    entities = list_entities(unit.alone)
    names = {e.name for e in entities if e.category != "macro" and not e.external}
    visible = {n for n in names if n not in taken and not is_incomplete(unit.alone, n)}
    stem = re.sub(r"\W", "_", unit.path.stem)
    words = {t.text for t in unit.alone.tokens} | unit.alone.header_words | taken | others
    candidates = {}
    for old in sorted(names & taken | visible & (declared | used)):
        spellings = (f"{old}_{stem}{suffix}" for suffix in ("", *map(str, range(2, 1000))))
        candidates[old] = next(c for c in spellings if c not in words)
    text, refused = rename_only(unit.alone, candidates) if candidates else (None, frozenset[str]())
    needless = refused - taken - declared
    new = {old: name for old, name in candidates.items() if old not in needless}
    if new and needless:
        text, refused = rename_only(unit.alone, new)
    if new and text is None:
        return None, [Diagnostic(Reason.NAME_COLLISION, f"{unit.path.name}: {', '.join(sorted(refused))}")]
    taken |= {new.get(n, n) for n in names} | {e.name for e in entities}
    return text, []


def program_sources(folder: Path) -> list[Path]:
    """The translation units of one program in a folder, those with `main` last.

    Headers, and sources that another file includes, are not units.
    """
    files = sorted(p for p in folder.rglob("*") if p.suffix in INCLUDED_SUFFIXES and p.is_file())
    included = {target for p in files for target in _named_includes(p)}
    units = [p for p in files if p.suffix in SOURCE_SUFFIXES and p.resolve() not in included]
    mains = [p for p in units if has_main(p)]
    return [p for p in units if p not in mains] + mains


def _named_includes(path: Path) -> set[Path]:
    """The files that the quoted includes of `path` name, relative to it, except itself."""
    try:
        source = read_regular(path, SOURCE_BYTES)
    except BadInput:
        return set()
    names = (m[1].decode(errors="replace") for m in _INCLUDE.finditer(source) if m[1])
    return {target for n in names if (target := (path.parent / n).resolve()) != path.resolve()}


def has_main(path: Path) -> bool:
    """Whether a source seems to define `main`, judged by a regular expression."""
    try:
        source = read_regular(path, SOURCE_BYTES)
        return re.search(rb"\bmain\s*\([^;{]*\)\s*(?:noexcept\s*)?(?:try\s*)?\{", source) is not None
    except BadInput:
        return False


def apply_pass(
    source: ProgramSource, argument: str, config: ParseConfig
) -> tuple[ProgramSource | None, list[Diagnostic]]:
    """The pass's entry point in the pipeline; a source without a file is returned unchanged."""
    if source.main is None:
        return source, []
    root = source.root or source.main.parent
    build = source.build or BuildConfiguration((source.main,))
    if len(build.files) > 1:
        text, problems = combine_units(build, root, config)
    else:
        head = build.head(0)
        text, problems = flatten_program(source.main, head + source.text.removeprefix(BOM), root, config)
        problems = [_shift_diagnostic(head, problem) for problem in problems]
    return (None, problems) if text is None else (ProgramSource(text), [])


def _shift_diagnostic(head: bytes, problem: Diagnostic) -> Diagnostic:
    """A diagnostic of a file with a head, with its line in the file itself."""
    return replace(problem, line=max(0, problem.line - head.count(b"\n")))
