"""Loops of a disassembly, scaling to the kernel's counters, and what the program may have forged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hipsynth.profiling.lines import loops
from hipsynth.profiling.lines.attribute import COUNTERS, UNITS, scale_amounts
from hipsynth.profiling.lines.line_records import Amounts, KernelLines, SourceLine
from hipsynth.profiling.lines.loops import LoopRange
from hipsynth.profiling.reports.lines import _kernel_lines, compact_count, heat_bar
from hipsynth.simulator import instructions
from hipsynth.simulator.instructions import CLASSES, EVENTS, Instruction

NATIVE = Path(instructions.__file__).parent / "native"
DISASSEMBLY = """
0000000000001900 <outer>:
	s_mov_b32 s0, 0                                            // 000000001900: BE800080
	s_cbranch_scc1 27                                          // 000000001904: BF85001B <outer+0x28>
	s_nop 0                                                    // 000000001908: BF800000
	s_cbranch_scc0 65534                                       // 00000000190C: BF84FFFE <outer+0x8>
	s_cbranch_vccnz 65532                                      // 000000001910: BF87FFFC <outer+0x4>
	s_branch 65530                                             // 000000001914: BF82FFFA <outer+0x4>
	s_endpgm                                                   // 000000001918: BF810000

0000000000001A00 <self>:
	s_branch 65535                                             // 000000001A00: BF82FFFF <self>
"""


def instruction(address: int, kind: str = "valu", **amounts: float) -> Instruction:
    return Instruction(address, kind, {event: amounts.get(event, 0.0) for event in EVENTS})


def test_loops_are_the_backward_branches() -> None:
    text = DISASSEMBLY.replace("0000000000001A00", "0000000000001a00")
    inner, outer, own = LoopRange(0x1908, 0x190C), LoopRange(0x1904, 0x1914), LoopRange(0x1A00, 0x1A00)
    assert loops.loop_ranges(text) == [outer, inner, own]
    assert [loops.loop_depth(one, [outer, inner, own]) for one in (outer, inner, own)] == [1, 2, 1]
    assert loops.loop_ranges("") == []


def test_events_and_classes_are_the_cores() -> None:
    header, source = (NATIVE / "core" / name for name in ("tally.h", "tally.cpp"))
    names = re.search(r"kInstructionEventNames = \{(.*?)\}", header.read_text(), re.DOTALL)
    units = re.search(r"kUnits = \{(.*?)\}", source.read_text())
    assert names and units
    assert tuple(re.findall(r'"(\w+)"', names[1])) == EVENTS
    assert {*re.findall(r'"(\w+)"', units[1]), "mfma"} == set(CLASSES)
    assert set(COUNTERS) <= set(EVENTS) and {event for event, _ in UNITS.values()} <= set(EVENTS)


def test_scaling_keeps_proportions_and_names_what_was_not_seen() -> None:
    rows = [instruction(0, times=3, bytes=30), instruction(4, times=1, bytes=10, stall_cycles=8)]
    found, outside = scale_amounts(rows, {"times": 8, "bytes": 20, "misses": 5, "l2_misses": 0}, dispatches=4)
    assert [row.amounts["times"] for row in found] == [6, 2]
    assert [row.amounts["bytes"] for row in found] == [15, 5]
    assert found[1].amounts["stall_cycles"] == 2  # no total: the mean per dispatch
    assert outside == ("misses",)


@pytest.mark.parametrize(
    "row",
    [
        [1, "valu", 1],
        ["1", "valu", *[0] * len(EVENTS)],
        [1, "tensor", *[0] * len(EVENTS)],
        [1, "valu", *["0"] * len(EVENTS)],
        [True, "valu", *[0] * len(EVENTS)],
        7,
    ],
)
def test_a_forged_instruction_is_refused(row: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        instructions.decode_instructions([{"symbol": "k", "checksum": 0, "rows": [row]}])
    with pytest.raises((ValueError, TypeError, KeyError)):
        instructions.decode_instructions([{"symbol": 1, "checksum": 0, "rows": []}])


def test_heat_and_numbers_fit_their_columns() -> None:
    assert heat_bar(0) == "" and heat_bar(1) == "██████" and heat_bar(0.5) == "███" and len(heat_bar(2)) == 6
    assert [compact_count(v) for v in (0.5, 12, 9999, 12_345, 1_234_567, 2.5e9, 1e13)] == [
        "0.5", "12", "9999", "12.3k", "1.23M", "2.5G", "10T",
    ]  # fmt: skip


def test_the_listing_shows_source_costs_and_gaps(tmp_path: Path) -> None:
    file = tmp_path / "k.hip"
    file.write_text("".join(f"line {n};\n" for n in range(1, 21)))
    hot = Amounts.of([instruction(0, "vmem", times=4, bytes=1024, accesses=16, misses=8)], 0.75)
    cold = Amounts.of([instruction(4, times=12)], 0.25)
    kernel = KernelLines(
        "k", (SourceLine("", 0, cold), SourceLine(str(file), 3, hot), SourceLine(str(file), 17, cold)), (), ("misses",)
    )
    text = "\n".join(_kernel_lines(kernel, 120))
    assert "costs most: k.hip:3 75 %, k.hip:17 25 %" in text
    assert re.search(r" 75\.0 % ████▌ +4 +1024 +16 +50 % .*  3 line 3;", text)
    assert "  4 line 4;" in text and " ..." in text and "line 10;" not in text and "(no line)" in text
    assert "no instruction was seen to cause it: misses" in text
