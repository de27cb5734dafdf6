"""The tools: plain functions of a session and named arguments. A parameter's annotation holds its description."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.matrix.job import profile_program
from hipsynth.profiling.reports.occupancy import next_occupancy_step
from hipsynth.profiling.reports.what_if import LEAST_WORTH, answer_what_if
from hipsynth.simulator.build import build_text, compile_limits
from hipsynth.simulator.limits import RunLimits
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.tuning.optimize.evaluate import (
    KernelTime,
    changed_metrics,
    kernel_of,
    original_name,
    sum_durations,
)
from hipsynth.tuning.optimize.move_order import describe_move, order_moves
from hipsynth.tuning.optimize.move_values import PREVIEWED, diff_texts
from hipsynth.tuning.optimize.source_changes import SOURCE_CHANGES
from hipsynth.tuning.optimize.transformation_plan import Move
from hipsynth.tuning.swizzle import report
from hipsynth.tuning.swizzle.search import SwizzleSettings
from hipsynth.tuning.swizzle.search import search_mappings as swizzled
from hipsynth.tuning.tools.documents import (
    ChangedProgram,
    CheckPassed,
    ComparedPrograms,
    CompiledProgram,
    ForecastKernel,
    ForecastProgram,
    HotLine,
    HotLines,
    KernelCauses,
    KernelResources,
    ProgramCauses,
    ProgramResources,
    ProgramText,
    ProposedMove,
    ProposedMoves,
    RemappedProgram,
    RemovedCause,
    TimedKernel,
    TimedProgram,
    VerifiedProgram,
)
from hipsynth.tuning.tools.tool_session import ToolRefusal, ToolSession, Version

MOST_MOVES = 40  # that `propose` lists
MOST_LINES = 30
MOST_READ = 400  # lines
MOST_CHANGED = 24  # metrics and counters of a kernel in `compare`

ProgramName = Annotated[str, "name of a program, such as v0"]


def compile_source(
    session: ToolSession,
    source: Annotated[str, "the whole HIP program as text, with main(); no files beside it"],
    replaces: Annotated[str, "name of the program that it must behave like; empty for a new one"] = "",
    arguments: Annotated[str, "its command-line arguments in timed runs"] = "",
) -> CompiledProgram:
    """Compile a whole HIP program and give it a name; the other tools take that name. Says why it does not compile."""
    try:
        words = tuple(shlex.split(arguments))
    except ValueError as error:
        raise ToolRefusal(f"arguments: {error}", remedy="close the quotes", reason=Reason.BAD_ARGUMENTS) from None
    root = session.find_version(replaces).root if replaces else ""
    if replaces and not words:
        words = session.versions[root].arguments
    if len(source.encode(errors="replace")) <= session.limits.source_bytes:  # else `add` refuses it
        limits = compile_limits(RunLimits(session.limits.run_s))
        with scratch_folder() as scratch:
            build_text(source, "program", session.target.arch, session.target.flags, scratch / "build", limits)
    version = session.add(source, root=root, arguments=words, made="source", parent=replaces)
    return CompiledProgram(version.name, version.root)


def read(
    session: ToolSession,
    program: ProgramName,
    first: Annotated[int, "number of the first line"] = 1,
    most: Annotated[int, "how many lines, at most 400"] = 200,
) -> ProgramText:
    """Read the text of a program, each line behind its number, as `hot_lines` counts them."""
    lines = session.find_version(program).text.splitlines()
    begin = max(1, first)
    excerpt = lines[begin - 1 : begin - 1 + max(1, min(most, MOST_READ))]
    if not excerpt:
        raise ToolRefusal(f"{program} has {len(lines)} lines", remedy="read from line 1", reason=Reason.BAD_ARGUMENTS)
    return ProgramText(program, "\n".join(f"{begin + at}\t{line}" for at, line in enumerate(excerpt)), len(lines))


def edit(
    session: ToolSession,
    program: ProgramName,
    old: Annotated[str, "text that occurs once in the program, without line numbers"],
    new: Annotated[str, "text to put in its place"],
) -> ChangedProgram:
    """Replace a piece of a program's text, and compile it; answers with the changed program's name and the change as a
    diff. The changed program must behave like the one it was made from."""
    version = session.find_version(program)
    times = version.text.count(old) if old else 0
    if times != 1:
        remedy = "give more of the lines around it" if times else "read the program, and copy the text exactly"
        raise ToolRefusal(f"the old text occurs {times} times in {program}", remedy=remedy, reason=Reason.BAD_ARGUMENTS)
    changed = compile_source(session, version.text.replace(old, new), version.name, shlex.join(version.arguments))
    return ChangedProgram(changed.program, _version_diff(version, session.find_version(changed.program)))


def profile(session: ToolSession, program: ProgramName) -> TimedProgram:
    """Run a program on the simulated GPU: each kernel's time, what limits it, and the hardware's metrics."""
    return describe_run(session.measure_completed(session.find_version(program)).kernels)


def describe_run(kernels: Sequence[KernelTime]) -> TimedProgram:
    """What `profile` answers of a measured run."""
    slowest_first = sorted(kernels, key=lambda kernel: -kernel.duration_ns)
    return TimedProgram(round(sum_durations(kernels) / 1e3, 3), tuple(map(_kernel_entry, slowest_first)))


def _kernel_entry(kernel: KernelTime) -> TimedKernel:
    return TimedKernel(
        kernel.name,
        round(kernel.duration_ns / 1e3, 3),
        kernel.dispatches,
        kernel.bottleneck,
        kernel.limited_by,
        kernel.grid,
        kernel.block,
        {name: round(value, 3) for name, value in kernel.metrics.items() if value is not None},
    )


@functools.cache
def _load_predictor() -> AnalyticPredictor:
    return AnalyticPredictor.load()


def predict(session: ToolSession, program: ProgramName) -> ForecastProgram:
    """Predict each kernel's time and what limits it from a few work-groups: faster than profile, less exact."""
    version, target = session.find_version(program), session.target
    question = LaunchAssumptions(arguments=version.arguments)
    prediction = _load_predictor().predict(version.text, target.arch, target.flags, target.device, question)
    rows = []
    for kernel in prediction.kernels:
        time = None if kernel.duration_ns is None else round(kernel.duration_ns / 1e3, 3)
        rows.append(ForecastKernel(kernel.name, time, kernel.bottleneck, kernel.reason if kernel.abstained else None))
    return ForecastProgram(tuple(rows))


