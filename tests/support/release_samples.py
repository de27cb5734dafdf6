"""Labelled shards for tests of releases: real programs of the generator, made-up labels of the simulator."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hipsynth.core.kernel_record import KernelRecord, MeasurementSource, Registers, Sampling, TimingBounds, Traffic
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.store import CorpusItem, CorpusWriter
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Target
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.synth.release.release_plan import Folders, ReleasePlan, ShardKind

PLAN = ReleasePlan(programs=3, first_seed=1000, sizes=2, shards_per_file=2, kinds=(ShardKind(("-O3",), ()),))
TARGETS = (Target("gfx90a", "-O3", "mi250"), Target("gfx90a", "-O3", "mi210"), Target("gfx942", "-O3", "mi300x"))
VERSION = "dev-0-0"


def kernel(name: str, seed: int, arch: str, dispatches: int = 3) -> KernelRecord:
    counters = {
        name: (number * 7919 + seed) / dispatches for number, name in enumerate(metrics.metric_table().counters)
        if arch in metrics.metric_table().counters[name].archs
    }  # fmt: skip
    duration = 1234.5 + seed / 7
    return KernelRecord(
        name, dispatches, (4096 + seed, 1, 1), (256, 1, 1), duration, counters,
        metrics=metrics.compute_metrics(counters, duration, arch), source=MeasurementSource("sim", VERSION),
        registers=Registers(16, 0, 32, 1024, 0), limits=TimingBounds("hbm", 1.0, {}), traffic=Traffic(1.5, 2.0, 0.0),
        sampling=Sampling("sampled", 64, 0, {"Duration": 0.0125, "TCC_HIT": 0.25}),
    )  # fmt: skip


def item(
    program: Program, run: ProgramRun, target: Target, *, base: str = VERSION, version: str = "", reason: str = ""
) -> CorpusItem:
    seed = int(program.id[:3], 16) + len(shlex.join(run.arguments))
    made = [replace(kernel(f"k{n}", seed + n, target.arch), source=MeasurementSource("sim", base)) for n in range(2)]
    return CorpusItem(
        program_id=program.id, arguments=shlex.join(run.arguments), lineage=program.id, origin=program.origin,
        family=program.family, arch=target.arch, flags=target.flags, device=target.device, backend="sim",
        backend_version=f"{base}+sample2{version}", compiler="clang 22", headers="7.1",
        status="failed" if reason else "ok", reason=reason, exit_code=0,
        provenance={"code_sha256": program.id * 4, "opcodes": "s_endpgm v_add_u32"}, kernels=[] if reason else made,
    )  # fmt: skip


def programs(shard: int) -> list[Program]:
    return list(generate_programs(PLAN.programs, seed=PLAN.seed(shard), runs=PLAN.sizes))


def copy_of(program: Program) -> Program:
    """The same program under another kernel name, as the generator might have drawn it."""
    word = next(
        line.split("(")[0].split()[-1] for line in program.text.splitlines() if "__global__" in line and "(" in line
    )
    return replace(program, text=program.text.replace(word, f"{word}_again"))


def labelled(
    work: Path, shard: int, made: Iterable[Program] | None = None, *, mixed: bool = False, base: str = VERSION
) -> list[CorpusItem]:
    """Writes a finished shard into a working folder; returns its items, of which one failed."""
    folders = Folders(work)
    chosen = list(programs(shard) if made is None else made)
    items = [item(program, run, target, base=base) for program in chosen for run in program.runs for target in TARGETS]
    items[0] = item(chosen[0], chosen[0].runs[0], TARGETS[0], base=base, reason="timeout")
    if mixed:
        items[1] = item(chosen[0], chosen[0].runs[0], TARGETS[1], version="+later")
    with CorpusWriter(folders.corpus(shard), metrics.all_ids()) as writer:
        for program in chosen:
            writer.add_program(program.record(), program.text)
        for one in items:
            writer.add(one)
    folders.done_marker(shard).write_text("")
    return items
