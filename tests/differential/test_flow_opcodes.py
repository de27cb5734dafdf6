"""Do branches, calls, barriers, clocks and cache operations behave as in the ISA manual?

Each case runs a few lines; the SGPR s20 collects which of them were executed.
"""

from __future__ import annotations

import functools
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipsynth.simulator import _core, devices
from hipsynth.simulator.isa.coverage import find_evidence
from hipsynth.simulator.isa.table import load_rows

DEVICES = {"gfx90a": "mi250", "gfx942": "mi300x"}
STORE = "v_mov_b32 v1, 0\nv_mov_b32 v2, s20\nv_mov_b32 v3, s21\nglobal_store_dwordx2 v1, v[2:3], s[4:5]\ns_endpgm\n"


@functools.cache
def device(arch: str) -> Any:
    return _core.Device(arch, devices.load_device(DEVICES[arch]).spec(), count=True)


def run(text: str, arch: str = "gfx942", block: int = 64, **resources: int) -> tuple[int, int]:
    """s20 and s21 of the last wave."""
    d = device(arch)
    out = d.allocate(8)
    head = "s_load_dwordx2 s[4:5], s[0:1], 0x0\ns_mov_b32 s20, 0\ns_mov_b32 s21, 0\ns_waitcnt lgkmcnt(0)\n"
    module = d.load_text(head + text + "\n" + STORE, **resources)
    d.launch(module, "kernel", (1, 1, 1), (block, 1, 1), struct.pack("<Q", out))
    got = np.zeros(8, np.uint8)
    d.read(out, got)
    d.release(out)
    s20, s21 = (int(v) for v in got.view(np.uint32))
    return s20, s21


BRANCHES = {  # what makes each branch taken, and what makes it fall through
    "s_cbranch_scc0": ("s_cmp_eq_u32 0, 1", "s_cmp_eq_u32 0, 0"),
    "s_cbranch_scc1": ("s_cmp_eq_u32 0, 0", "s_cmp_eq_u32 0, 1"),
    "s_cbranch_vccz": ("s_mov_b64 vcc, 0", "s_mov_b64 vcc, 1"),
    "s_cbranch_vccnz": ("s_mov_b64 vcc, 1", "s_mov_b64 vcc, 0"),
    "s_cbranch_execz": ("s_mov_b64 exec, 0", "s_mov_b64 exec, 1"),
    "s_cbranch_execnz": ("s_mov_b64 exec, 1", "s_mov_b64 exec, 0"),
}


@pytest.mark.parametrize("name", BRANCHES)
def test_conditional_branches(name: str) -> None:
    taken, not_taken = BRANCHES[name]
    text = "{}\n{} over\ns_or_b32 s20, s20, 1\nover:\ns_mov_b64 exec, 1\ns_or_b32 s20, s20, 2"
    assert run(text.format(taken, name))[0] == 2
    assert run(text.format(not_taken, name))[0] == 3


def test_branches_and_labels_go_both_ways() -> None:
    text = (
        "s_branch forward\nback:\ns_or_b32 s20, s20, 1\ns_branch on\nforward:\ns_or_b32 s20, s20, 2\ns_branch back\non:"
    )
    assert run(text)[0] == 3


DEBUGGER = ["s_cbranch_cdbgsys", "s_cbranch_cdbguser", "s_cbranch_cdbgsys_or_user", "s_cbranch_cdbgsys_and_user"]


@pytest.mark.parametrize("name", DEBUGGER)
def test_no_debugger_is_attached(name: str) -> None:
    assert run(f"{name} over\ns_or_b32 s20, s20, 1\nover:")[0] == 1


def test_calls_return_to_the_next_instruction() -> None:
    text = "s_call_b64 s[30:31], function\ns_or_b32 s20, s20, 1\ns_branch on\n"
    text += "function:\ns_or_b32 s20, s20, 2\ns_setpc_b64 s[30:31]\non:"
    assert run(text)[0] == 3


