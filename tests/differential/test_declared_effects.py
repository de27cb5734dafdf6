"""Do the effects that the opcode table declares of ALU instructions cover what an execution shows?

Each instruction runs on random registers, then again with one thing changed that it is said not to depend on.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass

import needs
import numpy as np
import pytest

from hipsynth.simulator.isa.table import ARCHS, OpcodeRow, load_rows

core = needs.core()

VCC, M0, EXEC = 106, 124, 126
FULL = 0xFFFFFFFF
DWORDS = {"b64": 2, "u64": 2, "i64": 2, "f64": 2, "f64bits": 2, "pk_f32": 2, "pk_b32": 2, "mask": 2}
FIRST = {"d": 64, "e": 20, "a": 8, "b": 40, "c": 48, "x": 56, "y": 57}  # v0 is left for lane numbers
TRIALS = 16
HALVES = ("d:f16", "d:i16", "d:u16", "d:b16")
# Implicit register -> the scalar registers besides it.
OTHERS = {
    name: np.setdiff1d(np.arange(128), registers)
    for name, registers in {"vcc": [VCC, VCC + 1], "exec": [EXEC, EXEC + 1], "m0": [M0], "scc": []}.items()
}


@dataclass
class State:
    s: np.ndarray
    v: np.ndarray
    scc: bool


def rows_of(arch: str) -> list[OpcodeRow]:
    return [r for r in load_rows() if r.unit in ("valu", "salu") and r.executes and arch in r.archs]


def operand(row: OpcodeRow, slot: str, kind: str) -> str:
    tuple_of = re.fullmatch(r"(?:mat|mx|acc|wide|quad)(\d+)", kind)
    width = int(tuple_of[1]) if tuple_of else DWORDS.get(kind, 1)
    scalar = row.unit == "salu" or kind == "mask"
    scalar |= (row.name.startswith("v_read") and slot == "d") or (row.name.endswith("lane_b32") and slot == "b")
    scalar |= row.name == "v_writelane_b32" and slot == "a"
    first = {"d": 4, "a": 8, "b": 12, "c": 24, "e": 20}[slot] if scalar else FIRST[slot]
    return (
        f"{'s' if scalar else 'v'}{first}" if width == 1 else f"{'s' if scalar else 'v'}[{first}:{first + width - 1}]"
    )


def text_of(row: OpcodeRow) -> str:
    parts = []
    for token in row.sig.split():
        if token in ("c=d", "x=vcc"):
            continue
        plain = {"k": "0x1234", "hwreg": "hwreg(HW_REG_MODE, 0, 4)", "gpridx": "gpr_idx(SRC0)"}.get(token)
        parts.append(plain or operand(row, *re.split(r"\??:", token)))
    return f"{row.name} {', '.join(parts)}"


def start(row: OpcodeRow, trial: int) -> State:
    rng = np.random.default_rng(zlib.crc32(f"{row.name}/{trial}".encode()))
    s, v = rng.integers(0, 2**32, 128, np.uint32), rng.integers(0, 2**32, (96, 64), np.uint32)
    if trial % 2:  # small numbers: carries and equal values are rare otherwise
        s[:32] &= 3
        v[:, ::2] &= 3
    s[M0] &= 3  # an index that stays inside the registers
    return State(s, v, bool(trial & 2))


def run(arch: str, text: str, before: State) -> State:
    after = core.alu_run(arch, text, before.s, before.v, scc=before.scc)
    return State(after["sgprs"], after["vgprs"], bool(after["scc"]))


def changed(before: State, after: State) -> set[str]:
    names = {"scc"} if before.scc != after.scc else set()
    for name, first, count in (("vcc", VCC, 2), ("m0", M0, 1), ("exec", EXEC, 2)):
        if (before.s[first : first + count] != after.s[first : first + count]).any():
            names.add(name)
    return names


def flipped(state: State, name: str) -> State:
    s = state.s.copy()
    if name == "scc":
        return State(s, state.v, not state.scc)
    first, count, bits = {"vcc": (VCC, 2, FULL), "exec": (EXEC, 2, FULL), "m0": (M0, 1, 3)}[name]
    s[first : first + count] ^= bits
    return State(s, state.v, state.scc)


def equal_but(one: State, two: State, name: str) -> bool:
    """Equal results; the register that was changed before may differ where nothing wrote it."""
    same = np.array_equal(one.s[OTHERS[name]], two.s[OTHERS[name]]) and np.array_equal(one.v, two.v)
    return same and (name == "scc" or one.scc == two.scc)


@pytest.mark.parametrize("arch", ARCHS)
def test_implicit_writes_are_declared(arch: str) -> None:
    wrong = []
    for row in rows_of(arch):
        text, seen = text_of(row), set[str]()
        for trial in range(TRIALS):
            before = start(row, trial)
            seen |= changed(before, run(arch, text, before))
        # MODE is not told; compares that hold for all numbers leave EXEC as it was.
        certain = row.writes - {"mode", "exec"} if row.unit == "valu" else row.writes - {"mode"}
        if not certain <= seen <= row.writes:
            wrong.append((row.name, sorted(seen), sorted(row.writes)))
    assert wrong == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("arch", ARCHS)
def test_implicit_reads_are_declared(arch: str) -> None:
    wrong = []
    for row in rows_of(arch):
        registers = {"scc", "vcc", "m0"} | ({"exec"} if row.unit == "salu" else set())
        text, seen = text_of(row), set[str]()
        for trial in range(TRIALS):
            before = start(row, trial)
            after = run(arch, text, before)
            for name in registers:
                if not equal_but(after, run(arch, text, flipped(before, name)), name):
                    seen.add(name)
        if not seen <= row.reads or (row.reads - seen - {"mode", "m0"}):
            wrong.append((row.name, sorted(seen), sorted(row.reads)))
    assert wrong == []


def vector_rows(arch: str) -> list[OpcodeRow]:
    return [row for row in rows_of(arch) if row.unit == "valu" and row.sig.startswith("d:")]


def keeps_old_bits(arch: str, text: str, row: OpcodeRow) -> bool:
    """Whether the destination's old value shows in the result, with all lanes on."""
    before = start(row, 0)
    before.s[EXEC : EXEC + 2] = FULL
    if row.mfma is not None:  # numbers in every format: a NaN among so many factors would hide the old value
        before.v[: FIRST["d"]] &= 0x38383838
    other = State(before.s, before.v.copy(), before.scc)
    other.v[FIRST["d"] :] ^= FULL
    first = slice(FIRST["d"], FIRST["d"] + 1)
    return not np.array_equal(run(arch, text, before).v[first], run(arch, text, other).v[first])