def compare(
    session: ToolSession,
    before: Annotated[str, "name of the first program"],
    after: Annotated[str, "name of the second program"],
) -> ComparedPrograms:
    """Compare the measured runs of two programs: the speed-up, and the metrics and counters that changed."""
    runs = (
        session.measure_completed(session.find_version(before)),
        session.measure_completed(session.find_version(after)),
    )
    return compare_runs(runs[0].kernels, runs[1].kernels)


def compare_runs(before: Sequence[KernelTime], after: Sequence[KernelTime]) -> ComparedPrograms:
    """What `compare` answers of two measured runs."""
    changed = {}
    for kernel in before:
        now = kernel_of(after, original_name(kernel.name))
        if now is not None:
            rows = changed_metrics(kernel, now)
            names = [name for name in rows if name in kernel.metrics] + [n for n in rows if n not in kernel.metrics]
            changed[kernel.name] = {name: rows[name] for name in names[:MOST_CHANGED]}
    first_ns, then_ns = sum_durations(before), sum_durations(after)
    speedup = round(first_ns / then_ns, 3) if then_ns else None
    return ComparedPrograms(speedup, round(first_ns / 1e3, 3), round(then_ns / 1e3, 3), changed)


def resources(session: ToolSession, program: ProgramName) -> ProgramResources:
    """Run a program and list what its kernels occupy: registers, LDS, scratch, how many waves fit on a compute unit,
    what limits them, and the next step to more."""
    kernels = _profile_version(session, program).kernels
    return ProgramResources(
        tuple(filter(None, (_kernel_resources(kernel, session.target.device) for kernel in kernels)))
    )


