"""Does every ALU opcode compute what AMD's pseudo-code, or the host CPU, says?"""

from __future__ import annotations

import functools
from collections.abc import Callable

import needs
import numpy as np
import pytest
from alu_cases import (
    ALIASES,
    HOST,
    LANES,
    PATCHES,
    RESULT_KINDS,
    TOLERANCE,
    Plan,
    as_values,
    plan,
    same,
    usual_arch,
    values,
    width_of,
)
from pcode import PcodeEvaluator, opcode_texts
from pcode_parser import Node, Parser

from hipsynth.simulator import _core
from hipsynth.simulator.isa.coverage import HOST_ORACLE
from hipsynth.simulator.isa.table import OpcodeRow, load_rows

ROWS = {r.name: r for r in load_rows() if r.unit in ("valu", "salu") and r.executes}
# Tested one by one in test_special_opcodes.py and test_matrix_opcodes.py: cross-lane, MODE and matrix instructions.
SPECIAL = {r.name for r in ROWS.values() if r.handler or r.mfma is not None} | {"v_nop"}
PLAIN = sorted(set(ROWS) - SPECIAL)
EXEC = 126
VCC = 106


@functools.cache
def pseudo_code() -> dict[str, str]:
    try:
        found = dict(opcode_texts())
    except ImportError:
        needs.missing("the tinygrad package, which ships AMD's pseudo-code, is not installed")
    texts = {n.removesuffix("_e32").removesuffix("_e64"): t for n, t in found.items()}
    texts |= {name: texts[other] for name, other in ALIASES.items()}
    for name, patches in PATCHES.items():
        for old, new in patches:
            assert old in texts[name], f"{name}: the patched pseudo-code has changed"
            texts[name] = texts[name].replace(old, new)
    return texts


@functools.cache
def program(name: str) -> list[Node]:
    return Parser(pseudo_code()[name]).block("")


Lane = dict[str, int]


def oracle(row: OpcodeRow) -> Callable[[Plan, Lane, int], Lane]:
    """lane inputs (slot -> bits, plus d, scc, lane) -> outputs d, e, scc."""
    if row.name in HOST:
        return lambda p, lane, _imm: {"d": HOST[row.name](*as_values(p.types, lane)).bits, "scc": lane["scc"]}
    evaluator = PcodeEvaluator(program(row.name), lambda n: pseudo_code()[n])

    def run(p: Plan, lane: Lane, imm: int) -> Lane:
        n = lane["lane"]
        state = {
            "S0": lane.get("a", 0),
            "S1": lane.get("b", 0),
            "S2": lane.get("c", 0),
            "laneId": n,
            "SCC": lane["scc"],
        }
        state |= {"D0": lane["d"], "D1": 0, "VCC": 0, "EXEC": (1 << 64) - 1, "SIMM32": 0}
        if "k" in row.sig.split():
            state["S1" if "a" in p.types else "S0"] = imm & 0xFFFF
        mask = lane.get("x", lane["c"] if p.types.get("c") == "mask" else 0)
        if p.types.get("c") == "mask" or "x" in p.types:
            state["VCC"] = mask << n
        if row.name.startswith(("v_fmamk", "v_fmaak")):
            state["SIMM32"] = lane["b" if "mk" in row.name else "c"]
            if "mk" in row.name:
                state["S1"] = lane["c"]
        if row.name.startswith("v_cmp"):
            state["D0"] = 0
        if row.name.startswith("v_div_scale"):  # without scaling the operand passes
            state["D0"] = lane["a"]
        out = evaluator.run(state)
        result = {"d": out["D0"], "scc": out["SCC"], "exec": out["EXEC"]}
        if "e" in p.types:
            flag = (
                out["D0"] >> n if "d" not in p.types else out["D1"] if row.name.startswith("v_mad") else out["VCC"] >> n
            )
            result["e"] = int(out["VCC"] != 0) if row.name.startswith("v_div_scale") else flag & 1
        return result

    return run


def vector_inputs(row: OpcodeRow, p: Plan, batch: int) -> dict[str, list[int]]:
    return {s: values(row.name, s, p.types[s], batch) for s in "dabcx" if s in p.types and p.types[s] != "mask"}


def run_vector(row: OpcodeRow, batch: int) -> list[str]:
    p = plan(row)
    want = oracle(row)
    inputs = vector_inputs(row, p, batch)
    inputs.setdefault("d", [0] * LANES)
    if p.places.get("c") == p.places.get("d"):
        inputs["c"] = inputs["d"]
    masks = {s: int(values(row.name, s, "u64", batch + 2)[0]) for s in "cx" if p.types.get(s) == "mask"}
    sgprs, vgprs = np.zeros(128, np.uint32), np.zeros((48, LANES), np.uint32)
    sgprs[EXEC : EXEC + 2] = 0xFFFFFFFF
    for slot, lanes in inputs.items():
        if slot in p.types:
            vgprs[p.places[slot]] = [v & 0xFFFFFFFF for v in lanes]
            if width_of(p.types[slot]) == 64:
                vgprs[p.places[slot] + 1] = [v >> 32 for v in lanes]
    for slot, mask in masks.items():
        sgprs[p.places[slot] : p.places[slot] + 2] = [mask & 0xFFFFFFFF, mask >> 32]
    arch = usual_arch(row)
    after = _core.alu_run(arch, p.text, sgprs, vgprs)
    bad = []
    for n in range(LANES):
        lane = {s: v[n] for s, v in inputs.items()} | {s: (m >> n) & 1 for s, m in masks.items()}
        expected = want(p, lane | {"lane": n, "scc": 0}, 0)
        bad += check_lane(row, p, after, n, lane, expected)
    return bad


