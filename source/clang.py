"""A thin, fast layer over libclang's C interface: parsing, tokens with their cursors, and referenced declarations.

The official Python binding makes several calls and objects per token; one bulk annotation with plain C structures is
an order of magnitude faster. Only this module calls libclang: the compiler's own, so that it reads what is compiled.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from ctypes import POINTER, Structure, byref, c_char_p, c_int, c_uint, c_void_p
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.source.cursor_kinds import Kind
from hipsynth.toolchain import find_toolchain

TOKEN_IDENTIFIER, TOKEN_LITERAL, TOKEN_COMMENT = 2, 3, 4

DETAILED_RECORD = 0x01
INCOMPLETE = 0x02
FOR_SERIALIZATION = 0x10
ERROR_SEVERITY = 3
STORAGE_EXTERN = 2
LINKAGE_EXTERNAL = 4


class CCursor(Structure):
    """CXCursor: a node of the syntax tree."""

    _fields_ = (("kind", c_int), ("xdata", c_int), ("data", c_void_p * 3))


class CLocation(Structure):
    """CXSourceLocation."""

    _fields_ = (("pointers", c_void_p * 2), ("data", c_uint))


class CRange(Structure):
    """CXSourceRange."""

    _fields_ = (("pointers", c_void_p * 2), ("begin", c_uint), ("end", c_uint))


class CToken(Structure):
    """CXToken."""

    # words: kind, encoded location, length, reserved
    _fields_ = (("words", c_uint * 4), ("pointer", c_void_p))


class CString(Structure):
    """CXString: text that libclang owns until clang_disposeString."""

    _fields_ = (("data", c_void_p), ("flags", c_uint))


class CType(Structure):
    """CXType."""

    _fields_ = (("kind", c_int), ("data", c_void_p * 2))


class CRanges(Structure):
    """CXSourceRangeList."""

    _fields_ = (("count", c_uint), ("ranges", POINTER(CRange)))


class CUnsaved(Structure):
    """CXUnsavedFile: text that stands for a file on disk."""

    _fields_ = (("name", c_char_p), ("contents", c_char_p), ("length", ctypes.c_ulong))


# The parts of CToken and CCursor that are read for every token.
_TOKEN, _CURSOR_KIND = struct.Struct("3I12x"), struct.Struct("i28x")

Visitor = ctypes.CFUNCTYPE(c_int, CCursor, CCursor, c_void_p)
InclusionVisitor = ctypes.CFUNCTYPE(None, c_void_p, POINTER(CLocation), c_uint, c_void_p)

CONTAINER_KINDS = {
    k.value for k in (Kind.NAMESPACE, Kind.LINKAGE_SPEC, Kind.STRUCT_DECL, Kind.CLASS_DECL, Kind.UNION_DECL)
} | {Kind.CLASS_TEMPLATE.value, Kind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION.value}

FUNCTION_KINDS = {
    k.value for k in (Kind.FUNCTION_DECL, Kind.FUNCTION_TEMPLATE, Kind.CXX_METHOD, Kind.CONSTRUCTOR, Kind.DESTRUCTOR)
} | {Kind.CONVERSION_FUNCTION.value}
_TOP, _COMPOUND = Kind.TRANSLATION_UNIT.value, Kind.COMPOUND_STMT.value
# Literals, parentheses, operators and statements other than labels and goto: they refer to no declaration.
_NAMELESS = {*range(106, 113), *range(114, 118), *range(202, 210), *range(212, 216), 230, 231}
_CONTINUE, _RECURSE = 1, 2  # answers of a visitor

_LOCATION_OUT = [CLocation, POINTER(c_void_p), POINTER(c_uint), POINTER(c_uint), POINTER(c_uint)]

# function -> (result, arguments)
_PROTOTYPES: dict[str, tuple[Any, list[Any]]] = {
    "clang_createIndex": (c_void_p, [c_int, c_int]),
    "clang_parseTranslationUnit2": (
        c_int,
        [c_void_p, c_char_p, POINTER(c_char_p), c_int, POINTER(CUnsaved), c_uint, c_uint, POINTER(c_void_p)],
    ),
    "clang_disposeTranslationUnit": (None, [c_void_p]),
    "clang_saveTranslationUnit": (c_int, [c_void_p, c_char_p, c_uint]),
    "clang_getNumDiagnostics": (c_uint, [c_void_p]),
    "clang_getDiagnostic": (c_void_p, [c_void_p, c_uint]),
    "clang_getDiagnosticSeverity": (c_int, [c_void_p]),
    "clang_getDiagnosticSpelling": (CString, [c_void_p]),
    "clang_getDiagnosticLocation": (CLocation, [c_void_p]),
    "clang_disposeDiagnostic": (None, [c_void_p]),
    "clang_getCString": (c_char_p, [CString]),
    "clang_disposeString": (None, [CString]),
    "clang_getFile": (c_void_p, [c_void_p, c_char_p]),
    "clang_getFileName": (CString, [c_void_p]),
    "clang_getLocationForOffset": (CLocation, [c_void_p, c_void_p, c_uint]),
    "clang_getRange": (CRange, [CLocation, CLocation]),
    "clang_tokenize": (None, [c_void_p, CRange, POINTER(POINTER(CToken)), POINTER(c_uint)]),
    "clang_disposeTokens": (None, [c_void_p, POINTER(CToken), c_uint]),
    "clang_annotateTokens": (None, [c_void_p, POINTER(CToken), c_uint, POINTER(CCursor)]),
    "clang_getTranslationUnitCursor": (CCursor, [c_void_p]),
    "clang_visitChildren": (c_uint, [CCursor, Visitor, c_void_p]),
    "clang_getInclusions": (None, [c_void_p, InclusionVisitor, c_void_p]),
    "clang_Location_isInSystemHeader": (c_int, [CLocation]),
    "clang_getCursorLinkage": (c_int, [CCursor]),
    "clang_getCursorReferenced": (CCursor, [CCursor]),
    "clang_getCanonicalCursor": (CCursor, [CCursor]),
    "clang_getCursorDefinition": (CCursor, [CCursor]),
    "clang_getSpecializedCursorTemplate": (CCursor, [CCursor]),
    "clang_getTemplateCursorKind": (c_int, [CCursor]),
    "clang_getCursorSemanticParent": (CCursor, [CCursor]),
    "clang_getCursorSpelling": (CString, [CCursor]),
    "clang_Cursor_getMangling": (CString, [CCursor]),
    "clang_getCursorLocation": (CLocation, [CCursor]),
    "clang_getCursorExtent": (CRange, [CCursor]),
    "clang_getRangeStart": (CLocation, [CRange]),
    "clang_getRangeEnd": (CLocation, [CRange]),
    "clang_getSpellingLocation": (None, _LOCATION_OUT),
    "clang_getExpansionLocation": (None, _LOCATION_OUT),
    "clang_getPresumedLocation": (None, [CLocation, POINTER(CString), POINTER(c_uint), POINTER(c_uint)]),
    "clang_getNumOverloadedDecls": (c_uint, [CCursor]),
    "clang_getOverloadedDecl": (CCursor, [CCursor, c_uint]),
    "clang_getOverriddenCursors": (None, [CCursor, POINTER(POINTER(CCursor)), POINTER(c_uint)]),
    "clang_disposeOverriddenCursors": (None, [POINTER(CCursor)]),
    "clang_Cursor_getStorageClass": (c_int, [CCursor]),
    "clang_getCursorType": (CType, [CCursor]),
    "clang_getCanonicalType": (CType, [CType]),
    "clang_getSkippedRanges": (POINTER(CRanges), [c_void_p, c_void_p]),
    "clang_disposeSourceRangeList": (None, [POINTER(CRanges)]),
    "clang_getClangVersion": (CString, []),
}


_library: Path | None = None


def use_library(path: Path) -> None:
    """Names the libclang to load, in a process that does not look for the toolchain."""
    global _library
    _library = path


@functools.cache
def load_libclang() -> ctypes.CDLL:
    """The libclang of the compiler, with the prototypes above. Raises MissingDependency if there is none."""
    loaded = ctypes.CDLL(str(_library or find_toolchain().libclang))
    for name, (result, arguments) in _PROTOTYPES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


@functools.cache
def _create_index() -> int:
    return int(load_libclang().clang_createIndex(1, 0))  # 1: only the main file's own declarations


def text_of(string: CString) -> str:
    """The content of a libclang string, which is freed."""
    raw = load_libclang().clang_getCString(string)
    load_libclang().clang_disposeString(string)
    return raw.decode(errors="replace") if raw else ""


def libclang_version() -> str:
    """libclang's version line."""
    return text_of(load_libclang().clang_getClangVersion())


