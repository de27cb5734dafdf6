"""Writes the C++ side of the counter table; run by the build.

Usage: python generate.py OUT_DIR
Output: counter_names.h (enum Counter, its names, and the fabric counters of each architecture).
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script by the build

from hipsynth.core.files import write_if_changed
from hipsynth.simulator import devices

TABLE = Path(__file__).with_name("metrics.toml")


def fabric_row(arch: str, counters: Sequence[str], kinds: Sequence[str]) -> str:
    """C++ text of the fabric's counters of one architecture, in the order of `kinds`. Raises ValueError for a counter
    that metrics.toml lacks."""
    prefix = devices.architecture_fact(arch, "fabric_counters")
    names = [f"{prefix}_{kind}" for kind in kinds]
    if absent := set(names) - set(counters):
        raise ValueError(f"metrics.toml: no counter {min(absent)}")
    return ", ".join(f"Counter::{name}" for name in names)


def counters_header(docs: Mapping[str, str], archs: Sequence[str]) -> str:
    """enum Counter in the table's order; `docs` maps each name to what it counts."""
    members = "".join(f"  {name},  // {doc}\n" for name, doc in docs.items())
    names = "".join(f'    "{name}",\n' for name in docs)
    kinds = ("RDREQ", "RDREQ_32B", "WRREQ", "WRREQ_64B")
    fabric = "".join(f"    {{{fabric_row(arch, list(docs), kinds)}}},\n" for arch in archs)
    return (
        "// Generated from profiling/metrics/metrics.toml by generate.py.\n#pragma once\n\n"
        '#include <cstddef>\n#include <cstdint>\n\n#include "architectures.h"\n\nnamespace hipsynth {\n\n'
        f"enum class Counter : uint8_t {{\n{members}}};\n"
        f"inline constexpr size_t kCounters = {len(docs)};\n"
        f"inline constexpr const char* kCounterNames[kCounters] = {{\n{names}}};\n"
        "constexpr const char* name_of(Counter c) { return kCounterNames[static_cast<size_t>(c)]; }\n\n"
        "// Reads and writes of the fabric, by Arch.\nstruct FabricCounters {\n"
        f"  Counter {', '.join(kind.lower() for kind in kinds)};\n}};\n"
        f"inline constexpr FabricCounters kFabricCounters[kArchs] = {{\n{fabric}}};\n\n}}  // namespace hipsynth\n"
    )


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    facts = tomllib.loads(TABLE.read_text())
    docs = {name: row["doc"] for name, row in {**facts["counters"], **facts["others"]}.items()}
    write_if_changed(out / "counter_names.h", counters_header(docs, devices.list_architectures()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
