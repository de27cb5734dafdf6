"""Does every family compile on both architectures, and run with the result its oracle expects?"""

from __future__ import annotations

import shlex
from pathlib import Path

import needs
import pytest
from generated_samples import small

from hipsynth import toolchain
from hipsynth.core.oracle_check import describe_mismatch
from hipsynth.core.program import Program, ProgramRun
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.arguments import run_text
from hipsynth.synth.generate.headers import load_templates
from hipsynth.synth.generate.problem_sizes import expected_output

FAMILIES = sorted(load_templates())
DEVICES = {"gfx90a": "mi250", "gfx942": "mi300x"}
FLAGS = ("-O3", "-O3 -ffast-math", "-O3 -munsafe-fp-atomics")
SAMPLE = 6  # programs per family in the full suite


@pytest.mark.full
@pytest.mark.parametrize("number", range(len(FAMILIES)))
def test_family_compiles(number: int, tmp_path: Path) -> None:
    """One architecture each, in turn; the full suite does both."""
    needs.compiler()
    program, _ = small(FAMILIES[number])
    source = tmp_path / "program.hip"
    source.write_text(program.text)
    build = toolchain.compile_device(source, list(DEVICES)[number % 2], "-O3", tmp_path)
    assert program.name in " ".join(build.kernels)


def wrong(program: Program, run: ProgramRun, target: Target, scratch: Path) -> str:
    """How a run differs from what the oracle expects; "" if it does not."""
    backend = needs.simulator()
    expected = expected_output(program, run)
    assert expected is not None
    result = backend.profile(program.with_runs([run]), target, scratch, RunLimits())
    assert result.provenance["sampled"] == "false"
    return result.message or result.reason or describe_mismatch(expected, result.exit_code, result.stdout)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("flags", ["-O0", "-O3"])
@pytest.mark.parametrize("family", FAMILIES)
def test_a_small_run_prints_what_the_oracle_expects(family: str, flags: str, tmp_path: Path) -> None:
    """The program gets its sizes as arguments; its defaults are larger."""
    needs.compiler()
    program, run = small(family)
    assert run.arguments and run_text(program.text, shlex.join(run.arguments)) != program.text
    arch = list(DEVICES)[FAMILIES.index(family) % 2]
    assert wrong(program, run, Target(arch, flags, DEVICES[arch]), tmp_path) == ""


@pytest.mark.parametrize("seed", range(6))
def test_compositions_print_what_the_oracle_expects(seed: int, tmp_path: Path) -> None:
    needs.compiler()
    program, run = small("compose", 300 + seed)
    arch = list(DEVICES)[seed % 2]
    assert wrong(program, run, Target(arch, FLAGS[seed % 3], DEVICES[arch]), tmp_path) == ""


@pytest.mark.full
@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_sample_prints_what_the_oracle_expects(family: str, arch: str, tmp_path: Path) -> None:
    needs.compiler()
    failures = []
    for index in range(SAMPLE):
        program, run = small(family, 77 + index)
        target = Target(arch, FLAGS[index % len(FLAGS)], DEVICES[arch])
        scratch = tmp_path / str(index)
        scratch.mkdir()
        if found := wrong(program, run, target, scratch):
            failures.append(f"{program.id} {target.flags} {shlex.join(run.arguments)}: {found} {dict(program.params)}")
    assert not failures, "\n".join(failures)