def test_calls_through_registers() -> None:
    """s_getpc_b64 reads the address of the next instruction; in assembler text every instruction has four bytes."""
    text = "s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, 20\ns_addc_u32 s9, s9, 0\ns_swappc_b64 s[30:31], s[8:9]\n"
    text += "s_or_b32 s20, s20, 1\ns_branch on\ns_or_b32 s20, s20, 2\ns_setpc_b64 s[30:31]\non:"
    assert run(text)[0] == 3


HINTS = (
    """
s_nop 3|s_sleep 1|s_setprio 2|s_sethalt 0|s_setkill 0|s_icache_inv|s_incperflevel 1|s_decperflevel 1
s_ttracedata|s_wakeup|s_sendmsg sendmsg(MSG_INTERRUPT)|s_waitcnt vmcnt(0)|s_trap 3|s_barrier|s_dcache_inv
s_dcache_inv_vol|s_dcache_wb|s_dcache_wb_vol|s_dcache_discard s[4:5], 0x0|s_dcache_discard_x2 s[4:5], 0x0
s_atc_probe 0, s[4:5], 0x0|s_atc_probe_buffer 0, s[4:7], 0x0|buffer_wbl2|buffer_inv|ds_nop
""".strip()
    .replace("\n", "|")
    .split("|")
)


@pytest.mark.parametrize("text", HINTS)
def test_hints_change_no_result(text: str) -> None:
    assert run(f"s_or_b32 s20, s20, 1\n{text}\ns_or_b32 s20, s20, 2", block=128)[0] == 3


@pytest.mark.parametrize("text", ["buffer_wbinvl1", "buffer_wbinvl1_vol", "buffer_invl2"])
def test_cache_operations_of_gfx90a_change_no_result(text: str) -> None:
    assert run(f"s_or_b32 s20, s20, 1\n{text}", "gfx90a")[0] == 1


@pytest.mark.parametrize(
    "end", ["s_endpgm", "s_endpgm_saved", "s_endpgm_ordered_ps_done", "s_sendmsghalt sendmsg(MSG_INTERRUPT)"]
)
def test_nothing_runs_after_the_end(end: str) -> None:
    assert run(f"{end}\ns_or_b32 s20, s20, 1") == (0, 0)


@pytest.mark.parametrize("arch", DEVICES)
@pytest.mark.parametrize("clock", ["s_memtime", "s_memrealtime"])
def test_clocks_move_forward_by_the_work_done(clock: str, arch: str) -> None:
    """Four cycles an instruction; the real-time counter runs at 100 MHz beside the core's clock."""
    text = f"{clock} s[20:21]\ns_waitcnt lgkmcnt(0)\n" + "s_nop 0\n" * 64
    text += f"{clock} s[22:23]\ns_waitcnt lgkmcnt(0)\ns_sub_u32 s20, s22, s20\ns_mov_b32 s21, 0"
    cycles, core_mhz = 66 * 4, devices.load_device(DEVICES[arch]).spec()["clock.core_mhz"]
    ticks = cycles * 100 / core_mhz if "real" in clock else cycles
    assert math.floor(ticks) <= run(text, arch)[0] <= math.ceil(ticks)


def test_a_failed_trap_ends_the_kernel() -> None:
    with pytest.raises(_core.SimError) as caught:
        run("s_trap 2")
    assert caught.value.args[0] == "trap"


def test_code_after_a_trap_is_not_part_of_the_kernel() -> None:
    """Compilers end unreachable paths with a trap; the next function may follow it and use other registers."""
    text = "s_branch over\ns_trap 2\nv_mov_b32 v255, v0\nover:\ns_mov_b64 s[20:21], 7\n"
    assert run(text, vgprs=8)[0] == 7


# Grid barriers need all waves of a grid: tests/kernels/programs/grid_barrier.hip.
ELSEWHERE = {"ds_gws_init", "ds_gws_barrier"}


def test_every_flow_opcode_is_tested_here_or_by_programs() -> None:
    names = {r.name for r in load_rows() if r.executes and find_evidence(r)[0] == "test_flow_opcodes.py"}
    text = Path(__file__).read_text()
    assert sorted(n for n in names - ELSEWHERE if n not in text) == []
