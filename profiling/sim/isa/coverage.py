"""Which opcodes execute: `python -m profiling.sim.isa.coverage [--json]`.

`common_opcodes.csv` ranks the mnemonics that clang emits for 586 public HIP programs, by number of programs that use
them (column empty: not seen on that architecture).
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from profiling.sim.isa.table import ARCHS, HERE, Row, load_rows

RANKS = HERE / "common_opcodes.csv"
TESTS = {
    "valu": "tests/differential/test_alu_opcodes.py",
    "salu": "tests/differential/test_alu_opcodes.py",
    "flow": "tests/kernels",
    "smem": "tests/kernels",
    "vmem": "tests/kernels",
    "lds": "tests/kernels",
}


@dataclass(frozen=True)
class Entry:
    """One mnemonic: rank per architecture (None: not seen), whether it executes there, and its test."""

    mnemonic: str
    ranks: dict[str, int | None]
    state: str  # "executes" or "refused"
    reason: str
    test: str


def _test_of(row: Row) -> str:
    if row.mfma is not None:
        return "tests/differential/test_matrix_opcodes.py"
    if row.handler:
        return "tests/differential/test_special_opcodes.py"
    return TESTS[row.unit]


def _entry(mnemonic: str, ranks: dict[str, int | None], row: Row | None) -> Entry:
    if row is None:
        return Entry(mnemonic, ranks, "refused", "not in the opcode table", "")
    missing = [a for a, rank in ranks.items() if rank is not None and a not in row.archs]
    reason = row.refused or (f"no such instruction on {', '.join(missing)}" if missing else "")
    return Entry(mnemonic, ranks, "refused" if reason else "executes", reason, "" if row.refused else _test_of(row))


def coverage(ranks: Path = RANKS) -> list[Entry]:
    """State of every ranked mnemonic, in the order of the file."""
    rows = {r.name: r for r in load_rows()}
    entries = []
    with ranks.open(newline="") as file:
        for line in csv.DictReader(file):
            by_arch = {a: int(line[f"{a}_rank"]) if line[f"{a}_rank"] else None for a in ARCHS}
            entries.append(_entry(line["mnemonic"], by_arch, rows.get(line["mnemonic"])))
    return entries


def executing(entries: Iterable[Entry], arch: str) -> list[Entry]:
    return [e for e in entries if e.ranks[arch] is not None and e.state == "executes"]


def main(arguments: list[str]) -> int:
    entries = coverage()
    if "--json" in arguments:
        print(json.dumps([asdict(e) for e in entries]))
        return 0
    for e in entries:
        ranks = " ".join(f"{e.ranks[a] or '-':>4}" for a in ARCHS)
        print(f"{e.mnemonic:36} {ranks}  {e.state:9} {e.reason or e.test}")
    for arch in ARCHS:
        seen = [e for e in entries if e.ranks[arch] is not None]
        print(f"{arch}: {len(executing(entries, arch))} of {len(seen)} opcodes execute")
    print(f"both: {sum(e.state == 'executes' for e in entries)} of {len(entries)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
