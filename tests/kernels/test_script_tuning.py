"""`synth swizzle` and `synth optimize` of Python scripts: what is executed, compared and written."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner
from triton_samples import DOUBLE, SHARED_ROWS

from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.library.swizzle import swizzle_program
from hipsynth.tuning.swizzle.search import SwizzleSettings
from hipsynth.tuning.trial import target_of

needs.package("triton")


def call_synth(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, words, standalone_mode=False)
    assert result.exception is None, result.exception
    return result.return_value, result.stdout


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


SMALL_BLOCKS = """
BLOCK = 16
x = torch.rand(1 << 16, device="cuda")
before = x.clone()
double[(x.numel() // BLOCK,)](x, BLOCK=BLOCK)
assert torch.equal(x, 2 * before)
"""


def test_larger_blocks_are_found_and_verified(tmp_path: Path) -> None:
    script, out = tmp_path / "script.py", tmp_path / "faster.py"
    script.write_text(DOUBLE + SMALL_BLOCKS)
    words = ("--arch", "gfx942", "--budget", "6s", "--clock", "20m", "--out", str(out), "--json")
    code, text = call_synth("optimize", str(script), *words)
    assert code == 0, text
    document = json.loads(text)
    assert (document["status"], document["language"], document["ended"]) == ("improved", "triton", "budget"), document
    [gain] = document["gains"]
    assert (gain["kernel"], gain["launches"], gain["share"]) == ("double", 1, 1.0)
    assert gain["speedup"] == document["speedup"] > 1.2
    checks = {check["name"]: check["passed"] for check in document["verified"]["checks"]}
    assert checks == {"outputs_equal": True, "other_inputs": True, "stale_memory": True}
    block = document["steps"][document["step"]]["plan"]["BLOCK"]
    assert out.read_text() == script.read_text().replace("BLOCK = 16", f"BLOCK = {block}")
    assert {step["outcome"] for step in document["steps"]} <= {"kept", "not_faster", "failed", "wrong"}


def test_kernels_without_numbers_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{DOUBLE}x = torch.ones(64, device='cuda')\nmore = dict(BLOCK=64)\ndouble[(1,)](x, **more)\n")
    code, text = call_synth("optimize", str(script), "--arch", "gfx942", "--json")
    document = json.loads(text)
    assert (code, document["status"], document["refusals"]) == (3, "refused", {"double": "no_literals"}), document
