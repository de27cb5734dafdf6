"""Converts rows of a corpus to rows of a release: which columns are kept, and in which form."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache

from hipsynth.core.errors import BadInput
from hipsynth.core.expressions import iterate_names
from hipsynth.core.reasons import Reason
from hipsynth.core.store import Row, StoredRow
from hipsynth.core.store.release import AXES, REGISTERS, TOOLS, TRAFFIC
from hipsynth.profiling import metrics
from hipsynth.simulator import label_model
from hipsynth.source.skeletons import control_skeleton, token_skeleton

RELEASED_BACKENDS = ("sim", "preview")
CODE_DIGITS = 16  # of the code object's SHA-256
FACT_COUNTERS = frozenset({"SQ_ITEMS"})  # the others of training.data.work_facts are parts of metrics
_SAME = ("arguments", "arch", "device", "flags", "kernel_index", "kernel", "dispatches", "same_shape", "duration_ns")


@cache
def kept_counters() -> tuple[str, ...]:
    """The counters from which the metrics are computed, and those that facts of training samples need."""
    facts = metrics.metric_table()
    rows = (*facts.expressions.values(), *facts.metrics.values())
    used = {name for row in rows for formula in row.formula.values() for name in iterate_names(formula)}
    return tuple(sorted((used | FACT_COUNTERS) & set(facts.counters)))


def program_row(program: StoredRow, shard: int, opcodes: Iterable[str] | None) -> Row:
    """The release's row of a program of a corpus; `opcodes` of its builds, None if not known.

    Raises BadInput for one that is not a base program of the generator.
    """
    if program["origin"] != "synthetic" or program["derivation"] or not program["choices"] or not program["text"]:
        raise BadInput(
            f"program {program['id']} of shard {shard} is not a base program of the generator",
            remedy="pack shards that `synth release make` labelled",
            reason=Reason.BAD_RECORD,
        )
    same = {name: program[name] for name in ("id", "family", "params", "runs", "choices", "text")}
    skeletons = {"skeleton": token_skeleton(program["text"]), "lineage": control_skeleton(program["text"])}
    return {**same, **skeletons, "opcodes": None if opcodes is None else sorted(opcodes), "shard": shard}


def label_row(row: StoredRow, program: StoredRow, shard: int) -> Row:
    """The release's row of a kernel of a corpus; `program` is a `program_row`. Raises BadInput for a row that it cannot
    hold without loss."""
    label = f"label {row['measurement_id']} of shard {shard}"
    if row["backend"] not in RELEASED_BACKENDS or not row["limits"] or not row["sampling"]:
        raise BadInput(f"{label} was not made by the simulator", reason=Reason.BAD_RECORD)
    is_executed = row["backend"] == "sim"
    provenance, counters = dict(row["provenance"]), dict(row["counters"])
    errors = dict(row["sampling"]["error"])
    columns: Row = {name: row[name] for name in _SAME}
    columns |= {"id": row["measurement_id"], "program": program["id"], "shard": shard, "exit_code": row["exit_code"]}
    columns |= {name: program[name] for name in ("family", "lineage")}
    columns |= {f"{name}_{axis}": row[name][n] for name in ("grid", "block") for n, axis in enumerate(AXES)}
    columns |= {"bottleneck": row["limits"]["bottleneck"], "sampling": row["sampling"]["strategy"]}
    columns["groups_simulated"] = row["sampling"]["groups_simulated"]
    columns["duration_error"] = errors.get("Duration", 0.0) if is_executed else None
    columns["counter_error"] = (
        max((errors.get(name, 0.0) for name in kept_counters() if counters.get(name)), default=0.0)
        if is_executed
        else None
    )
    columns["occupancy"] = (row["occupancy"] or {}).get("fraction")
    columns |= {name: round(row["registers"][name]) for name in REGISTERS}
    columns |= {name: (row["traffic"] or {}).get(name) for name in TRAFFIC}
    columns |= {name: row[name] for name in metrics.all_ids()}
    for name in kept_counters():
        columns[name] = _dispatch_total(counters.get(name), row["dispatches"], f"{label}: {name}")
    columns["code"] = provenance["code_sha256"][:CODE_DIGITS]
    return columns


def _dispatch_total(mean: float | None, dispatches: int, column: str) -> int | None:
    """The sum over all dispatches, an integer from which the mean follows exactly."""
    if mean is None:
        return None
    total = round(mean * dispatches)
    if total / dispatches != mean:
        raise BadInput(
            f"{column} is no mean of an integer: {mean} of {dispatches} dispatches", reason=Reason.BAD_RECORD
        )
    return total


def tools_of(rows: Iterable[StoredRow], shard: int) -> dict[str, str]:
    """The tools of a shard. Raises BadInput if its rows were made by several; versions with equal labels are one."""
    named = {json.dumps({name: row[name] for name in TOOLS} | {"version": row["source"]["version"]}) for row in rows}
    names = named if len(named) == 1 else {json.dumps(canonical_tools(json.loads(tools))) for tools in named}
    if len(names) != 1:
        raise BadInput(
            f"shard {shard} was made by {len(names)} versions of the tools"
            if names
            else f"shard {shard} has no labels",
            cause="the simulator, compiler or headers changed while it was labelled",
            remedy="remove its corpus folder and label it again",
            reason=Reason.MIXED_VERSIONS,
        )
    tools: dict[str, str] = json.loads(names.pop())
    return tools


def canonical_tools(tools: Mapping[str, str]) -> dict[str, str]:
    """The tools of a shard or row with the present names of their versions."""
    return {**tools, **{name: label_model.current_version(tools[name]) for name in ("backend_version", "version")}}


def build_opcodes(rows: Iterable[StoredRow]) -> dict[str, set[str]]:
    """Program id -> opcodes of its builds, where the profile recorded them."""
    opcodes: dict[str, set[str]] = {}
    for row in rows:
        words = dict(row["provenance"]).get("opcodes", "").split()
        if words:
            opcodes.setdefault(row["program_id"], set()).update(words)
    return opcodes