def _kernel_resources(kernel: KernelRecord, device: str) -> KernelResources | None:
    registers, room = kernel.registers, kernel.occupancy
    if registers is None or room is None:
        return None
    return KernelResources(
        name=kernel.name,
        vgprs_per_lane=int(registers.vgprs),
        agprs_per_lane=int(registers.agprs),
        sgprs_per_wave=int(registers.sgprs),
        lds_bytes_per_group=int(registers.lds_bytes),
        scratch_bytes_per_item=int(registers.scratch_bytes),
        groups_per_cu=room.groups_per_cu,
        waves_per_cu=room.waves_per_cu,
        share_of_wave_slots=round(room.fraction, 3),
        limited_by=room.limited_by,
        next_step=next_occupancy_step(kernel, device),
    )


def what_if(session: ToolSession, program: ProgramName) -> ProgramCauses:
    """Run a program and list what each cause of its kernels' time is worth at most: bank conflicts, cache misses,
    latency, occupancy, barriers, atomics and others, each as if it were gone."""
    kernels = _profile_version(session, program).kernels
    rows = []
    for kernel in sorted(kernels, key=lambda kernel: -kernel.duration_ns * kernel.dispatches):
        answers = answer_what_if(kernel, session.target.device) or ()
        causes = (
            RemovedCause(answer.cause, answer.title, round(answer.worth_percent, 1))
            for answer in answers
            if answer.worth_percent >= LEAST_WORTH
        )
        rows.append(KernelCauses(kernel.name, round(kernel.duration_ns * kernel.dispatches / 1e3, 3), tuple(causes)))
    return ProgramCauses(tuple(rows))


def _profile_version(session: ToolSession, program: str, *, lines: bool = False) -> TargetResult:
    """The profile of a program; raises ToolRefusal if it does not run to its end."""
    version = session.find_version(program)
    source = Program(version.text, "llm", "", name="program", runs=(ProgramRun(version.arguments),))
    [result] = profile_program(source, [session.target], "sim", RunLimits(time_s=session.limits.run_s, lines=lines))
    if result.status != RunStatus.OK:
        raise ToolRefusal(f"{program} does not run", cause=result.message[:1500], reason=result.reason)
    return result


def hot_lines(
    session: ToolSession, program: ProgramName, most: Annotated[int, "how many lines to list, at most 30"] = 8
) -> HotLines:
    """Run a program and list the source lines that cost most, each with its share of its kernel's time."""
    text = session.find_version(program).text.splitlines()
    rows = []
    profile = _profile_version(session, program, lines=True)
    names = {kernel.symbol: kernel.name for kernel in profile.kernels}
    for kernel in profile.lines:
        for line in kernel.lines:
            if 0 < line.line <= len(text):
                amounts = line.amounts
                rows.append(
                    HotLine(
                        names.get(kernel.symbol, kernel.symbol),
                        line.line,
                        text[line.line - 1].strip()[:160],
                        round(amounts.share, 3),
                        round(amounts.instructions),
                        round(amounts.bytes),
                        round(amounts.stall_cycles),
                    )
                )
    rows.sort(key=lambda row: -row.share)
    return HotLines(tuple(rows[: max(1, min(most, MOST_LINES))]))


def propose(
    session: ToolSession,
    program: ProgramName,
    preview: Annotated[int, "how many of the likeliest moves to preview for their gain; 0 for none"] = PREVIEWED,
) -> ProposedMoves:
    """List the transformations that can be applied to a program, by number: those with the largest previewed gain
    first, then the others, the likeliest to help first."""
    version = session.find_version(program)
    moves = _list_moves(session, version)
    state, arch = session.describe_state(version), session.target.arch
    ordered = order_moves([describe_move(move, state, arch) for move, _ in moves])
    gains = {number: session.expected_gain(version, moves[number][1]) for number in ordered[: max(preview, 0)]}
    rows = [ProposedMove(n, m.transformation, m.kernel, m.plan.decisions(), m.why) for n, (m, _) in enumerate(moves)]
    fixed = {k.name: k.together or k.fixed for k in session.parse_base(version).kernels if not k.independent}
    return ProposedMoves(list_proposals(rows, ordered, gains), fixed or None, dict(session.faults.failed) or None)


