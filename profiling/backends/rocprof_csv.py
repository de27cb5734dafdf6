"""Reads the output of ROCm's profilers: rocprofv3's CSV files and rocprof-compute (Omniperf) workload folders.

Three layouts, recognised by their header (column names are case-insensitive):
- long: `*_counter_collection.csv` of rocprofv3, one row per dispatch and counter (Counter_Name, Counter_Value);
- trace: `*_kernel_trace.csv` of rocprofv3, one row per dispatch with time stamps and X/Y/Z sizes;
- wide: `pmc_perf.csv`, `SQ_*.csv`, `timestamps.csv` of rocprof-compute, one row per dispatch, one column per counter.
Grid_Size counts work-items. Counters are summed over instances and named without `_sum` and `[channel]`.
"""

from __future__ import annotations

import contextlib
import csv
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim, KernelRecord, MeasurementSource
from hipsynth.profiling import metrics
from hipsynth.source.names import demangle, short_name

Row = Mapping[str, str]

_BLOCKS = "SQ|SQC|TA|TD|TCP|TCC|TCA|CPC|CPF|SPI|GRBM"
_COUNTER = re.compile(rf"^(?P<name>(?:{_BLOCKS})_\w+?|FETCH_SIZE|WRITE_SIZE)(?P<sum>_sum)?(?:\[(?P<channel>\d+)\])?$")
# Columns whose meaning differs between files and that are never counters of a kernel.
_NOT_COUNTERS = frozenset({"SQ_ACCUM_PREV_HIRES"})
_SUFFIX = re.compile(r"\s*(\[clone \.kd\]|\(\.kd\)|\.kd)$")
# Kernels of the HIP runtime itself (hipMemset, hipMemcpy).
_RUNTIME = ("__amd_rocclr_",)
# Kinds of files by accuracy of their time stamps, best first: a trace without counters is undisturbed.
_TRACE, _WIDE, _LONG = 0, 1, 2


@dataclass
class _Dispatch:
    """One dispatch as recorded in one file; sizes are None if the file does not have them."""

    grid: Dim | None = None
    block: Dim | None = None
    counters: dict[str, float] = field(default_factory=dict)
    summed: set[str] = field(default_factory=set)  # the counters that a `_sum` row of the long layout gives
    duration_ns: float | None = None


_Reader = Callable[["_Dispatch", Row, Row], None]


@dataclass
class _File:
    """The dispatches of one file by kernel name, in the file's order."""

    rank: int
    kernels: dict[str, list[_Dispatch]]


def read_folder(folder: Path, arch: str, backend_version: str = "") -> tuple[KernelRecord, ...]:
    """The kernels of a profiler's output folder, including subfolders, in order of first dispatch.

    Counters and duration (ns) are means per dispatch; a counter that occurs in several files is averaged over them.
    Raises BadInput if no file contains kernels, or naming the file and row that cannot be read.
    """
    files = [counter_file for path in sorted(folder.rglob("*.csv")) if (counter_file := read_file(path)) is not None]
    names = dict.fromkeys(name for file in files for name in file.kernels)
    counted = [name for name in names if any(d.counters for file in files for d in file.kernels.get(name, ()))]
    if not counted:
        raise BadInput(
            f"{folder}: no kernel counters in its CSV files",
            cause=f"their columns: {', '.join(columns)}" if (columns := _list_columns(folder)) else "",
            remedy="give the output of `rocprofv3 --pmc ... --output-format csv` or of `rocprof-compute profile`",
        )
    return tuple(_build_kernel(name, files, arch, backend_version) for name in counted)


def _list_columns(folder: Path, most: int = 12) -> list[str]:
    """The first column names of the CSV files of a folder, each once."""
    names: dict[str, None] = {}
    for path in sorted(folder.rglob("*.csv")):
        with contextlib.suppress(OSError), path.open(newline="", errors="replace") as file:
            names |= dict.fromkeys(column.strip()[:60] for column in next(csv.reader(file), []) if column.strip())
    return list(names)[:most]


def read_file(path: Path) -> _File | None:
    """The kernels of a CSV file, or None if it contains none (sysinfo, agent info, other traces)."""
    try:
        with path.open(newline="", errors="replace") as file:
            reader = csv.reader(file)
            header = [column.strip() for column in next(reader, [])]
            lower = {column.lower(): column for column in header}
            if not {"kernel_name", "kernelname"} & set(lower):
                return None
            rows = ((reader.line_num, dict(zip(header, row, strict=False))) for row in reader if row)
            if "counter_name" in lower:
                return _File(_LONG, _read_rows(path, rows, _add_long_row))
            if "grid_size_x" in lower:
                return _File(_TRACE, _read_rows(path, rows, _add_trace_row))
            return _File(_WIDE, _read_rows(path, rows, _add_wide_row))
    except (OSError, csv.Error) as error:
        raise BadInput(f"{path}: cannot be read", cause=str(error), remedy="check the file") from error


def _read_rows(path: Path, rows: Iterable[tuple[int, Row]], into: _Reader) -> dict[str, list[_Dispatch]]:
    """Groups the rows by kernel and dispatch."""
    kernels: dict[str, dict[str, _Dispatch]] = defaultdict(dict)
    for number, row in rows:
        fields = {column.lower(): value for column, value in row.items()}
        try:
            name = _SUFFIX.sub("", fields.get("kernel_name") or fields["kernelname"]).strip()
            if name.startswith(_RUNTIME):
                continue
            key = fields.get("dispatch_id") or fields.get("index") or str(number)
            into(kernels[name].setdefault(key, _Dispatch()), fields, row)
        except (KeyError, ValueError, ArithmeticError) as error:
            raise BadInput(f"{path}:{number}: unreadable row", cause=repr(error), remedy="profile again") from error
    return {name: list(dispatches.values()) for name, dispatches in kernels.items()}