@pytest.mark.parametrize("arch", ARCHS)
def test_old_bits_stay_only_where_the_table_says_partial(arch: str) -> None:
    """Also where op_sel puts 16 bits into the upper half of the destination."""
    wrong = []
    for row in vector_rows(arch):
        if "c=d" in row.sig or row.exchanges or row.name.startswith("v_read"):  # no vector destination that is replaced
            continue
        plain = text_of(row)
        high = f"{plain.replace(row.name, f'{row.name}_e64')} op_sel:[{'0,' * row.sig.count(' ')}1]"
        kept = keeps_old_bits(arch, plain, row)
        if row.sig.startswith(HALVES) and not core.decode(arch, high)["unsupported"]:
            kept |= keeps_old_bits(arch, high, row)
        if (kept and not row.partial) or (row.partial and not kept and not row.sig.startswith(HALVES)):
            wrong.append((row.name, kept, row.partial))
    assert wrong == []


@pytest.mark.parametrize("arch", ARCHS)
def test_lanes_are_independent_where_the_table_says_so(arch: str) -> None:
    """A lane's result stays when all other lanes and their part of EXEC change."""
    wrong = []
    for row in vector_rows(arch):
        if row.cross_lane:
            continue
        before = start(row, 1)
        other = State(before.s.copy(), before.v ^ np.uint32(FULL), before.scc)
        before.s[EXEC : EXEC + 2] = FULL
        other.s[EXEC : EXEC + 2] = (1 << 5, 0)
        other.v[:, 5] = before.v[:, 5]
        if not np.array_equal(run(arch, text_of(row), before).v[:, 5], run(arch, text_of(row), other).v[:, 5]):
            wrong.append(row.name)
    assert wrong == []


@pytest.mark.parametrize("arch", ARCHS)
def test_sources_are_written_by_exchanges_alone(arch: str) -> None:
    wrong = []
    for row in vector_rows(arch):
        before = start(row, 0)
        after = run(arch, text_of(row), before)
        if row.exchanges != (not np.array_equal(before.v[: FIRST["d"]], after.v[: FIRST["d"]])):
            wrong.append(row.name)
    assert wrong == []


def exec_after(arch: str, text: str, before: State) -> tuple[int, int]:
    pair = [int(x.s[EXEC]) | int(x.s[EXEC + 1]) << 32 for x in (before, run(arch, text, before))]
    return pair[0], pair[1]


@pytest.mark.parametrize("arch", ARCHS)
def test_exec_narrows_where_the_table_says_so(arch: str) -> None:
    """Rows that write EXEC implicitly, and scalar rows with EXEC as destination and as either source."""
    wrong = []
    for row in rows_of(arch):
        scalar = row.unit == "salu" and row.sig == "d:b64 a:b64 b:b64"
        forms = {"always": text_of(row)} if "exec" in row.writes else {}
        if scalar:
            forms = {"if_first": f"{row.name} exec, exec, s[8:9]", "if_second": f"{row.name} exec, s[8:9], exec"}
        said = {"if_either": {"if_first", "if_second"}}.get(row.narrows, {row.narrows})
        for form, text in forms.items():
            masks = [exec_after(arch, text, start(row, trial)) for trial in range(TRIALS)]
            narrows = all(new & ~old == 0 for old, new in masks)
            if narrows != (form in said):
                wrong.append((row.name, form, narrows))
    assert wrong == []


@pytest.mark.parametrize("arch", ARCHS)
def test_low_dwords_come_from_low_dwords_where_the_table_says_so(arch: str) -> None:
    rows = [row for row in vector_rows(arch) if row.carries_up]
    assert rows
    for row in rows:
        for trial in range(TRIALS):
            before = start(row, trial)
            other = State(before.s, before.v.copy(), before.scc)
            for slot in re.findall(r"([abc]):(?:b|u|i)64", row.sig):
                other.v[FIRST[slot] + 1] ^= FULL
            one, two = run(arch, text_of(row), before), run(arch, text_of(row), other)
            assert np.array_equal(one.v[FIRST["d"]], two.v[FIRST["d"]]), row.name


@pytest.mark.parametrize("arch", ARCHS)
def test_sums_are_sums(arch: str) -> None:
    rows = [row for row in rows_of(arch) if row.adds]
    assert {row.name for row in rows} == {"s_add_u32", "s_sub_u32", "s_addc_u32", "s_subb_u32"}
    for row in rows:
        for trial in range(TRIALS):
            before = start(row, trial)
            carry = int(before.scc) if "scc" in row.reads else 0
            expected = int(before.s[8]) + row.adds * (int(before.s[12]) + carry)
            assert int(run(arch, text_of(row), before).s[4]) == expected & FULL, row.name
