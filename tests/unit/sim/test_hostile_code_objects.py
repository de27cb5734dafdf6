"""Can a small code object make the loader take much memory or time? It reads modules out of recordings, too."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import needs
import pytest

from hipsynth.simulator import devices

core = needs.core()

HEADER, SEGMENT, SECTION = struct.Struct("<16sHHIQQQIHHHHHH"), struct.Struct("<IIQQQQQQ"), struct.Struct("<IIQQQQIIQQ")
SYMBOL, NOTE = struct.Struct("<IBBHQQ"), struct.Struct("<III")
LOAD, NOTES, SYMTAB, STRTAB = 1, 4, 2, 3
OBJECT = 1
METADATA = 32
EMPTY_MAP = b"\x80"


def note(metadata: bytes) -> bytes:
    return NOTE.pack(7, len(metadata), METADATA) + b"AMDGPU\0\0" + metadata + bytes(-len(metadata) % 4)


def code_object(
    *,
    metadata: bytes = EMPTY_MAP,
    notes: int = 1,
    loads: int = 1,
    names: bytes = b"\0",
    symbols: int = 0,
    section_names: int = 0,
) -> bytes:
    """An ELF file with so many headers of the same note and of the same segment, which is the file, and symbols that
    share a name's bytes. `section_names`: the number of the section that holds them."""
    heads = HEADER.size + (notes + loads) * SEGMENT.size
    stored_note = note(metadata)
    table = b"".join(SYMBOL.pack(0, OBJECT, 0, 1, 0, 0) for _ in range(symbols))
    sections_at = heads + len(stored_note) + len(names) + len(table)
    sections = [
        SECTION.pack(0, STRTAB, 0, 0, heads + len(stored_note), len(names), 0, 0, 1, 0),
        SECTION.pack(0, SYMTAB, 0, 0, heads + len(stored_note) + len(names), len(table), 0, 0, 8, SYMBOL.size),
    ]
    size = sections_at + SECTION.size * len(sections)
    segment = SEGMENT.pack(LOAD, 5, 0, 0, 0, size, size, 4096)
    note_head = SEGMENT.pack(NOTES, 4, heads, 0, 0, len(stored_note), len(stored_note), 4)
    ident = b"\x7fELF\x02\x01\x01\x40".ljust(16, b"\0")
    sizes = (HEADER.size, SEGMENT.size, notes + loads, SECTION.size, len(sections), section_names)
    header = HEADER.pack(ident, 3, 224, 1, 0, HEADER.size, sections_at, 0, *sizes)
    return header + segment * loads + note_head * notes + stored_note + names + table + b"".join(sections)


def load(elf: bytes) -> Any:
    device = core.Device("gfx942", devices.load_device("mi300x").spec())
    device.load(elf, "s_endpgm\n")
    return device


def refusal(elf: bytes) -> str:
    with pytest.raises(core.SimError) as caught:
        load(elf)
    reason, message = caught.value.args
    assert reason == "bad_code_object"
    return str(message)


def test_a_file_without_names_of_sections_is_loaded() -> None:
    device = load(code_object(names=b"variable\0", symbols=1, section_names=0xFFFF))
    assert device.symbol(0, "variable") != (0, 0)


def test_names_that_share_bytes_are_refused() -> None:
    long_names = code_object(names=b"n" * 5000 + b"\0", symbols=200)
    assert refusal(long_names).endswith("symbol names overlap")


def test_notes_that_share_bytes_are_refused() -> None:
    assert refusal(code_object(metadata=EMPTY_MAP.ljust(1000, b"\xc0"), notes=50)).endswith("notes overlap")


def test_segments_that_share_bytes_are_refused() -> None:
    assert refusal(code_object(loads=2)).endswith("segments overlap")


@pytest.mark.parametrize("metadata", [EMPTY_MAP + b"\xc0", EMPTY_MAP * 2, b"\x81\xa1a", b""])
def test_metadata_is_exactly_one_value(metadata: bytes) -> None:
    assert refusal(code_object(metadata=metadata)).endswith("no readable AMDGPU metadata note")


def test_metadata_has_a_limited_number_of_values() -> None:
    most = (1 << 20) - 1  # besides the array itself
    load(code_object(metadata=b"\xdd" + struct.pack(">I", most) + b"\xc0" * most))
    refusal(code_object(metadata=b"\xdd" + struct.pack(">I", most + 1) + b"\xc0" * (most + 1)))


PEAK_MEMORY = """
import resource, sys
from pathlib import Path
from hipsynth.simulator import _core, devices
device = _core.Device("gfx942", devices.load_device("mi300x").spec())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    device.load(Path(sys.argv[1]).read_bytes(), "s_endpgm\\n")
except _core.SimError:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_arrays_in_metadata_take_memory_only_for_what_they_hold(tmp_path: Path) -> None:
    """Each of 32 arrays inside one another claims to hold as many values as bytes follow."""
    size = 100_000
    metadata = b"".join(b"\xdd" + struct.pack(">I", size - 5 * depth - 5) for depth in range(32)).ljust(size, b"\xc1")
    path = tmp_path / "object.elf"
    path.write_bytes(code_object(metadata=metadata))
    command = [sys.executable, "-c", PEAK_MEMORY, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 32 << 10  # KiB
