"""Do the AVX2 and the AVX-512 handlers give the same bits, with scalars, signs, selects, lane masks and modifiers?"""

from __future__ import annotations

import os
import subprocess
import sys

import needs
import pytest

core = needs.core()

INSTRUCTIONS = """
v_mov_b32 v10, s3
v_add_u32 v10, s3, v2
v_add_f32 v10, -v2, |v3|
v_fma_f32 v10, v2, 0.5, 1.0
v_fma_f32 v10, s4, v2, s4
v_fmac_f32 v10, v2, v3
v_max_f32 v10, v2, v3
v_med3_f32 v10, v2, -v3, v4
v_cndmask_b32 v10, 0, v2, vcc
v_add_co_u32 v10, vcc, s3, v2
v_addc_co_u32 v11, vcc, v3, v4, vcc
v_subb_co_u32 v11, vcc, v3, v4, vcc
v_mad_u64_u32 v[10:11], s[20:21], s3, v2, v[4:5]
v_lshlrev_b64 v[10:11], 3, v[4:5]
v_ashrrev_i64 v[10:11], v2, v[4:5]
v_fma_f64 v[10:11], v[4:5], -v[6:7], s[6:7]
v_max_f64 v[10:11], v[4:5], v[6:7]
v_pk_fma_f32 v[10:11], v[4:5], s[6:7], v[8:9] op_sel_hi:[1,0,1]
v_pk_fma_f32 v[10:11], v[4:5], v[6:7], v[8:9] op_sel:[1,0,0] neg_lo:[0,1,0] neg_hi:[1,0,1]
v_pk_mul_f32 v[10:11], v[4:5], v[6:7] op_sel:[0,1]
v_cmp_lt_i32 vcc, s3, v2
v_cmp_nge_f32 s[20:21], v2, |v3|
v_cmp_eq_u64 vcc, v[4:5], v[6:7]
v_cmp_u_f64 vcc, v[4:5], v[6:7]
v_bfe_u32 v10, v2, s3, 7
v_lshl_or_b32 v10, v2, 3, v3
v_mul_lo_u32 v10, v2, v3
v_cvt_f32_u32 v10, v2
v_cvt_f64_u32 v[10:11], v2
v_cvt_f16_u16 v10, v2
v_rcp_f32 v10, v2
v_exp_f32 v10, v2
v_fma_f16 v10, v2, v3, v4
v_pk_fma_f16 v10, v2, v3, v4
v_add_f32_dpp v10, v2, v3 row_shr:1 row_mask:0xa bank_mask:0x7
v_add_f32_dpp v10, v2, v3 row_bcast:15 row_mask:0xf bank_mask:0xf
v_mov_b32_dpp v10, v2 quad_perm:[3,0,2,1] row_mask:0xf bank_mask:0xf bound_ctrl:1
v_add_f32_e64 v10, v2, v3 clamp
v_mul_f32_e64 v10, v2, v3 mul:2
v_add_f16_e64 v10, v2, v3 clamp
v_add_u32_sdwa v10, v2, v3 dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_2 src1_sel:WORD_0
v_mfma_f32_32x32x8f16 v[16:31], v[4:5], v[6:7], v[16:31]
v_mfma_f32_16x16x4f32 v[16:19], v4, v6, 0
v_mfma_f64_16x16x4f64 v[16:23], v[4:5], v[6:7], v[16:23]
"""
CHILD = """
import sys, hashlib
import numpy as np
from hipsynth.simulator import _core
rng = np.random.default_rng(7)
print(_core.isa_level())
for text in sys.stdin.read().strip().splitlines():
    for mask, mode in ((2**64 - 1, 0x3f0), (0x00ff_1234_8000_0001, 0x3f0), (2**64 - 1, 0x3fa)):  # 0x3fa: rounding down
        sgprs = rng.integers(0, 2**32, 128, np.uint32)
        sgprs[126], sgprs[127] = mask & 0xffffffff, mask >> 32
        vgprs = rng.integers(0, 2**32, (40, 64), np.uint32)
        vgprs[::2] = (rng.normal(size=(20, 64)) * 8).astype(np.float32).view(np.uint32)
        vgprs[2:8, ::5] = (vgprs[2:8, ::5] & 0x8fff8fff) | 0x20002000  # no NaNs: their payloads are not specified
        vgprs[2:8, ::7] = 0
        got = _core.alu_run("gfx90a", text, sgprs, vgprs, mode=mode)
        same = np.isnan(got["vgprs"].view(np.float32)) if "f" in text else np.zeros((40, 64), bool)
        idle = np.array([not mask >> lane & 1 for lane in range(64)])
        if not text.startswith("v_mfma"):
            assert np.array_equal(got["vgprs"][:, idle], vgprs[:, idle]), text
        bits = np.where(same, 0x7fc00000, got["vgprs"]).astype(np.uint32)
        print(hashlib.sha256(bits.tobytes() + got["sgprs"].tobytes()).hexdigest()[:16], text)
"""


def outcome(level: str) -> tuple[str, list[str]]:
    """The level in use and one hash per instruction, lane mask and direction of rounding."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=INSTRUCTIONS,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "HIPSYNTH_ISA_LEVEL": level},
    )
    lines = done.stdout.splitlines()
    return lines[0], lines[1:]


@pytest.mark.skipif(core.isa_level() != "x86-64-v4", reason="this processor has no AVX-512")
def test_both_instruction_set_levels_give_the_same_bits() -> None:
    (first, wide), (second, narrow) = outcome("x86-64-v4"), outcome("x86-64-v3")
    assert (first, second) == ("x86-64-v4", "x86-64-v3")
    assert len(wide) == 3 * len(INSTRUCTIONS.strip().splitlines())
    assert wide == narrow
