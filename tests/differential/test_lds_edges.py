"""LDS accesses at the edges of what the ISA defines: offsets below the group's memory, equal addresses of a pair, and
sums of denormal floats."""

from __future__ import annotations

import numpy as np
import pytest
from test_buffer_ranges import EVERY, LANES, offsets, run

from hipsynth.core.errors import HipsynthError


def run_lds(arch: str, text: str) -> np.ndarray:
    """v[20:23] of all lanes afterwards."""
    return run(arch, text, offsets(256), (0, 2048, 0))[1]


@pytest.mark.parametrize("below", [1, 4, 256])
@EVERY
def test_a_load_to_below_the_lds_is_refused(arch: str, below: int) -> None:
    load = "global_load_dword v2, s[4:5]" if arch == "gfx90a" else "global_load_lds_dword v2, s[4:5]"
    text = f"s_mov_b32 m0, 0\n{load} offset:-{below}{' lds' if arch == 'gfx90a' else ''}"
    with pytest.raises(HipsynthError, match="LDS"):
        run_lds(arch, text)


@pytest.mark.parametrize("text", ["ds_append v20 offset:-4", "ds_read2_b32 v[20:21], v1 offset0:256 offset1:0"])
def test_offsets_that_do_not_fit_are_no_instruction(text: str) -> None:
    with pytest.raises(HipsynthError, match="ds_"):
        run_lds("gfx942", text)


@EVERY
def test_two_equal_addresses_are_one_access(arch: str) -> None:
    """CDNA3 ISA, section 11.3.1: with the first data alone."""
    text = "v_mov_b32 v4, 11\nv_mov_b32 v5, 22\nds_write2_b32 v1, v4, v5 offset0:1 offset1:1\n"
    got = run_lds(arch, text + "s_waitcnt lgkmcnt(0)\nds_read_b32 v20, v1 offset:4")
    assert (got[:, 0] == 11).all()


@pytest.mark.parametrize("keeps", [False, True])
@EVERY
def test_sums_in_the_lds_obey_the_denormal_mode(arch: str, keeps: bool) -> None:
    """CDNA3 ISA, section 9.2.2."""
    text = f"s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), {3 if keeps else 0}\nv_mov_b32 v4, 1\nds_write_b32 v1, v4\n"
    got = run_lds(arch, text + "ds_add_f32 v1, v4\ns_waitcnt lgkmcnt(0)\nds_read_b32 v20, v1")
    assert got[:, 0].tolist() == [2 if keeps else 0] * LANES
