"""Attributes what a kernel's instructions did to its source lines and loops."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from hipsynth.core.kernel_record import KernelRecord, Work
from hipsynth.profiling.lines import loops as loop_ranges
from hipsynth.profiling.lines.line_records import Amounts, KernelLines, MachineInstruction, SourceLine, SourceLoop
from hipsynth.profiling.lines.line_table import Module, SourceLocation, module_of, source_locations
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.instructions import EVENTS, Instruction, KernelInstructions
from hipsynth.toolchain import CompileLimits

# Event -> the kernel's counters that it sums to.
COUNTERS: Mapping[str, tuple[str, ...]] = {
    "times": ("SQ_INSTS",),
    "bytes": ("EXACT_READ_BYTES", "EXACT_WRITE_BYTES", "EXACT_ATOMIC_BYTES"),
    "accesses": ("TCP_TOTAL_CACHE_ACCESSES",),
    "misses": ("TCP_TCC_READ_REQ", "TCP_TCC_ATOMIC_WITH_RET_REQ", "TCP_TCC_ATOMIC_WITHOUT_RET_REQ"),
    "l2_misses": ("TCC_MISS",),
    "lds_bytes": ("EXACT_LDS_BYTES",),
    "lds_cycles": ("SQ_LDS_IDX_ACTIVE",),
    "bank_conflicts": ("SQ_LDS_BANK_CONFLICT",),
}
_PRINTED = re.compile(r"^\s+(?P<text>\S.*?)\s*// (?P<address>[0-9A-F]{8,16}):", re.MULTILINE)  # by llvm-objdump
# A unit of the timing model -> the event that loads it, and the classes of instructions that count (none: all).
UNITS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "valu": ("issue_cycles", ("valu",)),
    "mfma": ("issue_cycles", ("mfma",)),
    "salu": ("times", ("salu", "smem")),
    "lds": ("lds_cycles", ()),
    "vl1d": ("l1_cycles", ()),
    "l2": ("l2_requests", ()),
    "atomics": ("l2_requests", ()),
    "infinity": ("fabric_bytes", ()),
    "hbm": ("fabric_bytes", ()),
}


def attribute_to_lines(
    kernels: Sequence[KernelRecord],
    instructions: Sequence[KernelInstructions],
    modules: Sequence[Module],
    own_name: Callable[[str], str],
    device: DeviceTable,
    limits: CompileLimits,
) -> tuple[KernelLines, ...]:
    """The lines of each kernel of a run (means per dispatch, see KernelRecord). `modules`: code object and disassembly
    of what the program was built with, or compiled while it ran; `own_name`: see own_files().

    Kernels of other code have none, nor has one whose several builds are one kernel of the result. Raises BadInput for
    an unreadable line table.
    """
    times_counted = Counter(kernel.symbol for kernel in instructions)
    counted = {kernel.symbol: kernel for kernel in instructions if times_counted[kernel.symbol] == 1}
    attributed = []
    for kernel in kernels:
        counts = counted.get(kernel.symbol)
        module = module_of(modules, kernel.symbol, counts.checksum) if counts else None
        if module is None or counts is None:
            continue
        rows, outside = scale_amounts(counts.rows, totals_of(kernel, device), kernel.dispatches)
        where = source_locations(module[0], (row.address for row in rows), own_name, limits)
        share = time_shares(rows, kernel, device)
        text = module[1].read_text(errors="replace")
        attributed.append(
            KernelLines(
                kernel.symbol,
                _source_lines(rows, where, share),
                _source_loops(rows, where, share, text),
                outside,
                _machine_instructions(rows, where, share, text),
            )
        )
    return tuple(attributed)


def totals_of(kernel: KernelRecord, device: DeviceTable) -> dict[str, float]:
    """Event -> the kernel's own amount per dispatch, as far as it has one."""
    totals = {
        event: sum(kernel.counters[name] for name in names)
        for event, names in COUNTERS.items()
        if all(name in kernel.counters for name in names)
    }
    if kernel.work is not None:
        totals["stall_cycles"] = exposed_cycles(kernel.work, device)
        totals["barrier_cycles"] = kernel.work.barrier_cycles
    return totals


def exposed_cycles(work: Work, device: DeviceTable) -> float:
    """Cycles that waves wait at instructions for memory and LDS in the timing model, each as if alone.

    The model (timing/model.cpp) also counts stores that are in flight when a wave ends (`Work.store_tails`): no
    instruction waits for those, so no line is charged with them.
    """
    spec = device.spec()
    l2, infinity = spec["l2.latency_cycles"], spec["fabric.infinity_cache_latency_cycles"]
    hbm = spec["hbm.latency_cycles"]
    return (
        work.l1_waits * spec["vl1d.latency_cycles"]
        + (work.l2_waits + work.scalar_l2_waits) * l2
        + (work.infinity_waits + work.scalar_infinity_waits) * infinity
        + (work.hbm_waits + work.scalar_hbm_waits) * hbm
        + work.store_waits * spec["l2.store_latency_cycles"]
        + work.scalar_hit_waits * spec["issue.smem_latency_cycles"]
        + work.lds_waits * spec["issue.lds_latency_cycles"]
    )


