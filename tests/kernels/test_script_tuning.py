"""`synth swizzle` and `synth optimize` of Python scripts: what is executed, compared and written."""

from __future__ import annotations

import json
import os
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner
from triton_samples import DOUBLE, SHARED_ROWS

import hipsynth
from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.library.swizzle import swizzle_program
from hipsynth.tuning.swizzle.search import SwizzleSettings
from hipsynth.tuning.trial import target_of

needs.installed("triton")


def call_synth(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


@pytest.mark.full
def test_programs_that_share_rows_are_brought_together(tmp_path: Path) -> None:
    script, out = tmp_path / "rows.py", tmp_path / "faster.py"
    script.write_text(SHARED_ROWS)
    mapping = "select(id < n/8*8, id%8*(n/8) + id/8, id)"
    code, text = call_synth(
        "swizzle", str(script), "--arch", "gfx942", "--mapping", mapping, "--clock", "10m", "--out", str(out), "--json"
    )
    assert code == 0, text
    document = json.loads(text)
    [kernel] = document["kernels"]
    assert (kernel["status"], kernel["language"], kernel["bijection"]) == ("improved", "triton", "symbolic"), kernel
    assert kernel["outputs_equal"] and kernel["meta"]["WIDTH"] == 4096
    assert kernel["before"]["L2_Cache_Hit_Rate"] < 20 < 80 < kernel["after"]["L2_Cache_Hit_Rate"]
    assert kernel["after"]["L2_Cache_Hit_Rate"] <= kernel["ceiling"]["L2_Cache_Hit_Rate"] + 1e-9
    assert document["patched"] == str(out) and "pid = swizzled_row_sums()" in out.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [("print('no kernel')\n", Reason.NO_DISPATCH), (DOUBLE + "double(\n", Reason.SYNTAX_ERROR)],
)
def test_scripts_without_kernels_are_bad_input(text: str, reason: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(text)
    with pytest.raises(BadInput) as raised:
        swizzle_program(script, SwizzleSettings(target_of("gfx942")), lambda _: None)
    assert raised.value.reason == reason and raised.value.exit_code == 3


AUTOTUNED_ROWS = (
    SHARED_ROWS.replace(
        "@triton.jit\n",
        """@triton.autotune(configs=[
    triton.Config({"STEP": step}, num_warps=warps) for step in (0, 1) for warps in (4, 1)
], key=["WIDTH"])
@triton.jit
""",
    )
    .replace("WIDTH: tl.constexpr", "WIDTH: tl.constexpr, STEP: tl.constexpr")
    .replace(", num_warps=4", "")
)


@pytest.mark.full
def test_a_choice_does_not_depend_on_the_cores_that_compile(tmp_path: Path) -> None:
    spread, alone = tmp_path / "spread.py", tmp_path / "alone.py"
    threads = "import threading, triton.compiler as c\nmake, seen = c.compile, set()\n" + (
        "def compile_and_note(*a, **k):\n    seen.add(threading.get_ident())\n    return make(*a, **k)\n"
        "c.compile = compile_and_note\n"
    )
    text = AUTOTUNED_ROWS.replace("\n@triton", f"\n{threads}@triton", 1) + "print(len(seen))\n"
    spread.write_text(text)
    alone.write_text("import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" + text)
    results = [hipsynth.profile(script, arch="gfx942").measured[0] for script in (spread, alone)]
    assert results[0].autotunings == results[1].autotunings and len(results[0].autotunings[0].configurations) == 4
    cores = len(os.sched_getaffinity(0))
    assert [int(result.stdout) > 1 for result in results] == [cores > 1, False]


@pytest.mark.full
def test_an_autotuned_kernel_is_mapped_with_what_it_chose_and_keeps_its_list(tmp_path: Path) -> None:
    script, out = tmp_path / "rows.py", tmp_path / "faster.py"
    script.write_text(AUTOTUNED_ROWS + "print(triton.testing.do_bench(lambda: row_sums[(512,)](x, y, WIDTH=4096)))\n")
    mapping = "select(id < n/8*8, id%8*(n/8) + id/8, id)"
    words = ("--arch", "gfx942", "--mapping", mapping, "--clock", "10m", "--out", str(out), "--json")
    code, text = call_synth("swizzle", str(script), *words)
    assert code == 0, text
    [kernel] = json.loads(text)["kernels"]
    assert (kernel["status"], kernel["bijection"], kernel["meta"]["STEP"]) == ("improved", "symbolic", 0), kernel
    before, after = script.read_text(), out.read_text()
    assert after.count("swizzled_row_sums()") == 2 and "for step in (0, 1) for warps in (4, 1)" in after
    assert set(before.splitlines()) - set(after.splitlines()) == {"    pid = tl.program_id(axis=0)"}


SMALL_BLOCKS = """
import time
began = time.perf_counter()
BLOCK = 16
x = torch.rand(1 << 16, device="cuda")
before = x.clone()
double[(x.numel() // BLOCK,)](x, BLOCK=BLOCK)
assert torch.equal(x, 2 * before)
time_ms = triton.testing.do_bench(lambda: double[(x.numel() // BLOCK,)](x, BLOCK=BLOCK))
print(f"{x.nbytes / time_ms:.0f} GB/s after {time.perf_counter() - began:.3f} s")
"""


@pytest.mark.full
def test_larger_blocks_are_found_and_verified(tmp_path: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "faster.py"
    script.write_text(DOUBLE + SMALL_BLOCKS)
    words = ("--arch", "gfx942", "--budget", "6s", "--clock", "20m", "--out", str(out), "--json")
    code, text = call_synth("optimize", str(script), *words)
    assert code == 0, text
    document = json.loads(text)
    assert (document["status"], document["language"], document["ended"]) == ("improved", "triton", "budget"), document
    [gain] = document["gains"]
    assert (gain["kernel"], gain["launches"], gain["share"]) == ("double", 2, 1.0)
    assert gain["speedup"] == document["speedup"] > 1.2
    checks = {check["name"]: check["passed"] for check in document["verified"]["checks"]}
    assert [checks[name] for name in ("outputs_equal", "other_inputs", "stale_memory")] == [True] * 3
    assert False not in checks.values() and {"races", "repeated_launches"} <= checks.keys()
    block = document["steps"][document["step"]]["plan"]["BLOCK"]
    assert out.read_text() == script.read_text().replace("BLOCK = 16", f"BLOCK = {block}")
    assert {step["outcome"] for step in document["steps"]} <= {"kept", "not_faster", "failed", "wrong"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        pytest.param("print('no kernel')\n", Reason.NO_DISPATCH, marks=pytest.mark.full),
        pytest.param(
            "double[(1,)](torch.ones(64, device='cuda'), BLOCK=48)\n", Reason.COMPILE_FAILED, marks=pytest.mark.full
        ),
        ("double[(1 << 20,)](torch.ones(64, device='cuda'), BLOCK=64)\n", Reason.ILLEGAL_ACCESS),
        pytest.param("while True: pass\n", Reason.TIMEOUT, marks=pytest.mark.full),
    ],
)
def test_scripts_that_fail_have_a_reason_and_a_remedy(text: str, reason: Reason, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(DOUBLE + text)
    words = ["optimize", str(script), "--arch", "gfx942", "--clock", "4s"]
    error = CliRunner().invoke(cli, words, standalone_mode=False).exception
    assert isinstance(error, BadInput) and (error.reason, error.exit_code) == (reason, 3), error
    assert error.remedy


def test_kernels_without_numbers_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{DOUBLE}x = torch.ones(64, device='cuda')\nmore = dict(BLOCK=64)\ndouble[(1,)](x, **more)\n")
    code, text = call_synth("optimize", str(script), "--arch", "gfx942", "--json")
    document = json.loads(text)
    assert (code, document["status"], document["refusals"]) == (3, "refused", {"double": "no_literals"}), document


@pytest.mark.full
def test_a_search_that_tries_nothing_says_why(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    other = DOUBLE.split("@triton.jit")[1].replace("double", "again")
    launches = "x, more = torch.ones(64, device='cuda'), dict(BLOCK=64)\ndouble[(1,)](x, BLOCK=64)\n"
    script.write_text(f"{DOUBLE}\n@triton.jit{other}\n{launches}for _ in range(40): again[(1,)](x, **more)\n")
    code, text = call_synth("optimize", str(script), "--arch", "gfx942", "--json")
    document = json.loads(text)
    assert (document["status"], document["steps"]) == ("unchanged", []), (code, document)
    assert document["reason"] == "nothing was tried: no transformation applies"
