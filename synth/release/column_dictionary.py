"""What every column of a release holds: the dictionary on the dataset card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.profiling.metrics import metric_table

PROGRAM_COLUMNS = {
    "id": "hash of the text",
    "family": "kernel family or composition that the generator drew",
    "skeleton": "hash of the device code's tokens without names and numbers",
    "lineage": "hash of the device code's control skeleton; a lineage lies in one split",
    "params": "JSON: what the generator chose, sizes among them",
    "runs": "JSON: command-line arguments of each run, and the parameters that they change",
    "choices": "the generator's recorded choices, which give the text again",
    "opcodes": "opcodes of the builds; null if not recorded",
    "shard": "labelled shard that the row is from (release.json)",
    "text": "HIP source of the whole program, with its main()",
}
LABEL_COLUMNS = {
    "id": "hash of program, arguments, target and tools; kernels of one run share it",
    "program": "id in `programs`",
    "family": "as in `programs`",
    "lineage": "as in `programs`",
    "arguments": "command line of the run, quoted as for a shell; empty: the defaults",
    "arch": "architecture by LLVM's name, e.g. gfx942",
    "device": "device table that was simulated, e.g. mi300x",
    "flags": "compiler flags",
    "kernel_index": "number of the kernel within its run, in the order of first launches",
    "kernel": "short name of the kernel",
    "dispatches": "how often it was launched; amounts below are means over them, counters are sums",
    "same_shape": "whether always with the same grid and block",
    "grid_x": "work-groups",
    "grid_y": "work-groups",
    "grid_z": "work-groups",
    "block_x": "work-items of a work-group",
    "block_y": "work-items of a work-group",
    "block_z": "work-items of a work-group",
    "duration_ns": "duration of a launch in ns",
    "bottleneck": "unit of the timing model that takes longest",
    "sampling": "exact, replayed (all work-groups do the same) or sampled (a part ran, counts are scaled up)",
    "groups_simulated": "work-groups that ran",
    "duration_error": "relative error that sampling adds to the duration, two standard deviations",
    "counter_error": "the same of the counter where it is largest",
    "occupancy": "share of the wave slots of a CU that the kernel can fill, 0 to 1",
    "vgprs": "vector registers",
    "agprs": "accumulation registers",
    "sgprs": "scalar registers",
    "lds_bytes": "LDS of a work-group",
    "scratch_bytes": "scratch memory of a work-item",
    "hbm_read_bytes": "bytes that HBM delivered, behind the Infinity Cache",
    "hbm_write_bytes": "bytes that HBM took",
    "infinity_hits": "fabric requests that the Infinity Cache served",
    "code": "first digits of the code object's SHA-256",
    "exit_code": "of the program",
    "shard": "labelled shard that the row is from (release.json)",
}
METRIC_NOTE = "null where unknown, or where sampling makes it more uncertain than 10 %"
COUNTER_NOTE = "sum over the dispatches"


def describe_column(config: str, name: str) -> str:
    """What a column of `programs` or `labels` holds. Raises KeyError for a name that no table has."""
    if config == "programs":
        return PROGRAM_COLUMNS[name]
    if name in LABEL_COLUMNS:
        return LABEL_COLUMNS[name]
    table = metric_table()
    if name in table.metrics:
        metric = table.metrics[name]
        return f"{metric.title} in {metric.unit}; {METRIC_NOTE}"
    counter = table.counters[name] if name in table.counters else table.others[name]
    return f"{counter.doc}; {COUNTER_NOTE}"


def column_lines(config: str, names: Sequence[str]) -> Iterator[str]:
    """The columns of `programs` or `labels` as a Markdown table."""
    yield from (f"### {config}", "", "| column | holds |", "|---|---|")
    yield from (f"| `{name}` | {describe_column(config, name)} |" for name in names)
    yield ""
