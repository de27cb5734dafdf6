"""What the autotuner of a script tried: each configuration with its simulated time, and what limits it.

The reason that one is chosen is read from two of them beside each other: what the next best waits for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.metrics import bottleneck
from hipsynth.profiling.reports.documents import KernelTuning, TunedConfiguration
from hipsynth.profiling.reports.numbers import format_quantity
from hipsynth.simulator.autotunings import Autotuning, TriedConfiguration

TIMES = "times between events, without the launch; shares of durations, with it"
FAILS = "does not compile, or needs more than the device has"


def describe_autotunings(result: TargetResult) -> tuple[KernelTuning, ...] | None:
    """The choices of a run's autotuners; None without any."""
    return tuple(_describe_tuning(result, tuning) for tuning in result.autotunings) or None


def tuning_lines(result: TargetResult) -> Iterator[str]:
    """The choices as tables: a line for each configuration, the fastest first."""
    for tuning in describe_autotunings(result) or ():
        key = ", ".join(f"{name}={value}" for name, value in tuning.key.items())
        common = _common_meta(tuning.configurations)
        yield ""
        yield f"{tuning.kernel} autotuned{f' for {key}' if key else ''}  {result.arch} ({result.device}), {TIMES}"
        if common:
            yield f"  all: {_meta_text(common)}"
        for row in tuning.configurations:
            yield _configuration_line(row, common)


def _configuration_line(row: TunedConfiguration, common: Mapping[str, object]) -> str:
    differing = _meta_text({name: value for name, value in row.meta.items() if name not in common})
    if row.time_ns is None:
        return f"    {'-':>10}  {'':6}  {differing}  {FAILS}"
    why = "; ".join(filter(None, (row.limited_by, row.occupancy)))
    ratio = "chosen" if row.chosen else f"{row.times_chosen:.2f} x"
    return f"    {format_quantity(row.time_ns, 'ns'):>10}  {ratio:>6}  {differing}  {why}".rstrip()


def _meta_text(meta: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in meta.items())


def _common_meta(rows: Sequence[TunedConfiguration]) -> dict[str, object]:
    """The parameters that all configurations share."""
    first = rows[0].meta if len(rows) > 1 else {}
    return {name: value for name, value in first.items() if all(row.meta.get(name, None) == value for row in rows)}


def _describe_tuning(result: TargetResult, tuning: Autotuning) -> KernelTuning:
    fastest_first = sorted(
        tuning.configurations, key=lambda row: (row.time_ns is None, row.time_ns or 0.0, not row.chosen)
    )
    chosen_ns = tuning.chosen.time_ns
    rows = [_describe_configuration(result, tuning.kernel, row, chosen_ns) for row in fastest_first]
    return KernelTuning(tuning.kernel, tuning.key, tuple(rows))


def _describe_configuration(
    result: TargetResult, kernel: str, row: TriedConfiguration, chosen_ns: float | None
) -> TunedConfiguration:
    record = find_record(result.launches, kernel, row)
    bounds = bottleneck.rank_bounds(record) if record is not None else []
    room = bottleneck.simd_occupancy(record, result.device) if record is not None else None
    ratio = row.time_ns / chosen_ns if row.time_ns is not None and chosen_ns else None
    return TunedConfiguration(
        row.meta, row.time_ns, row.chosen, ratio, ", ".join(map(str, bounds[:2])), str(room) if room is not None else ""
    )


def find_record(records: Sequence[KernelRecord], kernel: str, row: TriedConfiguration) -> KernelRecord | None:
    """The launches of a configuration: of those with its parameters, the ones that took most nearly its time."""
    time_ns = row.time_ns
    if time_ns is None:
        return None
    return min(_list_fitting(records, kernel, row), key=lambda record: abs(record.duration_ns - time_ns), default=None)


def list_used(result: TargetResult) -> list[KernelRecord]:
    """A run's kernels without the builds that an autotuner tried and never chose, which its table has."""
    tried = [(tuning.kernel, row) for tuning in result.autotunings for row in tuning.configurations]
    unchosen_ids, chosen_ids = (
        {
            id(record)
            for kernel, row in tried
            if row.chosen == chosen
            for record in _list_fitting(result.kernels, kernel, row)
        }
        for chosen in (False, True)
    )
    return [record for record in result.kernels if id(record) not in unchosen_ids - chosen_ids]


def _list_fitting(records: Sequence[KernelRecord], kernel: str, row: TriedConfiguration) -> list[KernelRecord]:
    return [
        record
        for record in records
        if record.name == kernel and all(record.meta.get(name, value) == value for name, value in row.meta.items())
    ]