def _add_long_row(dispatch: _Dispatch, fields: Row, row: Row) -> None:
    """Adds a counter's row: rows of one name are instances; those with `_sum` take precedence over those without."""
    _flat_shape(dispatch, fields)
    dispatch.duration_ns = _read_duration(fields)
    column = fields["counter_name"]
    match = _COUNTER.match(column)
    is_sum = match is not None and match["sum"] is not None
    for name, value in _read_counters([(column, fields["counter_value"])]):
        if is_sum and name not in dispatch.summed:
            dispatch.summed.add(name)
            dispatch.counters[name] = value
        elif is_sum or name not in dispatch.summed:
            dispatch.counters[name] = dispatch.counters.get(name, 0.0) + value


def _add_trace_row(dispatch: _Dispatch, fields: Row, row: Row) -> None:
    block = _read_dims(fields, "workgroup_size")
    items = _read_dims(fields, "grid_size")
    dispatch.block = block
    dispatch.grid = (
        _count_groups(items[0], block[0]),
        _count_groups(items[1], block[1]),
        _count_groups(items[2], block[2]),
    )
    dispatch.duration_ns = _read_duration(fields)


def _add_wide_row(dispatch: _Dispatch, fields: Row, row: Row) -> None:
    _flat_shape(dispatch, fields)
    dispatch.duration_ns = _read_duration(fields)
    dispatch.counters.update(_read_counters(row.items()))


def _read_dims(fields: Row, name: str) -> Dim:
    return int(fields[f"{name}_x"]), int(fields[f"{name}_y"]), int(fields[f"{name}_z"])


def _count_groups(items: int, size: int) -> int:
    return -(-items // size)


def _flat_shape(dispatch: _Dispatch, fields: Row) -> None:
    """Work-groups and work-items from the flattened sizes, all in x."""
    items = fields.get("grid_size") or fields.get("grd")
    size = fields.get("workgroup_size") or fields.get("wgr")
    if items and size:
        block = int(float(size))
        dispatch.grid, dispatch.block = (_count_groups(int(float(items)), block), 1, 1), (block, 1, 1)


def _read_duration(fields: Row) -> float | None:
    begin = fields.get("start_timestamp") or fields.get("beginns")
    end = fields.get("end_timestamp") or fields.get("endns")
    if not begin or not end:
        return None
    duration = float(end) - float(begin)
    if not math.isfinite(duration):
        raise ValueError(f"the time stamps are {begin} and {end}")
    return duration


def _read_counters(cells: Iterable[tuple[str, str]]) -> Iterator[tuple[str, float]]:
    """Counter values by hardware name, and what the profiler derives from them under one name everywhere; a `_sum`
    column takes precedence over the sum of the channels. Raises ValueError for what is no finite number."""
    summed: dict[str, float] = {}
    channels: dict[str, float] = defaultdict(float)
    for column, text in cells:
        match = _COUNTER.match(column)
        if match is None or match["name"] in _NOT_COUNTERS or not text.strip():
            continue
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{column} is {text.strip()}")
        if match["channel"] is not None:
            channels[match["name"]] += value
        elif match["sum"] or match["name"] not in summed:
            summed[match["name"]] = value
    yield from (channels | summed).items()


def _build_kernel(name: str, files: Sequence[_File], arch: str, backend_version: str) -> KernelRecord:
    telling = [file for file in files if name in file.kernels]
    per_counter: dict[str, list[float]] = defaultdict(list)
    for file in telling:
        for counter, values in _by_counter(file.kernels[name]).items():
            per_counter[counter].append(_mean_of(values))
    counters = {counter: _mean_of(values) for counter, values in sorted(per_counter.items())}
    duration, source = _best_duration(name, telling)
    shapes = _launch_shapes(name, telling)
    grid, block = max(shapes, key=lambda shape: math.prod(shape[0]))
    return KernelRecord(
        name=short_name(demangle(name) if name.startswith("_Z") else name),
        dispatches=max(len(file.kernels[name]) for file in telling),
        grid=grid,
        block=block,
        counters=counters,
        metrics=metrics.compute_metrics(counters, duration, arch),
        duration_ns=duration,
        source=MeasurementSource("rocprof", backend_version, source),
        same_shape=len(set(shapes)) == 1,
        signature=name,
    )


def _by_counter(dispatches: Iterable[_Dispatch]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for dispatch in dispatches:
        for counter, value in dispatch.counters.items():
            values[counter].append(value)
    return values


def _best_duration(name: str, files: Sequence[_File]) -> tuple[float, str]:
    """Mean duration in ns from the most accurate kind of file that has time stamps, and that kind."""
    for rank, source in ((_TRACE, "kernel trace"), (_WIDE, "rocprof-compute"), (_LONG, "counter collection")):
        durations = [
            d.duration_ns for f in files if f.rank == rank for d in f.kernels[name] if d.duration_ns is not None
        ]
        if durations:
            return _mean_of(durations), source
    raise BadInput(f"kernel {name}: no time stamps in the profiler's files", remedy="profile with --kernel-trace")


def _launch_shapes(name: str, files: Sequence[_File]) -> list[tuple[Dim, Dim]]:
    """Grid (work-groups) and block of each dispatch, from traces if there are any."""
    for rank in (_TRACE, _WIDE, _LONG):
        shapes = [
            (d.grid, d.block)
            for file in files
            if file.rank == rank
            for d in file.kernels[name]
            if d.grid is not None and d.block is not None
        ]
        if shapes:
            return shapes
    raise BadInput(f"kernel {name}: no launch sizes in the profiler's files", remedy="profile with --kernel-trace")


def _mean_of(values: Sequence[float]) -> float:
    return sum(values) / len(values)
