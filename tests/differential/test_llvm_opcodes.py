"""Does LLVM's assembler know the same opcodes on the same architectures as our table?"""

from __future__ import annotations

import re
import subprocess

import needs
import pytest
from llvm_tools import MC, library_of

from hipsynth.simulator.isa.table import ARCHS, load_rows

UNKNOWN = re.compile(r"<stdin>:(\d+):\d+: error: .*(not supported on this GPU|invalid instruction)")


def unknown(arch: str, names: list[str]) -> set[str]:
    """The names that no instruction of the architecture has."""
    if MC is None:
        needs.missing("llvm-mc is not installed")
    done = subprocess.run(
        [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"],
        input="".join(f"{name}\n" for name in names),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (UNKNOWN.match(line) for line in done.stderr.splitlines())
    return {names[int(found[1]) - 1] for found in lines if found}


@pytest.mark.parametrize("arch", ARCHS)
def test_opcodes_exist_on_the_architectures_in_the_table(arch: str) -> None:
    rows = load_rows()
    names = [row.name for row in rows]
    absent = unknown(arch, names)
    claimed = {row.name for row in rows if arch in row.archs}
    assert sorted(claimed & absent) == []


@pytest.mark.parametrize("arch", ARCHS)
def test_no_published_opcode_is_missing_from_the_table(arch: str) -> None:
    """Every opcode of AMD's published list that LLVM has on this architecture executes, or is refused with a reason."""
    published = needs.package("pcode").opcode_texts
    try:
        names = sorted({name.removesuffix("_e32").removesuffix("_e64") for name, _ in published()})
    except ImportError:
        needs.missing("the tinygrad package, which ships AMD's pseudo-code, is not installed")
    known = {row.name for row in load_rows() if arch in row.archs}
    assert sorted(set(names) - unknown(arch, names) - known) == []


# LLVM's own library, which the assembler is linked with: its tables hold every mnemonic.
LIBRARY = library_of(MC, "libLLVM")
# Names that LLVM's assembler takes and its disassembler never writes.
ASSEMBLER_ONLY = {"v_accvgpr_write", "v_accvgpr_read", "v_mul_lo_i32"}


@pytest.mark.full
@pytest.mark.parametrize("arch", ARCHS)
def test_no_mnemonic_that_llvm_knows_is_missing_from_the_table(arch: str) -> None:
    """Whatever the assembler has for the architecture executes, or is refused with a reason."""
    if LIBRARY is None:
        needs.missing("LLVM's library is not installed")
    prefix = rb"(?:v|s|ds|flat|global|scratch|buffer|tbuffer|image)_[a-z0-9_]{2,60}"
    names = sorted({name.decode() for name in re.findall(prefix, LIBRARY.read_bytes())})
    plain = [name for name in names if not name.endswith(("_e32", "_e64", "_dpp", "_sdwa"))]
    known = set(plain) - unknown(arch, plain)
    assert len(known) > 1000
    table = {row.name for row in load_rows() if arch in row.archs}
    missing = known - table - ASSEMBLER_ONLY
    # Matrix instructions of gfx942 have second names: 16x16x4bf16 for 16x16x4_4b_bf16.
    plain_table = {re.sub(r"_\d+b(?=_)|_", "", name) for name in table}
    assert sorted(name for name in missing if name.replace("_", "") not in plain_table) == []
