"""Do the implicit registers of the opcode table agree with LLVM's instruction descriptions?

LLVM's parser of machine code in MIR refuses an instruction whose implicit operands are not all written out. So what the
table declares is complete if the parser takes it, and exact if the parser misses each operand that is left out.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import needs
import pytest
from llvm_tools import library_of

from hipsynth.simulator.isa.table import OpcodeRow, load_rows

LLC = shutil.which("llc-22") or shutil.which("llc")
LIBRARY = library_of(LLC, "libLLVM")
if LIBRARY is None:
    needs.missing("llc, or LLVM's library, is not installed")

MISSING = re.compile(r"<stdin>:(\d+):\d+: missing implicit register operand '([^']+)'")
STOP = "NO_SUCH_INSTRUCTION"  # the parser complains of it once it has taken what is before it
HEAD = "---\nname: f\nbody: |\n  bb.0:\n"
# What units use without its being a fact of the opcode: the lane mask, rounding and denormal modes, the scratch base.
OF_THE_UNIT = ("implicit $exec", "implicit $mode", "implicit $flat_scr")
# Where the table is right and why.
DIFFERS = {
    "ds_nop": "LLVM has one description for all generations; before gfx9 LDS instructions took a limit from M0",
    "s_set_gpr_idx_idx": "it writes eight bits of M0 and keeps the others, so it reads them",
    "s_set_gpr_idx_mode": "it writes four bits of M0 and keeps the others, so it reads them",
}
UNITS = ("S_", "V_", "DS_", "GLOBAL_", "FLAT_", "SCRATCH_")  # buffer instructions have a name for each form of address


def machine_names(rows: Sequence[OpcodeRow]) -> dict[str, str]:
    """LLVM's names of the table's opcodes: the forms in which all operands are written, where there are several."""
    strings = {name.decode() for name in re.findall(rb"[A-Z][A-Za-z0-9_]{3,60}(?=\0)", LIBRARY.read_bytes())}
    # The library keeps a string that ends another one, S_ADD_U32 in DS_ADD_U32, only once.
    known = {name[i:] for name in strings for i in range(len(name)) if name.startswith(UNITS, i)}
    found = {}
    for row in rows:
        stem = row.name.upper()
        forms = (f"{stem}_e64", stem, f"{stem}_e32") if row.unit != "lds" else (f"{stem}_gfx9", stem)
        name = next((form for form in forms if form in known), None)
        if name is not None:
            found[row.name] = name
    return found


def declared(row: OpcodeRow) -> list[str]:
    return [f"implicit-def ${r}" for r in sorted(row.writes)] + [f"implicit ${r}" for r in sorted(row.reads)]


def first_missing(lines: Sequence[str]) -> tuple[int, str] | None:
    """Line number and operand of the first instruction that LLVM's parser finds incomplete."""
    assert LLC is not None
    done = subprocess.run(
        [LLC, "-mtriple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-run-pass=none", "-x=mir", "-o=/dev/null"],
        input=HEAD + "".join(f"    {line}\n" for line in (*lines, STOP)) + "...\n",
        capture_output=True,
        text=True,
        check=False,
    )
    found = MISSING.search(done.stderr)
    assert found or STOP in done.stderr, done.stderr[:500]
    return (int(found[1]) - 1 - HEAD.count("\n"), found[2]) if found else None


def missing_operands(rows: Sequence[OpcodeRow], names: dict[str, str]) -> Iterator[tuple[str, str]]:
    """(opcode, operand) of everything that LLVM has and the table has not."""
    operands = [[*declared(row), *(() if row.unit == "salu" else OF_THE_UNIT)] for row in rows]

    def lines() -> list[str]:
        return [f"{names[row.name]} {', '.join(given)}" for row, given in zip(rows, operands, strict=True)]

    while found := first_missing(lines()):
        index, operand = found
        yield rows[index].name, operand
        operands[index].append(operand)


def known_rows() -> tuple[list[OpcodeRow], dict[str, str]]:
    """The rows to compare, of all architectures: LLVM has one description of an instruction for all of them."""
    rows = [row for row in load_rows() if row.executes]
    names = machine_names(rows)
    return [row for row in rows if row.name in names], names


def test_most_opcodes_are_compared() -> None:
    """What LLVM describes under the table's name: all of the scalar and vector units but a few second names."""
    rows = [row for row in load_rows() if row.executes]
    names = machine_names(rows)
    for unit, least in (("salu", 1.0), ("valu", 0.9), ("flow", 0.9)):
        of_unit = [row.name for row in rows if row.unit == unit]
        assert sum(name in names for name in of_unit) >= least * len(of_unit), sorted(set(of_unit) - set(names))


def test_the_table_declares_every_implicit_register_that_llvm_has() -> None:
    rows, names = known_rows()
    relevant = re.compile(r"\$(scc|vcc|exec|m0|mode)$")
    missing = [(name, operand) for name, operand in missing_operands(rows, names) if relevant.search(operand)]
    assert [pair for pair in missing if pair[0] not in DIFFERS] == []


@pytest.mark.full
def test_llvm_has_every_implicit_register_that_the_table_declares() -> None:
    rows, names = known_rows()

    def unknown_to_llvm(row: OpcodeRow) -> list[tuple[str, str]]:
        free = [] if row.unit == "salu" else list(OF_THE_UNIT)
        every, extra = declared(row), []
        for operand in set(every) - set(free):
            rest = [given for given in every + free if given != operand]
            found = first_missing([f"{names[row.name]} {', '.join(rest)}"])
            if found is None or found[1] != operand:
                extra.append((row.name, operand))
        return extra

    with ThreadPoolExecutor(2) as pool:
        extra = [pair for found in pool.map(unknown_to_llvm, rows) for pair in found]
    assert [pair for pair in extra if pair[0] not in DIFFERS] == []
