"""Headers of corpus/handwritten: what each program shows, which step of its problem it is, and what to expect of it.

A program starts with a comment: its idea in prose, then lines `// key: value`:

    step: gemm 3 gemm_lds_tiled, after gemm_coalesced    problem (its folder), number, name (its file), step before it
    paradigm: per-tile                                   who does which work
    bound: gfx90a lds, gfx942 lds                        bottleneck of the kernel that takes longest, per architecture
    moves: TCC_REQ down, Duration down                   what changes, on both architectures; not on first steps
    check: 96 64                                         arguments of a small run, which checks its results

A bottleneck is a unit of profiling/metrics/bottleneck.py. What moves is a counter (summed over all launches), the
`Duration` (of all kernels together), or a metric of the kernel that takes longest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import ProgramRun, load_program
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.metrics import bottleneck
from hipsynth.simulator.devices import default_device
from hipsynth.simulator.limits import RunLimits

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "handwritten"
FLAGS = "-O3"
_KEYS = ("step", "paradigm", "bound", "moves", "check")
_LINE = re.compile(rf"({'|'.join(_KEYS)}):\s*(.*)")
_STEP = re.compile(r"(\w+) (\d+) (\w+)(?:, after (\w+))?")


@dataclass(frozen=True)
class HandwrittenStep:
    """The header of one program."""

    path: Path
    idea: str
    problem: str
    number: int
    name: str
    after: str  # "" for the first step of a problem
    paradigm: str
    bound: Mapping[str, str]  # architecture -> unit
    moves: tuple[tuple[str, str], ...]  # (counter, metric or "Duration"; "up" or "down")
    check: tuple[str, ...]  # arguments


@dataclass(frozen=True)
class ProgramFigures:
    """The kernels of one program on one architecture; their counters and durations are means per launch."""

    kernels: tuple[KernelRecord, ...]

    @property
    def heaviest_kernel(self) -> KernelRecord:
        """The kernel that takes longest over all its launches."""
        return max(self.kernels, key=lambda kernel: kernel.dispatches * (kernel.duration_ns or 0))

    @property
    def limiting_unit(self) -> str:
        return bottleneck.rank_bounds(self.heaviest_kernel)[0].unit

    def sum_launches(self, counter: str) -> float:
        """A counter, or "Duration" in ns, over all launches; KeyError for a counter that there is not."""
        return sum(k.dispatches * (k.duration_ns or 0 if counter == "Duration" else k.counters[counter])
                   for k in self.kernels)  # fmt: skip

    def find_value(self, name: str) -> float:
        """The value of a name that a header says to move, in its unit: see the module."""
        if name == "Duration" or name in self.heaviest_kernel.counters:
            return self.sum_launches(name)
        return self.heaviest_kernel.metrics[name] or 0.0


def read_comment(text: str) -> list[str]:
    """The lines of the comment that a program starts with, without their slashes."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line.removeprefix("//").strip())
    return lines


def _parse_pairs(text: str) -> tuple[tuple[str, str], ...]:
    return tuple((words[0], words[1]) for item in text.split(",") if len(words := item.split()) == 2)


def read_step(path: Path) -> HandwrittenStep:
    """The header of a program; raises ValueError, naming the file, for a missing or malformed line."""
    fields: dict[str, str] = {}
    idea = []
    for line in read_comment(path.read_text()):
        if match := _LINE.fullmatch(line):
            fields[match[1]] = match[2].strip()
        elif not fields:
            idea.append(line)
    wanted = [key for key in _KEYS if key not in fields and (key != "moves" or ", after " in fields.get("step", ""))]
    step = _STEP.fullmatch(fields.get("step", ""))
    if wanted or step is None:
        raise ValueError(
            f"{path}: the header has no {', '.join(wanted) or 'step of the form `problem 2 name, after x`'}"
        )
    problem, number, name, after = step.groups()
    return HandwrittenStep(
        path=path,
        idea=" ".join(filter(None, idea)),
        problem=problem,
        number=int(number),
        name=name,
        after=after or "",
        paradigm=fields["paradigm"],
        bound=dict(_parse_pairs(fields["bound"])),
        moves=_parse_pairs(fields.get("moves", "")),
        check=tuple(fields["check"].split()),
    )


def list_steps(corpus: Path = CORPUS) -> Iterator[HandwrittenStep]:
    """All programs, by problem and step."""
    programs = [read_step(path) for path in corpus.rglob("*.hip")]
    yield from sorted(programs, key=lambda step: (step.problem, step.number))


def profile_step(
    step: HandwrittenStep, arch: str, arguments: tuple[str, ...] = (), limits: RunLimits | None = None
) -> TargetResult:
    """Profiles a program on the default device of an architecture, as `synth profile` does."""
    program = replace(load_program(step.path), runs=(ProgramRun(arguments),))
    with scratch_folder() as scratch:
        return SimBackend().profile(program, Target(arch, FLAGS, default_device(arch)), scratch, limits or RunLimits())


def measure_step(step: HandwrittenStep, arch: str) -> ProgramFigures:
    """Profiles a program at its default size; raises RuntimeError if it fails. What it prints is not looked at: large
    grids compute no results (docs/explanation/sampling.md)."""
    result = profile_step(step, arch)
    if result.status != RunStatus.OK:
        raise RuntimeError(f"{step.name} on {arch}: {result.reason}: {result.message}")
    return ProgramFigures(result.kernels)