def scale_amounts(
    rows: Sequence[Instruction], totals: Mapping[str, float], dispatches: int
) -> tuple[list[Instruction], tuple[str, ...]]:
    """The instructions' amounts per dispatch, so that they sum to the kernel's; and the events that cannot.

    In a grid that ran in full they already do. Of a sampled or replayed one, part of the instructions was seen.
    """
    factors = dict.fromkeys(EVENTS, 1 / dispatches)
    outside = []
    for event, total in totals.items():
        counted_total = sum(row.amounts[event] for row in rows)
        if counted_total:
            factors[event] = total / counted_total
        elif total:
            outside.append(event)
    amounts = [{event: row.amounts[event] * factors[event] for event in EVENTS} for row in rows]
    return [replace(row, amounts=row_amounts) for row, row_amounts in zip(rows, amounts, strict=True)], tuple(outside)


def time_shares(rows: Sequence[Instruction], kernel: KernelRecord, device: DeviceTable) -> dict[int, float]:
    """Address -> its share of the kernel's time (0..1, sum 1).

    Of each unit's load, an instruction has a share; the units count by how much they bound the kernel: the time that
    each alone would need, to the power with which the timing model lets units overlap. Latency counts as a unit: its
    load is issue cycles, and cycles in which a wave waits for data or at barriers.
    """
    bounds = dict(kernel.limits.bounds) if kernel.limits else {}
    power = device.spec()["timing.overlap_norm"]
    loads = {unit: _unit_load(rows, event, kinds) for unit, (event, kinds) in UNITS.items()}
    loads["latency"] = [sum(row.amounts[e] for e in ("issue_cycles", "stall_cycles", "barrier_cycles")) for row in rows]
    longest = max((bounds.get(unit, 0.0) for unit, load in loads.items() if sum(load)), default=0.0)
    weights = {unit: (bounds.get(unit, 0.0) / longest) ** power if longest else 1.0 for unit in loads}
    weights = {unit: weight for unit, weight in weights.items() if weight and sum(loads[unit])}
    total_weight = sum(weights.values())
    return {
        row.address: sum(weight / total_weight * loads[unit][i] / sum(loads[unit]) for unit, weight in weights.items())
        for i, row in enumerate(rows)
    }


def _unit_load(rows: Sequence[Instruction], event: str, kinds: tuple[str, ...]) -> list[float]:
    return [row.amounts[event] if not kinds or row.kind in kinds else 0.0 for row in rows]


def _group_by(
    rows: Iterable[Instruction], key: Callable[[int], SourceLocation]
) -> dict[SourceLocation, list[Instruction]]:
    groups: dict[SourceLocation, list[Instruction]] = defaultdict(list)
    for row in rows:
        groups[key(row.address)].append(row)
    return groups


def _sum_amounts(rows: Sequence[Instruction], share: Mapping[int, float]) -> Amounts:
    return Amounts.of(rows, sum(share[row.address] for row in rows))


def _source_lines(
    rows: Sequence[Instruction], where: Mapping[int, SourceLocation], share: Mapping[int, float]
) -> tuple[SourceLine, ...]:
    groups = _group_by(rows, lambda address: where.get(address, SourceLocation()))
    return tuple(
        SourceLine(at.file, at.line, _sum_amounts(rows_of_line, share)) for at, rows_of_line in sorted(groups.items())
    )


def _machine_instructions(
    rows: Sequence[Instruction], where: Mapping[int, SourceLocation], share: Mapping[int, float], disassembly: str
) -> tuple[MachineInstruction, ...]:
    words = {int(match["address"], 16): " ".join(match["text"].split()) for match in _PRINTED.finditer(disassembly)}
    places = {row.address: where.get(row.address, SourceLocation()) for row in rows}
    return tuple(
        MachineInstruction(
            places[row.address].file,
            places[row.address].line,
            row.address,
            words.get(row.address, ""),
            row.amounts["issue_cycles"],
            _sum_amounts([row], share),
        )
        for row in sorted(rows, key=lambda row: row.address)
    )


def _source_loops(
    rows: Sequence[Instruction], where: Mapping[int, SourceLocation], share: Mapping[int, float], disassembly: str
) -> tuple[SourceLoop, ...]:
    """Loops that ran. Copies of one source loop, such as its unrolled part and the remainder, are one."""
    ran = {row.address: row for row in rows}
    every = [loop_range for loop_range in loop_ranges.loop_ranges(disassembly) if loop_range.head in ran]
    copies: dict[SourceLocation, list[loop_ranges.LoopRange]] = defaultdict(list)
    for loop_range in every:
        copies[_name_loop(loop_range, ran, where)].append(loop_range)
    loops = []
    for at, parts in sorted(copies.items()):
        inside = [row for row in rows if any(row.address in loop_range for loop_range in parts)]
        last = max((where[row.address].line for row in inside if where[row.address].file == at.file), default=at.line)
        passes = sum(ran[loop_range.head].amounts["times"] for loop_range in parts)
        depth = min(loop_ranges.loop_depth(loop_range, every) for loop_range in parts)
        loops.append(SourceLoop(at.file, at.line, max(last, at.line), depth, passes, _sum_amounts(inside, share)))
    return tuple(loops)


def _name_loop(
    loop_range: loop_ranges.LoopRange, ran: Iterable[int], where: Mapping[int, SourceLocation]
) -> SourceLocation:
    """The place of the branch back, else the first line of the loop."""
    latch = where.get(loop_range.latch, SourceLocation())
    if latch.line:
        return latch
    return min(
        (where[address] for address in ran if address in loop_range and where[address].line), default=SourceLocation()
    )