@dataclass(frozen=True)
class CompilerMessage:
    """One compiler error: `line` and `column` count from 1; `file` is "" if the error has no location."""

    text: str
    file: str
    line: int
    column: int


class TU:
    """One parsed translation unit; free it with close() or a `with` block."""

    def __init__(self, path: str, text: bytes | None, args: tuple[str, ...], options: int) -> None:
        """Parses `path`, with `text` in place of its content if given; raises ValueError if libclang fails."""
        self.lib = load_libclang()
        self.path = path
        unsaved = (CUnsaved * 1)(CUnsaved(path.encode(), text, len(text))) if text is not None else None
        argv = (c_char_p * len(args))(*[a.encode() for a in args])
        handle = c_void_p()
        code = self.lib.clang_parseTranslationUnit2(
            _create_index(), path.encode(), argv, len(args), unsaved, 1 if unsaved else 0, options, byref(handle)
        )
        if code != 0 or not handle.value:
            raise ValueError(f"libclang could not parse {path} (code {code})")
        self.handle: int | None = handle.value
        self.file = self.lib.clang_getFile(self.handle, path.encode())
        # Encoded locations within one file are consecutive: the main file's are base to base + size.
        self.base = self.lib.clang_getLocationForOffset(self.handle, self.file, 0).data if self.file else 0
        self.size = len(text) if text is not None and self.base else 0
        self._out = (c_void_p(), c_uint(), c_uint(), c_uint())
        self._outs = tuple(byref(pointer) for pointer in self._out)

    def __enter__(self) -> TU:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the unit; it may be called twice."""
        if self.handle is not None:
            self.lib.clang_disposeTranslationUnit(self.handle)
            self.handle = None

    def save(self, path: Path) -> bool:
        """Writes the unit as a precompiled header; returns whether that succeeded."""
        return bool(self.lib.clang_saveTranslationUnit(self.handle, str(path).encode(), 0) == 0)

    def errors(self) -> list[CompilerMessage]:
        """Errors and fatal errors, in order."""
        diagnostics = []
        for number in range(self.lib.clang_getNumDiagnostics(self.handle)):
            item = self.lib.clang_getDiagnostic(self.handle, number)
            if self.lib.clang_getDiagnosticSeverity(item) >= ERROR_SEVERITY:
                text = text_of(self.lib.clang_getDiagnosticSpelling(item))
                diagnostics.append(CompilerMessage(text, *self._presumed_position(item)))
            self.lib.clang_disposeDiagnostic(item)
        return diagnostics

    def _presumed_position(self, diagnostic: int) -> tuple[str, int, int]:
        """(file, line, column) as the compiler would print them: `#line` directives count."""
        file, line, column = CString(), c_uint(), c_uint()
        location = self.lib.clang_getDiagnosticLocation(diagnostic)
        self.lib.clang_getPresumedLocation(location, byref(file), byref(line), byref(column))
        return text_of(file), line.value, column.value

    def name(self, file: int | None) -> str:
        """The path of a file handle, or "" for None."""
        return text_of(self.lib.clang_getFileName(file)) if file else ""

    def includes(self) -> list[str]:
        """Every included file, those of a precompiled header too."""
        names: list[str] = []

        def visit(file: int, _stack: Any, _depth: int, _data: Any) -> None:
            names.append(self.name(file))

        self.lib.clang_getInclusions(self.handle, InclusionVisitor(visit), None)
        return sorted({n for n in names if n != self.path})

    def inclusions(self) -> list[tuple[str, tuple[tuple[str, int], ...], bool]]:
        """(file, chain of include directives that led to it, whether it is a system header), in preprocessing order.

        There is one entry for each time the preprocessor entered a file. The chain holds (file, offset) of each
        directive, outermost first.
        """
        included: list[tuple[str, tuple[tuple[str, int], ...], bool]] = []

        def visit(file: int, stack: Any, depth: int, _data: Any) -> None:
            chain = [self._file_position(stack[i], self.lib.clang_getExpansionLocation) for i in range(depth)]
            start = self.lib.clang_getLocationForOffset(self.handle, file, 0)
            library = bool(self.lib.clang_Location_isInSystemHeader(start))
            included.append((self.name(file), tuple((self.name(f), o) for f, _, _, o in reversed(chain)), library))

        self.lib.clang_getInclusions(self.handle, InclusionVisitor(visit), None)
        return included

    def _file_position(self, location: CLocation, function: Callable[..., None]) -> tuple[int | None, int, int, int]:
        file, line, column, offset = self._out
        function(location, *self._outs)
        return file.value, line.value, column.value, offset.value

    def spelling_place(self, cursor: CCursor) -> tuple[int | None, int]:
        """(file, offset) of the cursor's name. For a name from a macro, this is inside the macro definition."""
        location = self.lib.clang_getCursorLocation(cursor)
        inside = location.data - self.base
        return (self.file, inside) if 0 <= inside < self.size else self._spelling_position(location)

    def _spelling_position(self, location: CLocation) -> tuple[int | None, int]:
        file, _, _, offset = self._file_position(location, self.lib.clang_getSpellingLocation)
        return file, offset

    def extent(self, cursor: CCursor) -> tuple[int, int]:
        """[start, end) offsets of a cursor; macros count at their use."""
        extent = self.lib.clang_getCursorExtent(cursor)
        start, end = extent.begin - self.base, extent.end - self.base
        if not 0 <= start < self.size:
            start = self._file_position(self.lib.clang_getRangeStart(extent), self.lib.clang_getExpansionLocation)[3]
        if not 0 <= end < self.size:
            end = self._file_position(self.lib.clang_getRangeEnd(extent), self.lib.clang_getExpansionLocation)[3]
        return start, end

    def tokens(self, length: int) -> tuple[list[tuple[int, int, int]], Sequence[CCursor], list[int]]:
        """(kind, start, end) of every token, comments included, of the main file, which has `length` bytes; the cursor
        of each; and the cursors' kinds."""
        lib = self.lib
        if not self.file:
            return [], (), []
        extent = lib.clang_getRange(
            lib.clang_getLocationForOffset(self.handle, self.file, 0),
            lib.clang_getLocationForOffset(self.handle, self.file, length),
        )
        memory, count = POINTER(CToken)(), c_uint()
        lib.clang_tokenize(self.handle, extent, byref(memory), byref(count))
        n = count.value
        if n == 0:
            return [], (), []
        cursors = (CCursor * n)()
        lib.clang_annotateTokens(self.handle, memory, n, cursors)
        raw = ctypes.string_at(memory, n * ctypes.sizeof(CToken))
        lib.clang_disposeTokens(self.handle, memory, n)
        base = self.base
        tokens = [(k, at - base, at - base + size) for k, at, size in _TOKEN.iter_unpack(raw)]
        return tokens, list(cursors), [kind for (kind,) in _CURSOR_KIND.iter_unpack(bytes(cursors))]

    def walk(
        self, wanted: Container[int], places: Sequence[int]
    ) -> tuple[list[tuple[int, int]], list[tuple[int, CCursor]]]:
        """(ranges of functions, (offset, cursor) of the cursors whose names are at `wanted` offsets), in preorder.

        Looks only into functions and statements of the main file that contain one of `places`, ascending offsets.
        """
        functions: list[tuple[int, int]] = []
        cursors: list[tuple[int, CCursor]] = []
        lib, file, size = self.lib, self.file, self.size
        location_of, base = lib.clang_getCursorLocation, self.base

        def visit(cursor: CCursor, parent: CCursor, _data: Any) -> int:
            location = location_of(cursor)
            inside = location.data - base
            if not 0 <= inside < size:
                if parent.kind == _TOP and self._file_position(location, lib.clang_getExpansionLocation)[0] != file:
                    return _CONTINUE
                where, inside = (None, -1) if cursor.kind in _NAMELESS else self._spelling_position(location)
                inside = inside if where == file else -1
            if inside in wanted:
                cursors.append((inside, _copy_cursor(cursor)))
            if cursor.kind in FUNCTION_KINDS:
                functions.append(self.extent(cursor))
                return _RECURSE if _any_inside(places, *functions[-1]) else _CONTINUE
            if parent.kind == _COMPOUND and not _any_inside(places, *self.extent(cursor)):
                return _CONTINUE
            return _RECURSE if places or cursor.kind in CONTAINER_KINDS else _CONTINUE

        lib.clang_visitChildren(lib.clang_getTranslationUnitCursor(self.handle), Visitor(visit), None)
        return functions, cursors

    def skipped(self) -> list[tuple[int, int]]:
        """The [start, end) offsets in the main file of the branches of #if that are not compiled."""
        memory = self.lib.clang_getSkippedRanges(self.handle, self.file)
        if not memory:
            return []
        ranges = memory.contents
        skipped_ranges = [
            (source_range.begin - self.base, source_range.end - self.base)
            for source_range in ranges.ranges[: ranges.count]
        ]
        self.lib.clang_disposeSourceRangeList(memory)
        return skipped_ranges

    def overridden(self, cursor: CCursor) -> list[CCursor]:
        """The methods that a virtual method directly overrides."""
        memory, count = POINTER(CCursor)(), c_uint()
        self.lib.clang_getOverriddenCursors(cursor, byref(memory), byref(count))
        cursors = [_copy_cursor(memory[i]) for i in range(count.value)]
        if memory:
            self.lib.clang_disposeOverriddenCursors(memory)
        return cursors

    def type_kind(self, cursor: CCursor) -> int:
        """The kind of the canonical type of a declaration (CXTypeKind)."""
        return int(self.lib.clang_getCanonicalType(self.lib.clang_getCursorType(cursor)).kind)

    def overloads(self, cursor: CCursor) -> list[CCursor]:
        """The candidate declarations of an overloaded name that is not resolved yet."""
        count = self.lib.clang_getNumOverloadedDecls(cursor)
        return [self.lib.clang_getOverloadedDecl(cursor, i) for i in range(count)]


def _any_inside(places: Sequence[int], start: int, end: int) -> bool:
    at = bisect_left(places, start)
    return at < len(places) and places[at] < end


def _copy_cursor(cursor: CCursor) -> CCursor:
    return CCursor.from_buffer_copy(cursor)


def is_null(cursor: CCursor) -> bool:
    """Whether a cursor is invalid: its kind is one of CXCursor_FirstInvalid (70) to CXCursor_LastInvalid (73)."""
    return 70 <= int(cursor.kind) <= 73
