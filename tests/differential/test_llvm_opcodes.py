"""Does LLVM's assembler know the same opcodes on the same architectures as our table?"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from profiling.sim.isa.table import ARCHS, load_rows

MC = shutil.which("llvm-mc-22") or shutil.which("llvm-mc")
UNKNOWN = re.compile(r"<stdin>:(\d+):\d+: error: .*(not supported on this GPU|invalid instruction)")


def unknown(arch: str, names: list[str]) -> set[str]:
    """The names that no instruction of the architecture has."""
    assert MC is not None
    done = subprocess.run(
        [MC, "-triple=amdgcn-amd-amdhsa", f"-mcpu={arch}", "-filetype=null"],
        input="".join(f"{name}\n" for name in names),
        capture_output=True,
        text=True,
        check=False,
    )
    lines = (UNKNOWN.match(line) for line in done.stderr.splitlines())
    return {names[int(found[1]) - 1] for found in lines if found}


@pytest.mark.skipif(MC is None, reason="llvm-mc is not installed")
@pytest.mark.parametrize("arch", ARCHS)
def test_rows_exist_where_the_table_says(arch: str) -> None:
    rows = load_rows()
    names = [row.name for row in rows]
    absent = unknown(arch, names)
    claimed = {row.name for row in rows if arch in row.archs}
    assert sorted(claimed & absent) == []


@pytest.mark.skipif(MC is None, reason="llvm-mc is not installed")
@pytest.mark.parametrize("arch", ARCHS)
def test_no_published_opcode_is_missing_from_the_table(arch: str) -> None:
    """Every opcode of AMD's published list that LLVM has on this architecture executes, or is refused with a reason."""
    published = pytest.importorskip("pcode").opcode_texts
    try:
        names = sorted({name.removesuffix("_e32").removesuffix("_e64") for name, _ in published()})
    except ImportError:
        pytest.skip("the tinygrad package is not installed (pip install '.[dev]')")
    known = {row.name for row in load_rows() if arch in row.archs}
    assert sorted(set(names) - unknown(arch, names) - known) == []
