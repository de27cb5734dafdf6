"""Does every family compile on both architectures, and run with the result its oracle expects?"""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.profiling import toolchain
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.sim.limits import Limits
from hipsynth.synth.core.oracle_check import mismatch
from hipsynth.synth.core.program import Program
from hipsynth.synth.generate.choices import Choices, Stream
from hipsynth.synth.generate.headers import templates
from hipsynth.synth.generate.producer import draw_program, make_program

FAMILIES = sorted(templates())
DEVICES = {"gfx90a": "mi250", "gfx942": "mi300x"}
FLAGS = ("-O3", "-O3 -ffast-math", "-O3 -munsafe-fp-atomics")
SAMPLE = 6  # programs per family in the full suite


def small(family: str) -> Program:
    """A program of the family with its default parameters."""
    template = templates()[family]
    return make_program(family, Choices(Stream("compile", family)), {p.name: p.default for p in template.parameters})


@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_family_compiles(number: int, tmp_path: Path) -> None:
    """One architecture each, in turn; the full suite does both."""
    needs.compiler()
    program = small(FAMILIES[number])
    source = tmp_path / "program.hip"
    source.write_text(program.text)
    build = toolchain.compile_device(source, list(DEVICES)[number % 2], "-O3", tmp_path)
    assert program.name in " ".join(build.kernels)


@pytest.mark.full
@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_sample_compiles_runs_and_prints_what_the_oracle_expects(family: str, arch: str, tmp_path: Path) -> None:
    needs.compiler()
    backend = needs.simulator()
    failures = []
    for index in range(SAMPLE):
        program = draw_program(77, index, 0, family)
        target = Target(arch, FLAGS[index % len(FLAGS)], DEVICES[arch])
        scratch = tmp_path / str(index)
        scratch.mkdir()
        result = backend.profile(program, target, scratch, Limits())
        assert program.expected is not None
        wrong = result.message or mismatch(program.expected, result.exit_code, result.stdout)
        if wrong or result.status != "ok":
            failures.append(f"{program.id} {target.flags}: {result.reason} {wrong} {dict(program.params)}")
    assert not failures, "\n".join(failures)