def _list_moves(session: ToolSession, version: Version) -> list[tuple[Move, str]]:
    """What `propose` numbers: the transformations, then the changes of the source, which are fewer."""
    changes = session.list_changes(version)
    return [*session.list_moves(version)[: max(0, MOST_MOVES - len(changes))], *changes][:MOST_MOVES]


def list_proposals(
    rows: Sequence[ProposedMove], ordered: Sequence[int], gains: Mapping[int, float | None]
) -> tuple[ProposedMove, ...]:
    """What `propose` lists of a program's moves: by gain where it is previewed, else in the order of their numbers in
    `ordered`."""
    listed = sorted(ordered, key=lambda number: -(gains.get(number) or 0.0))
    return tuple(replace(rows[number], gain=_round_gain(gains.get(number))) for number in listed)


def _round_gain(gain: float | None) -> float | None:
    return None if gain is None else round(gain, 2)


def apply(
    session: ToolSession,
    program: ProgramName,
    move: Annotated[int, "number of a move that propose listed for the program"],
) -> ChangedProgram:
    """Apply one proposed transformation; answers with the changed program's name and the change as a diff."""
    version = session.find_version(program)
    moves = _list_moves(session, version)
    if not 0 <= move < len(moves):
        problem = f"{program} has {len(moves)} moves; there is no move {move}"
        raise ToolRefusal(problem, remedy="call propose", reason=Reason.UNKNOWN_MOVE)
    chosen, text = moves[move]
    is_source = chosen.transformation in SOURCE_CHANGES  # then later moves read the changed text
    plans = {} if is_source else {**version.plans, chosen.kernel: chosen.plan}
    changed = session.add(
        text,
        root=version.root,
        base="" if is_source else version.base,
        plans=plans,
        arguments=version.arguments,
        made=chosen.transformation,
        parent=version.name,
    )
    return ChangedProgram(changed.name, _version_diff(version, changed))


def _version_diff(before: Version, after: Version) -> str:
    return diff_texts(before.text, after.text, (before.name, after.name))


def run_and_verify(session: ToolSession, program: ProgramName) -> VerifiedProgram:
    """Check that a program does the same as the one it replaces: outputs, precision, other inputs, other sizes."""
    verified = session.verify(session.find_version(program))
    return VerifiedProgram(verified.passed, tuple(CheckPassed(c.name, c.passed, c.detail) for c in verified.checks))


def verify(
    session: ToolSession,
    original: Annotated[str, "name of the program whose results are right"],
    changed: Annotated[str, "name of the program that must do the same"],
) -> VerifiedProgram:
    """Check that one program does the same as another one, with the reason where it does not."""
    verified = session.verify(session.find_version(changed), session.find_version(original).name)
    return VerifiedProgram(verified.passed, tuple(CheckPassed(c.name, c.passed, c.detail) for c in verified.checks))


def swizzle(session: ToolSession, program: ProgramName) -> RemappedProgram:
    """Remap the work-groups of a program's kernels to the GPU's chiplets, with a proof of each mapping."""
    version = session.find_version(program)
    result = swizzled(version.text, SwizzleSettings(session.target, version.arguments), lambda line: None)
    kernels = tuple(map(report.kernel_document, result.answers))
    if result.text == version.text:
        return RemappedProgram(kernels=kernels)
    swizzled_version = session.add(
        result.text, root=version.root, arguments=version.arguments, made="swizzle", parent=version.name
    )
    return RemappedProgram(
        program=swizzled_version.name, diff=_version_diff(version, swizzled_version), kernels=kernels
    )
