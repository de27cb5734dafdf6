"""Which source line each operation of Triton's GPU IR (TTGIR) comes from: MLIR's locations at the ends of its lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from hipsynth.profiling.lines.line_records import IntermediateOperation, KernelLines
from hipsynth.profiling.lines.line_table import SourceLocation
from hipsynth.simulator.instructions import KernelInstructions

MOST_NESTED = 100  # locations that name each other
_DEFINITION = re.compile(r"(?P<name>#loc\d*) = loc\((?P<place>.*)\)")
_AT_END = re.compile(r" loc\((?P<name>#loc\d*)\)$")
_LOCATION = re.compile(r" loc\((?:[^()]|\([^()]*\))*\)")
_FILE = re.compile(r'"(?P<file>[^"]*)":(?P<line>\d+):\d+')
_NAME = re.compile(r"#loc\d*")


def add_intermediate_code(
    kernels: Sequence[KernelLines],
    instructions: Iterable[KernelInstructions],
    texts: Mapping[int, str],
    own_name: Callable[[str], str],
) -> tuple[KernelLines, ...]:
    """The kernels with the operations of their TTGIR, as far as there is one. `texts`: by the CRC-32 of the code object
    that was made of it; `own_name`: see own_files()."""
    checksums = {row.symbol: row.checksum for row in instructions}
    return tuple(
        replace(kernel, operations=tuple(read_operations(texts[checksums[kernel.symbol]], own_name)))
        if checksums.get(kernel.symbol) in texts
        else kernel
        for kernel in kernels
    )


def read_operations(text: str, own_name: Callable[[str], str]) -> Iterator[IntermediateOperation]:
    """The lines of a TTGIR, without the locations in them, each with its place: of inlined functions the innermost that
    is in a user's file. A script may have written it, so what would not be printed becomes a question mark."""
    lines = text.splitlines()
    places = {match["name"]: match["place"] for match in map(_DEFINITION.fullmatch, lines) if match}
    code = [line for line in lines if not _DEFINITION.fullmatch(line)]
    for line, name in zip(code, _location_names(code), strict=True):
        place = _resolve_location(name, places, own_name)
        words = _LOCATION.sub("", line)
        printable = "".join(letter if letter.isprintable() else "?" for letter in words)
        yield IntermediateOperation(place.file, place.line, printable.rstrip())


def _location_names(code: Sequence[str]) -> list[str]:
    """The name of each line's location, "" for none; a loop's is behind the brace that closes it."""
    names, opened = [""] * len(code), list[int]()
    for number, line in enumerate(code):
        if match := _AT_END.search(line):
            names[number] = match["name"]
        if line.lstrip().startswith("}") and opened:
            names[opened.pop()] = names[number]
        if line.endswith("{"):
            opened.append(number)
    return names


def _resolve_location(name: str, places: Mapping[str, str], own_name: Callable[[str], str]) -> SourceLocation:
    """The first place in a user's file, innermost first: `callsite(#loc1 at #loc2)` is #loc1 inlined into #loc2."""
    pending = [name]
    for _ in range(MOST_NESTED):
        if not pending:
            break
        place = places.get(pending.pop(0), "")
        found_file = _FILE.search(place)
        if found_file and (file := own_name(found_file["file"])):
            return SourceLocation(file, int(found_file["line"]))
        pending = [*_NAME.findall(place), *pending]
    return SourceLocation()
