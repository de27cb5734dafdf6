"""`synth swizzle SCRIPT.py`: the change of a kernel's text, by Python itself as the oracle, and what is refused."""

from __future__ import annotations

import types

import numpy as np
import pytest
from triton_samples import DOUBLE, SHARED_ROWS

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.source.triton_source import read_default_arguments, read_triton_source
from hipsynth.tuning.swizzle.index_expression import Array
from hipsynth.tuning.swizzle.mapping import Formula, GroupMapping, RowSpread, Spread, Tile, candidate_mappings
from hipsynth.tuning.swizzle.script_edits import find_refusal, write_mapped

TWO_AXES = """
import triton, triton.language as tl

class Holder:
    @triton.jit
    def plane(p):
        column, row = tl.program_id(0), tl.program_id(axis=1)  # ünïcode before the next one: ü
        tl.store(p + row * tl.num_programs(0) + column, tl.program_id(2))
"""


def numbers_by_python(text: str, function: str, grid: Dim) -> Array:
    """The program that each launched one computes, by executing the function in the text with numpy."""
    X, Y, Z = grid
    z, y, x = (axis.reshape(-1) for axis in np.meshgrid(range(Z), range(Y), range(X), indexing="ij"))
    language = types.SimpleNamespace(
        program_id=[x, y, z].__getitem__, num_programs=grid.__getitem__, where=np.where, minimum=np.minimum,
        maximum=np.maximum, constexpr=int,
    )  # fmt: skip
    lines = text[text.index(f"def {function}(") :].split("\n")
    indent = len(lines[1]) - len(lines[1].lstrip()) - 4
    body = [line[indent:] for line in lines[1:]]
    end = next(n for n, line in enumerate(body) if line.startswith("    return")) + 1
    space: dict[str, object] = {"tl": language}
    exec("\n".join([lines[0], *body[:end]]), space)
    mapped = space[function]
    assert callable(mapped)
    if lines[0].startswith(f"def {function}():"):
        return np.asarray((z * Y + y) * X + np.broadcast_to(mapped(), x.shape))
    return np.asarray((mapped(2) * Y + mapped(1)) * X + mapped(0))


@pytest.mark.parametrize("grid", [(64, 1, 1), (100, 1, 1), (17, 1, 1)])
def test_the_written_function_computes_the_mapping_along_one_axis(grid: Dim) -> None:
    source = read_triton_source(SHARED_ROWS)
    mappings = [*candidate_mappings(grid, 8, 304, ("8", "16")), GroupMapping((Formula("(n - 1) * X / n - id"),))]
    for mapping in mappings:
        text = write_mapped(source, {"row_sums": mapping}, {"row_sums": grid})
        assert numbers_by_python(text, "swizzled_row_sums", grid).tolist() == mapping.numbers(grid).tolist(), text


@pytest.mark.parametrize("grid", [(16, 16, 1), (20, 9, 3), (3, 40, 2)])
def test_the_written_function_computes_the_mapping_of_a_plane(grid: Dim) -> None:
    source = read_triton_source(TWO_AXES)
    mappings = candidate_mappings(grid, 8, 304)
    assert mappings
    for mapping in mappings:
        text = write_mapped(source, {"plane": mapping}, {"plane": grid})
        assert numbers_by_python(text, "swizzled_plane", grid).tolist() == mapping.numbers(grid).tolist(), text


@pytest.mark.parametrize("grid", [(64, 1, 1), (40, 1, 1)])
def test_programs_of_other_grids_keep_their_places(grid: Dim) -> None:
    mapping = GroupMapping((Formula("id % 8 * 8 + id / 8"),), grids=((64, 1, 1),))
    for source, kernel in ((SHARED_ROWS, "row_sums"), (TWO_AXES, "plane")):
        text = write_mapped(read_triton_source(source), {kernel: mapping}, {kernel: grid})
        assert (numbers_by_python(text, f"swizzled_{kernel}", grid) == mapping.numbers(grid)).all()


def test_a_function_is_added_and_only_the_call_changes() -> None:
    text = write_mapped(
        read_triton_source(SHARED_ROWS), {"row_sums": GroupMapping((Spread(8),))}, {"row_sums": (512, 1, 1)}
    )
    helper = """@triton.jit
def swizzled_row_sums():  # which program computes what: spread(8)
    pid = tl.program_id(0)
    n = tl.num_programs(0)
    share = n // 8
    return tl.where(pid < share * 8, pid % 8 * share + pid // 8, pid)


"""
    called = SHARED_ROWS.replace("tl.program_id(axis=0)", "swizzled_row_sums()")
    assert text == called.replace("@triton.jit\n", f"{helper}@triton.jit\n", 1)


