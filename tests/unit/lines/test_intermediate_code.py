"""Source lines of TTGIR's operations."""

from __future__ import annotations

from hipsynth.profiling.lines.intermediate import add_intermediate_code, read_operations
from hipsynth.profiling.lines.line_records import KernelLines
from hipsynth.simulator.instructions import KernelInstructions

TEXT = """#blocked = #ttg.blocked<{order = [0]}>
#loc = loc("/work/scale.py":4:1)
#loc9 = loc("x"(#loc))
module {
  tt.func public @scale(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32} loc("x"(#loc))) {
    %c0 = arith.constant 0 : i32 loc(#loc1)
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%a = %b) -> (f32)  : i32 {
      %v = tt.load %p : tensor<64x!tt.ptr<f32>, #blocked> loc(#loc4)
      scf.yield %v : f32 loc(#loc2)
    } loc(#loc5)
    %m = arith.maxnumf %v, %v : f32 loc(#loc6)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc1 = loc(unknown)
#loc2 = loc("/work/scale.py":8:5)
#loc3 = loc("/site-packages/triton/standard.py":100:3)
#loc4 = loc("v"(#loc7))
#loc5 = loc("sum"(#loc2))
#loc6 = loc(callsite(#loc3 at #loc8))
#loc7 = loc("/work/scale.py":9:20)
#loc8 = loc("/work/scale.py":10:11)
"""


def own_name(file: str) -> str:
    return "scale.py" if file.endswith("scale.py") else ""


def test_operations_have_the_lines_of_the_users_file() -> None:
    operations = list(read_operations(TEXT, own_name))
    assert not any("loc(" in row.text or row.text.startswith("#loc") for row in operations)
    lines = {row.text.split("=")[0].strip() or row.text: row.line for row in operations if "=" in row.text}
    assert lines["%v"] == 9 and lines["%sum"] == 8, "a loop has its location behind its end"
    assert lines["%m"] == 10, "a function of Triton counts at the line that calls it"
    assert lines["%c0"] == 0
    assert {row.file for row in operations if row.line} == {"scale.py"}
    assert "tt.func public @scale(%x: !tt.ptr<f32> {tt.divisibility = 16 : i32}) {" in operations[2].text


def test_damaged_text_is_shown_as_far_as_it_goes() -> None:
    circular = (
        "#loc1 = loc(callsite(#loc2 at #loc1))\n#loc2 = loc(fused[#loc1, #loc2])\n%x = op loc(#loc1)\n}\n}\n{\x1b[31m"
    )
    rows = list(read_operations(circular, own_name))
    assert [(row.line, row.text) for row in rows] == [(0, "%x = op"), (0, "}"), (0, "}"), (0, "{?[31m")]


def test_builds_are_told_apart_by_their_code() -> None:
    kernels = [KernelLines(symbol, (), ()) for symbol in ("scale", "scale#2", "other")]
    counted = [KernelInstructions(symbol, (), checksum) for symbol, checksum in (("scale", 7), ("scale#2", 8))]
    texts = {7: "first", 8: "second"}
    found = add_intermediate_code(kernels, counted, texts, own_name)
    assert [[row.text for row in kernel.operations] for kernel in found] == [["first"], ["second"], []]
