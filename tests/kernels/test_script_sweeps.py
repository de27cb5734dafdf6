"""`triton.autotune` and `triton.testing.do_bench` time configurations coarsely, and again where it counts."""

from __future__ import annotations

import json
from pathlib import Path

import needs
import pytest

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_UNITS, RunLimits

needs.installed("triton")

SCALE = """
import json, torch, triton, triton.language as tl

@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)

x = torch.ones(1 << 25, device="cuda")
y = torch.empty_like(x)
n = x.numel()
BLOCKS = {1024: 4, 64: 1, 2048: 8}
"""
TUNED = (
    SCALE
    + """
configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in BLOCKS.items()]
tuned = triton.autotune(configs=configs, key=["n"])(scale)
tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n)
print(json.dumps({config.kwargs["BLOCK"]: times[0] for config, times in tuned.configs_timings.items()}))
best = tuned.best_config
grid = (triton.cdiv(n, best.kwargs["BLOCK"]),)
print(best.kwargs["BLOCK"], triton.testing.do_bench(lambda: scale[grid](x, y, n, **best.all_kwargs())))
"""
)
BENCHMARKED = (
    SCALE
    + """
for block, warps in BLOCKS.items():
    grid = (triton.cdiv(n, block),)
    print(block, triton.testing.do_bench(lambda: scale[grid](x, y, n, BLOCK=block, num_warps=warps)))
"""
)


def profile_script(text: str, folder: Path, limits: RunLimits) -> TargetResult:
    script = folder / "code" / "script.py"
    script.parent.mkdir(parents=True)
    script.write_text(text)
    project = Project((SourceFile(script, "python"),), script.parent, ())
    result = SimBackend().profile(
        project_program(project), Target("gfx942", "-O3", "mi300x"), folder / "scratch", limits
    )
    assert (result.status, result.exit_code) == ("ok", 0), result.message
    return result


def by_block(result: TargetResult) -> dict[object, tuple[int, bool]]:
    """BLOCK -> launches, and whether they were sampled."""
    return {kernel.meta["BLOCK"]: (kernel.dispatches, kernel.sampled) for kernel in result.kernels}


def test_an_autotuner_times_again_what_may_be_the_fastest(tmp_path: Path) -> None:
    result = profile_script(TUNED, tmp_path, RunLimits())
    table, chosen = result.stdout.splitlines()
    times, (best, benchmark_ms) = json.loads(table), chosen.split()
    assert times[best] == float(benchmark_ms) == min(times.values())
    kernels = by_block(result)
    # In the sweep, the script's own launch, and the benchmark: the coarse timing has given way to these.
    assert kernels[int(best)] == (3, False)
    assert kernels[64] == (1, True), "slower for certain: its coarse timing is enough"
    [tuning] = result.autotunings
    assert {row.meta["BLOCK"]: row.time_ns for row in tuning.configurations} == pytest.approx(
        {int(block): 1e6 * time for block, time in times.items()}
    )


@pytest.mark.full
def test_a_sweep_of_benchmarks_times_again_what_may_be_the_fastest(tmp_path: Path) -> None:
    usual, exact = (
        profile_script(BENCHMARKED, tmp_path / name, limits)
        for name, limits in (("usual", RunLimits()), ("exact", RunLimits(sampling_units=0)))
    )
    printed, exactly = (
        {int(block): float(time) for block, time in map(str.split, result.stdout.splitlines())}
        for result in (usual, exact)
    )
    assert by_block(usual)[1024] == (1, False) and printed[1024] == exactly[1024]
    assert by_block(usual)[64] == (1, True) and printed[64] == pytest.approx(exactly[64], rel=0.05)
    assert not any(sampled for _, sampled in by_block(exact).values())


def test_a_profile_that_is_coarse_itself_times_once(tmp_path: Path) -> None:
    coarse = RunLimits(effort=CORPUS_EFFORT, sampling_units=CORPUS_UNITS)
    kernels = by_block(profile_script(BENCHMARKED, tmp_path, coarse))
    assert kernels[64] == (1, True) and {launches for launches, _ in kernels.values()} == {1}


def test_results_of_autotuning_are_in_tritons_own_format_and_found_again(tmp_path: Path) -> None:
    def tune(name: str) -> TargetResult:
        text = TUNED.replace("1 << 25", "1 << 18")
        return profile_script(text, tmp_path / name, RunLimits(autotune_cache=tmp_path / "results"))

    first = tune("first")
    [file] = (tmp_path / "results").glob("*/scale.autotune.json")
    timings = json.loads(file.read_text())["configs_timings"]
    assert [config["kwargs"]["BLOCK"] for config, _ in timings] == [1024, 64, 2048]
    assert {str(config["kwargs"]["BLOCK"]): times[0] for config, times in timings} == json.loads(
        first.stdout.splitlines()[0]
    )
    # The folder says that 64 is fastest; it is not, so whoever chooses it has read the folder.
    timings[1][1] = [1e-9] * 3
    file.write_text(json.dumps({"key": ["n"], "configs_timings": timings}))
    again = tune("again")
    assert again.autotunings[0].chosen.meta["BLOCK"] == 64 != first.autotunings[0].chosen.meta["BLOCK"]
    assert set(by_block(again)) == {64}


def test_what_was_tuned_before_the_script_dies_is_kept(tmp_path: Path) -> None:
    script = tmp_path / "killed.py"
    script.write_text(
        TUNED.replace("1 << 25", "1 << 18") + "\nimport os, signal; os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    result = SimBackend().profile(
        project_program(Project((SourceFile(script, "python"),), script.parent, ())),
        Target("gfx942", "-O3", "mi300x"), tmp_path / "scratch", RunLimits(autotune_cache=tmp_path / "results"),
    )  # fmt: skip
    assert result.status == "failed" and len(list((tmp_path / "results").glob("*/scale.autotune.json"))) == 1