def test_a_mapping_within_rows_leaves_the_other_axes() -> None:
    text = write_mapped(read_triton_source(TWO_AXES), {"plane": GroupMapping((RowSpread(8),))}, {"plane": (32, 4, 1)})
    assert "column, row = swizzled_plane(), tl.program_id(axis=1)  # ünïcode" in text
    assert "        p + row" not in text and text.count("    @triton.jit\n    def ") == 2


def test_every_call_in_the_kernel_is_replaced() -> None:
    tile = GroupMapping((Tile(4, 4),))
    text = write_mapped(read_triton_source(TWO_AXES), {"plane": tile}, {"plane": (32, 4, 1)})
    assert "column, row = swizzled_plane(0), swizzled_plane(1)  # ünïcode before the next one: ü" in text
    assert "tl.num_programs(0) + column, swizzled_plane(2))" in text


KERNEL = "import triton, triton.language as tl\n@triton.jit\ndef helper(): return tl.program_id(0)\n"


@pytest.mark.parametrize(
    ("body", "decorators", "code"),
    [
        ("tl.store(p + helper(), 1)", "", Reason.PROGRAM_ID_IN_HELPER),
        ("tl.store(p + by_helper(), 1)", "", Reason.PROGRAM_ID_IN_HELPER),
        ("tl.store(p, 1)", "", Reason.PROGRAM_ID_ELSEWHERE),
        ("tl.store(p + tl.program_id(AXIS), 1)", "", Reason.PROGRAM_ID_ELSEWHERE),
        ("f = tl.program_id\n    tl.store(p + f(0), tl.program_id(0))", "", Reason.PROGRAM_ID_ELSEWHERE),
        ("for i in tl.range(tl.program_id(0), 9, tl.num_programs(0)): tl.store(p + i, 1)", "", Reason.PERSISTENT),
        ("pid = tl.program_id(0)\n    for i in range(pid, 9, AXIS): tl.store(p + i, 1)", "", Reason.PERSISTENT),
        ("tl.store(p + tl.program_id(0), 1)", "@triton.autotune(configs=CONFIGS, key=[])\n", Reason.AUTOTUNED),
        (
            "tl.store(p + tl.program_id(0), 1)",
            "@triton.autotune([triton.Config({'A': 1}), triton.Config({'A': 2})], key=[])\n",
            Reason.AUTOTUNED,
        ),
        ("tl.store(p + tl.program_id(0), 1)", "@triton.autotune([triton.Config({'A': 1})], key=[])\n", None),
        ("for i in range(tl.program_id(0), 9): tl.store(p + i, 1)", "", None),
    ],
)
def test_kernels_are_refused_with_a_reason(body: str, decorators: str, code: Reason | None) -> None:
    helper = "@triton.jit\ndef by_helper(): return helper()\n"
    text = f"{KERNEL}{helper}{decorators}@triton.jit\ndef k(p, AXIS: tl.constexpr):\n    {body}\n"
    refusal = find_refusal(read_triton_source(text), "k")
    assert (refusal.code if refusal else None) == code, refusal


def test_kernels_that_are_not_there_or_mapped_already_are_refused() -> None:
    missing = find_refusal(read_triton_source(SHARED_ROWS), "other")
    assert missing is not None and missing.code == Reason.NOT_IN_SCRIPT
    once = write_mapped(
        read_triton_source(SHARED_ROWS), {"row_sums": GroupMapping((Spread(8),))}, {"row_sums": (512, 1, 1)}
    )
    with pytest.raises(BadInput, match="mapped already"):
        write_mapped(read_triton_source(once), {"row_sums": GroupMapping((Spread(8),))}, {"row_sums": (512, 1, 1)})
    twice = find_refusal(read_triton_source(DOUBLE + DOUBLE), "double")
    assert twice is not None and "several" in twice.text


def test_text_that_is_not_python_is_bad_input() -> None:
    with pytest.raises(BadInput) as raised:
        read_triton_source("__global__ void k() {}")
    assert raised.value.reason == Reason.SYNTAX_ERROR


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("n = int(sys.argv[1]) if len(sys.argv) > 1 else 512", ("512",)),
        ("n = int(sys.argv[2]) if len(sys.argv) > 2 else 512", ()),
        ("a = int(sys.argv[2]) if sys.argv[2:] else 7\nb = sys.argv[1] if sys.argv[1:] else 'x'", ("x", "7")),
        ("n = 3 if x else 4", ()),
    ],
)
def test_default_arguments_are_read_where_a_script_says_them(text: str, arguments: tuple[str, ...]) -> None:
    assert read_default_arguments(read_triton_source(text)) == arguments
