"""Kernels without main() in requests: which texts get one, and what is refused."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.serving.handlers import complete_program, complete_text, predict, program_of, verify
from hipsynth.serving.limits import MOST_KERNELS
from hipsynth.serving.requests import ProgramRequest, VerificationRequest
from hipsynth.source.harness import HarnessChoices
from hipsynth.source.includes import RUNTIME_HEADER

KERNEL = "__global__ void scale(int n, float* x) {\n  if (threadIdx.x < n) x[threadIdx.x] *= 2;\n}\n"
PROGRAM = KERNEL + "int main() { return 0; }\n"
NOTHING = HarnessChoices()
TEMPLATE = "template <class... T> __global__ void fill(float* x) { x[0] = 1; }\n"


def complete(text: str, path: str = "", choices: HarnessChoices = NOTHING) -> tuple[str, str, tuple[str, ...]]:
    """(the text, that of the file to compile, what was assumed)."""
    with ExitStack() as scratch:
        request = ProgramRequest(arch="gfx90a", source=text, path=path)
        program, assumed = complete_program(program_of(request), choices, scratch.enter_context)
        return program.text, program.project.sources[0].path.read_text() if program.project else "", assumed


def test_a_kernel_keeps_its_lines_and_gets_a_main() -> None:
    text, _, (assumed,) = complete(KERNEL, choices=HarnessChoices(values={"n": 4096}))
    assert text.startswith(RUNTIME_HEADER + KERNEL) and "int main(int argc" in text
    assert "scale is launched with 16 x 1 x 1 work-groups of 256 x 1 x 1; n = 4096" in assumed


def test_a_saved_kernel_of_an_editor_gets_one_beside_its_file(tmp_path: Path) -> None:
    path = tmp_path / "scale.hip"
    path.write_text(KERNEL)
    _, compiled, assumed = complete(KERNEL, str(path))
    assert compiled.startswith(RUNTIME_HEADER + KERNEL) and "int main(int argc" in compiled and assumed
    assert path.read_text() == KERNEL


def test_a_program_stays_as_it_is_and_takes_no_choices() -> None:
    assert complete(PROGRAM) == (PROGRAM, "", ())
    with pytest.raises(UsageError, match="for kernels without main"):
        complete(PROGRAM, choices=HarnessChoices(grid=(4, 1, 1)))


def test_values_of_no_argument_do_not_fit_the_program() -> None:
    request = ProgramRequest(arch="gfx90a", source=KERNEL, values={"m": 3})
    with pytest.raises(BadInput, match="m: no kernel has an argument of this name"):
        predict(request)


@pytest.mark.parametrize("sizes", [(1, MOST_KERNELS + 1), (MOST_KERNELS + 1, 1)])
def test_too_many_kernels_of_either_text_are_not_compared(sizes: tuple[int, int]) -> None:
    original, changed = ("".join(KERNEL.replace("scale", f"scale{n}") for n in range(size)) for size in sizes)
    with pytest.raises(BadInput, match="more than 256 kernels"):
        verify(VerificationRequest(arch="gfx90a", source=changed, original=original))


def test_what_cannot_be_launched_is_refused_with_the_reason() -> None:
    with pytest.raises(BadInput, match="is a template"):
        complete(TEMPLATE)


@pytest.mark.parametrize("text", [PROGRAM, TEMPLATE, KERNEL[:-2], "int n;\n", ""])
def test_a_prediction_of_other_texts_is_of_the_text_alone(text: str) -> None:
    assert complete_text(text, HarnessChoices()) is None