def check_lane(row: OpcodeRow, p: Plan, after: dict[str, np.ndarray], n: int, lane: Lane, expected: Lane) -> list[str]:
    bad = []
    shown = {s: hex(v) for s, v in lane.items() if s in p.types}
    if "d" in p.types:
        kind, d = p.types["d"], p.places["d"]
        got = int(after["vgprs"][d][n]) | (int(after["vgprs"][d + 1][n]) << 32 if width_of(kind) == 64 else 0)
        want = expected["d"] & ((1 << width_of(kind)) - 1)
        if row.keep_high:
            want = (want & 0xFFFF) | (lane["d"] & 0xFFFF0000)
        if not same(got, want, RESULT_KINDS.get(row.name, kind), TOLERANCE.get(row.name, 0)):
            bad.append(f"{p.text} lane {n}: {shown} -> {got:#x}, expected {want:#x}")
    if "e" in p.types:
        flags = int(after["sgprs"][p.places["e"]]) | int(after["sgprs"][p.places["e"] + 1]) << 32
        if (flags >> n) & 1 != expected["e"]:
            bad.append(f"{p.text} lane {n}: {shown} -> flag {(flags >> n) & 1}, expected {expected['e']}")
        if "exec" in row.writes and int(after["sgprs"][EXEC + n // 32]) >> (n % 32) & 1 != expected["e"]:
            bad.append(f"{p.text} lane {n}: EXEC bit differs from the compare")
    return bad


def run_scalar(row: OpcodeRow, batch: int) -> list[str]:
    want = oracle(row)
    slots = {s for s in "dabc" if f"{s}:" in row.sig}
    bad = []
    for n in range(0, LANES, 1 if batch else 2):
        imm = [0, 1, -1, 0x7FFF, -0x8000, 5, 0x1234][n % 7]
        p = plan(row, imm)
        lane = {s: values(row.name, s, p.types[s], batch)[n] for s in slots} | {"scc": n & 1, "lane": 0}
        lane.setdefault("d", 0)
        lane["c"] = lane["d"] if p.types.get("c") else 0
        if "bfe" in row.name:  # widths beyond the operand have no defined meaning in the pseudo-code
            lane["b"] = (lane["b"] & 31) | ((lane["b"] >> 8) % 31) << 16
        bad += check_scalar(row, p, lane, want(p, lane, imm))
    return bad


def check_scalar(row: OpcodeRow, p: Plan, lane: Lane, expected: Lane) -> list[str]:
    sgprs, vgprs = np.zeros(128, np.uint32), np.zeros((1, LANES), np.uint32)
    sgprs[EXEC : EXEC + 2] = 0xFFFFFFFF
    for slot, place in p.places.items():
        sgprs[place : place + 2] = [lane[slot] & 0xFFFFFFFF, (lane[slot] >> 32) & 0xFFFFFFFF]
    after = _core.alu_run(usual_arch(row), p.text, sgprs, vgprs, scc=bool(lane["scc"]))
    bad = []
    shown = {s: hex(v) for s, v in lane.items()}
    if "d" in p.types:
        width, d = width_of(p.types["d"]), p.places["d"]
        got = int(after["sgprs"][d]) | (int(after["sgprs"][d + 1]) << 32 if width == 64 else 0)
        if got != expected["d"] & ((1 << width) - 1):
            bad.append(f"{p.text}: {shown} -> {got:#x}, expected {expected['d']:#x}")
    if row.name in HOST and "d" in p.types:
        expected = expected | {"scc": int(expected["d"] != 0)}
    if int(after["scc"]) != expected["scc"]:
        bad.append(f"{p.text}: {shown} -> SCC {after['scc']}, expected {expected['scc']}")
    if "exec" in expected:
        got_exec = int(after["sgprs"][EXEC]) | int(after["sgprs"][EXEC + 1]) << 32
        if got_exec != expected["exec"]:
            bad.append(f"{p.text}: {shown} -> EXEC {got_exec:#x}, expected {expected['exec']:#x}")
    return bad


def run_opcode(name: str, batch: int) -> None:
    row = ROWS[name]
    bad = run_scalar(row, batch) if row.unit == "salu" else run_vector(row, batch)
    assert not bad, f"{len(bad)} differences, the first:\n" + "\n".join(bad[:5])


@pytest.mark.parametrize("name", PLAIN)
def test_opcode_on_edge_values(name: str) -> None:
    run_opcode(name, 0)


@pytest.mark.full
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", PLAIN)
def test_opcode_on_more_values(name: str, batch: int) -> None:
    run_opcode(name, batch)


def test_the_report_knows_what_each_opcode_is_compared_with() -> None:
    assert {n for n in PLAIN if n in HOST} == HOST_ORACLE & set(PLAIN)


def test_every_plain_opcode_has_an_oracle() -> None:
    texts = pseudo_code()
    assert [n for n in PLAIN if n not in HOST and n not in texts] == []
