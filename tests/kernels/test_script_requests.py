"""Python scripts with Triton kernels in requests to the server and the editor: answered as the verbs answer them."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest
from triton_samples import DOUBLE

import hipsynth
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.serving.documents import ImprovedProgram
from hipsynth.serving.handlers import answer, predict, profile
from hipsynth.serving.requests import ProgramRequest
from hipsynth.tuning.optimize.documents import VerifyDocument

needs.installed("triton")

EXAMPLE = Path(__file__).parents[2] / "examples" / "matmul.py"
SCRIPT = DOUBLE + '\nx = torch.ones(1 << 20, device="cuda")\ndouble[(1024,)](x, BLOCK=1024)\n'


def ask(text: str, **more: object) -> ProgramRequest:
    return ProgramRequest(arch="gfx942", source=text, **more)  # type: ignore[arg-type]


def test_a_profile_is_that_of_the_verb_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "doubled.py"
    path.write_text(SCRIPT)
    [result] = profile(ask(SCRIPT, name=path.name, lines=True)).results
    [direct] = hipsynth.profile(path, arch="gfx942").results
    [kernel], [same] = result.kernels, direct.kernels
    assert (kernel.name, kernel.counters, kernel.meta) == (same.name, same.counters, same.meta)
    costs = {line.line: line.share for line in kernel.lines or () if Path(line.file).name == path.name}
    assert "tl.load" in SCRIPT.splitlines()[max(costs, key=costs.__getitem__) - 1]


def test_a_saved_script_finds_the_modules_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sizes.py").write_text("WORDS = 1 << 20\n")
    path = tmp_path / "main.py"
    path.write_text(
        SCRIPT.replace("1 << 20", "WORDS").replace("import torch,", "from sizes import WORDS\nimport torch,")
    )
    [result] = predict(ask(path.read_text(), name=path.name, path=str(path))).results
    assert [(kernel.name, kernel.grid) for kernel in result.kernels] == [("double", (1024, 1, 1))]
    with pytest.raises(BadInput) as raised:
        predict(ask(path.read_text(), name=path.name))
    assert raised.value.reason == Reason.NEEDS_LIBRARY


def test_a_script_is_not_run_without_trust() -> None:
    with pytest.raises(BadInput) as raised:
        predict(ask(SCRIPT, run_host=False))
    assert raised.value.reason == Reason.NOT_RUN


@pytest.mark.parametrize(("name", "value"), [("flags", "-O1"), ("grid", (4,)), ("values", {"n": 4})])
def test_what_is_for_hip_programs_is_refused(name: str, value: object) -> None:
    with pytest.raises(UsageError, match=f"{name}: only for HIP programs"):
        profile(ask(SCRIPT, **{name: value}))


def test_a_script_that_fails_is_a_result_with_a_reason() -> None:
    [result] = profile(ask(SCRIPT.replace("BLOCK=1024", "BLOCK=1000"))).results
    assert result.reason == Reason.COMPILE_FAILED and "power of 2" in result.message


@pytest.mark.full
def test_a_changed_script_is_verified() -> None:
    body = {"arch": "gfx942", "source": SCRIPT.replace("2 * tl", "3 * tl"), "original": SCRIPT, "name": "double.py"}
    document = answer("verify", body)
    assert isinstance(document, VerifyDocument) and not document.verified
    assert [check.name for check in document.checks if check.passed is False] == ["outputs_equal"]


@pytest.mark.full
@pytest.mark.parametrize("kind", ["optimize", "swizzle"])
def test_a_search_answers_with_the_changed_script(kind: str) -> None:
    body = {"arch": "gfx942", "source": EXAMPLE.read_text(), "name": "product.py", "budget_s": 30.0}
    improved = answer(kind, body)
    assert isinstance(improved, ImprovedProgram)
    assert bool(improved.diff) == (improved.source != EXAMPLE.read_text())
