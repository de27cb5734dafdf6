"""The verbs as Python functions: the examples of docs/how-to/python.md run as a plain script; the shell completes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import needs

ROOT = Path(__file__).resolve().parents[2]
SAXPY = """#include <hip/hip_runtime.h>
__global__ void saxpy(int n, float a, const float* x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_the_examples_run(tmp_path: Path) -> None:
    needs.package("pandas")
    blocks = BLOCK.findall((ROOT / "docs" / "how-to" / "python.md").read_text())
    assert len(blocks) == 5
    (tmp_path / "saxpy.hip").write_text(SAXPY)
    script = tmp_path / "examples.py"  # without `if __name__ == "__main__"`: workers must not run it again
    check = 'assert "<iframe" in profile._repr_html_()\nprint("BEGUN ONCE")\n'
    script.write_text("".join(blocks) + check)
    done = subprocess.run(
        [sys.executable, str(script)], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("BEGUN ONCE") == 1
    printed = done.stdout.splitlines()
    assert printed[0].startswith("saxpy ")
    assert printed[1].startswith("1024"), "65,536 work-items are 1,024 waves"
    assert [word in done.stdout for word in ("gfx90a", "gfx942", "TCC_MISS")] == [True] * 3
    assert "missing.hip: no such file" in done.stdout
    assert "saxpy" in done.stderr, "the warning says what was assumed of the launch"


def complete(words: str, position: int) -> list[str]:
    """What bash offers for the word at a position."""
    env = {**os.environ, "_SYNTH_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)}
    synth = Path(sys.executable).with_name("synth")
    done = subprocess.run([synth], env=env, capture_output=True, text=True, timeout=120, check=True)
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


def test_the_shell_completes_verbs_and_options() -> None:
    assert complete("synth pro", 1) == ["profile"]
    assert {"--what-if", "--html"} <= set(complete("synth profile --", 2))


def test_the_shells_get_a_script() -> None:
    synth = Path(sys.executable).with_name("synth")
    for shell in ("bash", "zsh", "fish"):
        env = {**os.environ, "_SYNTH_COMPLETE": f"{shell}_source"}
        done = subprocess.run([synth], env=env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0 and f"_SYNTH_COMPLETE={shell}_complete" in done.stdout, done.stderr
