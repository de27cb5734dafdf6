"""Where the processor time of a release's labels goes: tools, simulation by strategy, host code, Python.

    python benchmarks/release_cost.py [--plan NAME] [--shard S] [--programs N] [--apart]

Makes and labels, or previews, the first N programs (default 6) of a shard (default 5) as `synth release make
--workers 1` does, with no build or recording in the cache, in a folder that is then removed. `--apart` runs equal
machine code of several flag sets each time. Seconds are processor time, which a busy machine lengthens less than
elapsed time.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hipsynth.core.workers import ItemOutcome
from hipsynth.profiling.backends import equal_builds, sim
from hipsynth.profiling.matrix import collect
from hipsynth.profiling.preview import record
from hipsynth.profiling.preview.interpret import ASSUMPTIONS, DataAssumption, Interpreter, ScaledCounts
from hipsynth.simulator.api import RunResult
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.release.release_plan import LABELS, LIMITS, limits_of, load_plan
from hipsynth.toolchain import builds, sandbox


@dataclass
class ReleaseCosts:
    """Seconds and numbers of each kind of work."""

    seconds: dict[str, float] = field(default_factory=dict)
    times: Counter[str] = field(default_factory=Counter)
    inside: float = 0.0  # seconds of this process that are counted already

    def add_work(self, kind: str, seconds: float, times: int = 1) -> None:
        self.seconds[kind] = self.seconds.get(kind, 0.0) + seconds
        self.times[kind] += times


def name_tool(command: list[str]) -> str:
    """What a job in the sandbox does; "" for a program that is simulated."""
    words = [str(word) for word in command]
    if "-cc1" in words:
        return "compile, device side" if "-fcuda-is-device" in words else "compile, host side"
    names = {Path(word).name.partition("-")[0] for word in (words[0], words[-1])}
    if names & {"ld.lld", "lld", "ld"}:
        return "link"
    return "disassemble" if words[0] == "/bin/sh" else ""


def add_run(costs: ReleaseCosts, result: RunResult, again: bool) -> None:
    strategies = {kernel.sampling.strategy for kernel in result.kernels if kernel.sampling}
    name = next((s for s in ("sampled", "replayed") if s in strategies), "exact")
    costs.add_work(f"simulate, {name}{', second run' if again else ''}", result.device_s)
    costs.add_work("host code of programs, and their start", max(0.0, result.cpu_s - result.device_s))


@contextlib.contextmanager
def watch_costs(costs: ReleaseCosts) -> Iterator[None]:
    """Adds up what the tools and programs take that are started while the block runs."""
    start, simulate, run = sandbox.run_sandboxed, sim.run_in_copy, record.run_recording
    interpret = Interpreter._interpret_launch

    def count_tool(command: list[str], *args: Any, **options: Any) -> sandbox.SandboxResult:
        result = start(command, *args, **options)
        if kind := name_tool(command):
            costs.add_work(kind, result.cpu_s)
        return result

    def count_simulation(program: Any, artefacts: Any, device: Any, limits: Any) -> RunResult:
        result = simulate(program, artefacts, device, limits)
        add_run(costs, result, limits != LIMITS)
        return result

    def count_recording(artefacts: Any, *args: Any, **options: Any) -> RunResult:
        result = run(artefacts, *args, **options)
        costs.add_work("host code of programs, and their start", result.cpu_s)
        return result

    def count_interpretation(
        self: Interpreter, kernel: Any, launch: Any, assumed: DataAssumption, *device: Any
    ) -> ScaledCounts:
        begin = time.process_time()
        try:
            return interpret(self, kernel, launch, assumed, *device)
        finally:
            seconds = time.process_time() - begin
            costs.add_work(f"interpret{'' if assumed == ASSUMPTIONS[0] else ', other data'}", seconds)
            costs.inside += seconds

    with contextlib.ExitStack() as patches:
        for place, name, watcher in (
            (sandbox, "run_sandboxed", count_tool),
            (sim, "run_in_copy", count_simulation),
            (record, "run_recording", count_recording),
            (Interpreter, "_interpret_launch", count_interpretation),
        ):
            patches.enter_context(patch.object(place, name, watcher))
        yield


def map_in_process(function: Any, items: Any, *_: Any) -> Iterator[ItemOutcome[Any]]:
    """map_unordered in this process, where its parts can be watched."""
    for index, item in enumerate(items):
        yield ItemOutcome(index, function(item))


def measure_programs(plan: str, shard: int, count: int, apart: bool) -> tuple[ReleaseCosts, int]:
    """The costs of `count` programs of a shard, and the number of its labels."""
    costs, result = ReleaseCosts(), load_plan(plan)
    begin = time.process_time()
    drawn = generate_programs(result.programs, result.seed(shard), runs=result.sizes)
    programs = [replace(program, oracle=expected_output) for program, _ in zip(drawn, range(count), strict=False)]
    costs.add_work("generate", time.process_time() - begin, count)
    never = patch.object(equal_builds, "key_of", lambda *_: None) if apart else contextlib.nullcontext()
    begin = time.process_time()
    with (
        tempfile.TemporaryDirectory() as folder,
        watch_costs(costs),
        never,
        patch.object(collect, "map_unordered", map_in_process),
    ):
        options = collect.MatrixOptions(result.backend, limits=limits_of(result.backend))
        summary = collect.collect_matrix(programs, result.targets(shard), Path(folder) / "corpus", options)
    costs.add_work("Python: jobs, metrics, store", time.process_time() - begin - costs.inside, summary.planned)
    return costs, summary.measured


@contextlib.contextmanager
def hide_builds() -> Iterator[None]:
    """The cache without builds and recordings, but with the precompiled headers, which a machine makes once."""
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.object(builds, "entry_of", lambda job: Path(folder) / job.key),
        patch.object(record, "cache_dir", lambda: Path(folder)),
    ):
        yield


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plan", default=LABELS)
    parser.add_argument("--shard", type=int, default=5)
    parser.add_argument("--programs", type=int, default=6)
    parser.add_argument("--apart", action="store_true")
    options = parser.parse_args()
    with hide_builds():
        costs, labels = measure_programs(options.plan, options.shard, options.programs, options.apart)
    total = sum(costs.seconds.values())
    print(f"{labels} labels, {total:.1f} s, {total / labels:.3f} s per label")
    for kind, seconds in sorted(costs.seconds.items(), key=lambda row: -row[1]):
        print(f"  {kind:40} {seconds:8.2f} s {100 * seconds / total:5.1f} % {costs.times[kind]:6} times")


if __name__ == "__main__":
    main()
