"""Does every flag set of the matrix compile on both architectures, and make other code than the others?"""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth import toolchain
from hipsynth.profiling.matrix.targets import load_matrix
from hipsynth.simulator.devices import list_architectures

PROGRAM = Path(__file__).with_name("flag_sets.hip")
SAME_CODE = {"--std=c++17 -O3 -ffast-math": "-O3 -ffast-math"}  # C++17 is the default


@pytest.mark.full
@pytest.mark.parametrize("arch", list_architectures())
def test_every_flag_set_makes_code_of_its_own(arch: str, tmp_path: Path) -> None:
    needs.compiler()
    made: dict[str, str] = {}
    for row in load_matrix().flags:
        build = toolchain.compile_device(PROGRAM, arch, row.flags, tmp_path)
        _, _, code = build.disassembly.read_text().partition("Disassembly of section")
        assert code
        made.setdefault(code, row.flags)
        assert made[code] == SAME_CODE.get(row.flags, row.flags), f"{row.flags} changes nothing on {arch}"
    assert len(made) == len(load_matrix().flags) - len(SAME_CODE) >= 8
