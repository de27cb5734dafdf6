"""Do cross-lane moves, modifiers, MODE access and masks act as the ISA manuals say?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from wave_helpers import ALL, LANE, LANES, Wave

from hipsynth.simulator.isa.coverage import find_evidence
from hipsynth.simulator.isa.table import load_rows

PARTIAL = 0xF0F0_1234_8000_0001


def lanes_of(mask: int) -> np.ndarray:
    return np.array([(mask >> i) & 1 for i in range(LANES)], bool)


def test_inactive_lanes_keep_their_values() -> None:
    w = Wave()
    w.exec = PARTIAL
    w.v[1], w.v[2] = LANE, 7
    after = w.run("v_add_u32 v2, v1, 100\nv_add_f64 v[4:5], v[4:5], 1.0")
    assert (after.v[2] == np.where(lanes_of(PARTIAL), LANE + 100, 7)).all()
    assert (after.v[5] == np.where(lanes_of(PARTIAL), 0x3FF00000, 0)).all()


def test_compare_clears_inactive_lanes_and_cmpx_writes_exec() -> None:
    w = Wave()
    w.exec = PARTIAL
    w.v[1] = LANE
    w.set_pair(106, ALL)
    after = w.run("v_cmp_gt_u32 vcc, 32, v1\nv_cmpx_gt_u32_e64 s[4:5], 16, v1")
    assert after.pair(106) == PARTIAL & 0xFFFFFFFF
    assert after.exec == after.pair(4) == PARTIAL & 0xFFFF


def test_readfirstlane_takes_lane_0_when_no_lane_is_active() -> None:
    w = Wave()
    w.v[1] = LANE + 5
    w.exec = 0b1000
    assert w.run("v_readfirstlane_b32 s3, v1").s[3] == 8
    w.exec = 0
    assert w.run("v_readfirstlane_b32 s3, v1").s[3] == 5


def test_readlane_and_writelane_ignore_exec_and_wrap_the_lane() -> None:
    w = Wave()
    w.v[1], w.exec, w.s[2], w.s[3] = LANE * 3, 1, 70, 99
    after = w.run("v_readlane_b32 s4, v1, s2\nv_writelane_b32 v1, s3, 63")
    assert after.s[4] == 18
    assert after.v[1][63] == 99
    assert (after.v[1][:63] == LANE[:63] * 3).all()


def test_swap_exchanges_active_lanes_only() -> None:
    w = Wave()
    w.v[1], w.v[2], w.exec = 1, 2, 0b10
    after = w.run("v_swap_b32 v1, v2")
    assert after.v[1].tolist() == [1, 2] + [1] * 62
    assert after.v[2].tolist() == [2, 1] + [2] * 62


def test_agprs_follow_the_vgprs_in_the_unified_file() -> None:
    w = Wave()
    w.v[1] = LANE
    after = w.run("v_accvgpr_write_b32 a3, v1\nv_accvgpr_mov_b32 a4, a3\nv_accvgpr_read_b32 v2, a4", accum_offset=32)
    assert (after.v[35] == LANE).all()
    assert (after.v[36] == LANE).all()
    assert (after.v[2] == LANE).all()


DPP = {
    "quad_perm:[1,0,3,2]": lambda i: i ^ 1,
    "quad_perm:[3,3,0,1]": lambda i: (i & ~3) | (3, 3, 0, 1)[i & 3],
    "row_shl:3": lambda i: i + 3 if i % 16 + 3 < 16 else None,
    "row_shr:1": lambda i: i - 1 if i % 16 else None,
    "row_ror:5": lambda i: (i & ~15) | ((i - 5) & 15),
    "wave_shl:1": lambda i: i + 1 if i < 63 else None,
    "wave_rol:1": lambda i: (i + 1) % 64,
    "wave_shr:1": lambda i: i - 1 if i else None,
    "wave_ror:1": lambda i: (i - 1) % 64,
    "row_mirror": lambda i: (i & ~15) | (15 - (i & 15)),
    "row_half_mirror": lambda i: (i & ~7) | (7 - (i & 7)),
    "row_bcast:15": lambda i: (i & ~15) - 1 if i >= 16 else None,
    "row_bcast:31": lambda i: 31 if i >= 32 else None,
    "row_newbcast:6": lambda i: (i & ~15) | 6,
}


@pytest.mark.parametrize("bound", ["", " bound_ctrl:1"])
@pytest.mark.parametrize("control", DPP)
def test_dpp_moves(control: str, bound: str) -> None:
    w = Wave()
    w.v[1], w.v[2] = LANE + 100, 7
    after = w.run(f"v_mov_b32_dpp v2, v1 {control} row_mask:0xf bank_mask:0xf{bound}")
    missing = 0 if bound else 7
    want = [missing if DPP[control](i) is None else DPP[control](i) + 100 for i in range(LANES)]
    assert after.v[2].tolist() == want


def test_dpp_masks_and_inactive_sources() -> None:
    w = Wave()
    w.v[1], w.v[2], w.v[3] = LANE, 7, 1000
    w.exec = ALL & ~(1 << 33)
    after = w.run("v_add_u32_dpp v2, v1, v3 quad_perm:[1,1,1,1] row_mask:0xc bank_mask:0x3")
    want = []
    for i in range(LANES):
        written = i // 16 >= 2 and (i % 16) // 4 < 2 and (i & ~3) + 1 != 33
        want.append((i & ~3) + 1 + 1000 if written else 7)
    assert after.v[2].tolist() == want


def test_sdwa_selects_extends_and_preserves() -> None:
    w = Wave()
    w.v[1], w.v[2], w.v[3] = 0x8899AABB, 0x00010002, 0x11223344
    run = lambda mods: int(w.run(f"v_add_u32_sdwa v3, {mods}").v[3][9])  # noqa: E731
    assert run("v1, v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:BYTE_1 src1_sel:WORD_1") == 0xAB
    assert run("sext(v1), v2 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:WORD_0") == 0xFFFF889B
    assert run("v1, v2 dst_sel:BYTE_2 dst_unused:UNUSED_PRESERVE src0_sel:BYTE_0 src1_sel:BYTE_0") == 0x11BD3344
    assert run("v1, v2 dst_sel:WORD_1 dst_unused:UNUSED_PAD src0_sel:BYTE_0 src1_sel:BYTE_0") == 0x00BD0000
    assert run("v1, v2 dst_sel:BYTE_1 dst_unused:UNUSED_SEXT src0_sel:BYTE_0 src1_sel:BYTE_0") == 0xFFFFBD00


def test_float_modifiers_clamp_and_output_scale() -> None:
    w = Wave()
    w.floats(1, np.linspace(-2, 2, LANES))
    w.floats(2, 1.5)
    x = np.linspace(-2, 2, LANES).astype(np.float32)
    assert (w.run("v_mul_f32_e64 v3, -|v1|, v2").as_floats(3) == -np.abs(x) * np.float32(1.5)).all()
    assert (w.run("v_add_f32_e64 v3, v1, v2 clamp").as_floats(3) == np.clip(x + np.float32(1.5), 0, 1)).all()
    flushing = 0x1C0  # f32 denormals flushed, IEEE mode off: with either, output scaling is ignored
    assert (w.run("v_add_f32_e64 v3, v1, v2 mul:4", mode=flushing).as_floats(3) == (x + np.float32(1.5)) * 4).all()
    assert (w.run("v_add_f32_e64 v3, v1, v2 div:2", mode=flushing).as_floats(3) == (x + np.float32(1.5)) / 2).all()
    assert (w.run("v_add_f32_e64 v3, v1, v2 mul:4").as_floats(3) == x + np.float32(1.5)).all()
    w.floats(1, np.nan)
    assert (w.run("v_add_f32_e64 v3, v1, v2 clamp").v[3] == 0).all()


def test_integer_clamp_saturates() -> None:
    w = Wave()
    w.v[1], w.v[2] = 0xFFFFFFF0, 0x100
    assert w.run("v_add_u32_e64 v3, v1, v2 clamp").v[3][0] == 0xFFFFFFFF
    assert w.run("v_sub_u32_e64 v3, v2, v1 clamp").v[3][0] == 0
    w.v[1], w.v[2] = 0x7FFF8000, 0x7FFF8000
    assert w.run("v_pk_add_i16 v3, v1, v2 clamp").v[3][0] == 0x7FFF8000


def test_packed_selects_and_negation() -> None:
    w = Wave()
    w.v[1] = 0x40003C00  # 2.0, 1.0
    w.v[2] = 0x44004200  # 4.0, 3.0
    assert w.run("v_pk_add_f16 v3, v1, v2").v[3][0] == 0x46004400
    assert w.run("v_pk_add_f16 v3, v1, v2 op_sel:[1,0] op_sel_hi:[0,1]").v[3][0] == 0x45004500
    assert w.run("v_pk_add_f16 v3, v1, v2 neg_lo:[0,1] neg_hi:[1,0]").v[3][0] == 0x4000C000
    w.floats(4, 1.0), w.floats(5, 2.0), w.floats(6, 10.0), w.floats(7, 20.0)
    after = w.run("v_pk_fma_f32 v[8:9], v[4:5], 2.0, v[6:7] op_sel_hi:[1,0,1] neg_lo:[0,0,1]")
    assert (after.as_floats(8)[0], after.as_floats(9)[0]) == (-8.0, 24.0)
    after = w.run(
        "v_pk_mov_b32 v[8:9], v[4:5], v[6:7] op_sel:[1,0]\nv_pk_mov_b32 v[10:11], v[4:5], v[6:7] op_sel:[0,1]"
    )
    assert [float(after.as_floats(r)[0]) for r in (8, 9, 10, 11)] == [2.0, 10.0, 1.0, 20.0]


def test_op_sel_of_16_bit_results() -> None:
    w = Wave()
    w.v[1], w.v[2], w.v[3], w.v[4] = 0x00050003, 0x00070002, 0x00010001, 0xAAAABBBB
    assert w.run("v_mad_u16 v4, v1, v2, v3").v[4][0] == 0xAAAA0007
    assert w.run("v_mad_u16 v4, v1, v2, v3 op_sel:[1,1,0,1]").v[4][0] == 0x0024BBBB


def test_fma_mix_reads_halves_or_floats() -> None:
    w = Wave()
    w.v[1] = 0x42003C00  # 3.0, 1.0
    w.floats(2, 2.0)
    w.floats(3, 0.5)
    assert w.run("v_fma_mix_f32 v4, v1, v2, v3 op_sel:[1,0,0] op_sel_hi:[1,0,0]").as_floats(4)[0] == 6.5
    assert w.run("v_fma_mix_f32 v4, -v1, |v2|, v3 op_sel_hi:[1,0,0]").as_floats(4)[0] == -1.5
    w.v[4] = 0x11112222
    assert w.run("v_fma_mixlo_f16 v4, v1, v2, v3 op_sel_hi:[1,0,0]").v[4][0] == 0x11114100
    assert w.run("v_fma_mixhi_f16 v4, v1, v2, v3 op_sel_hi:[1,0,0]").v[4][0] == 0x41002222


def test_a_constant_of_fma_mix_has_the_format_of_its_source() -> None:
    """As LLVM's instruction selection has it: x - y of a half and a float is fma(-y, 1.0, x), 1.0 read as a half."""
    w = Wave()
    w.v[1] = 0x4200  # 3.0
    w.floats(2, 0.5)
    for constant, selected in (("1.0", "[0,1,1]"), ("1.0", "[0,0,1]")):
        assert w.run(f"v_fma_mix_f32 v4, -v2, {constant}, v1 op_sel_hi:{selected}").as_floats(4)[0] == 2.5
    assert w.run("v_fma_mix_f32 v4, v2, -4.0, v1 op_sel_hi:[0,1,1]").as_floats(4)[0] == 1.0
    assert w.run("v_fma_mix_f32 v4, v2, 1.0, v1 op_sel:[0,1,0] op_sel_hi:[0,1,1]").as_floats(4)[0] == 3.0
    tau = w.run("v_fma_mix_f32 v4, v2, 0.15915494, 0 op_sel_hi:[0,1,0]").as_floats(4)[0]
    assert tau == 0.5 * float(np.float16(0.15915494))


def test_fp8_selects_bytes_and_halves() -> None:
    w = Wave()
    w.v[1], w.v[4] = 0x44484038, 0xAAAABBBB  # e4m3: 1.0 is 0x40 with bias 8
    assert w.run("v_cvt_f32_fp8_sdwa v2, v1 src0_sel:BYTE_1").as_floats(2)[0] == 1.0
    assert w.run("v_cvt_f32_fp8_sdwa v2, v1 src0_sel:BYTE_2").as_floats(2)[0] == 2.0
    w.floats(2, 1.0)
    assert w.run("v_cvt_pk_fp8_f32 v4, v2, v2 op_sel:[0,0,1]").v[4][0] == 0x4040BBBB
    assert w.run("v_cvt_pk_fp8_f32 v4, v2, v2").v[4][0] == 0xAAAA4040
    assert w.run("v_cvt_sr_fp8_f32 v4, v2, v5 op_sel:[0,0,1,0]").v[4][0] == 0xAAAA40BB
    assert w.run("v_cvt_sr_bf8_f32 v4, v2, v5 op_sel:[0,0,1,1]").v[4][0] == 0x40AABBBB


def test_mode_register_rounding_and_denormals() -> None:
    w = Wave()
    w.floats(1, 1.0)
    w.floats(2, 2.0**-30)
    toward = {0: 1.0, 1: float(np.nextafter(np.float32(1), np.float32(2))), 2: 1.0, 3: 1.0}
    for rounding, want in toward.items():
        assert w.run("v_add_f32 v3, v1, v2", mode=0x3F0 | rounding).as_floats(3)[0] == want
    w.v[1], w.v[2] = 0x00400000, 0x3F800000  # a denormal
    assert w.run("v_mul_f32 v3, v1, v2").v[3][0] == 0x00400000
    assert w.run("v_mul_f32 v3, v1, v2", mode=0x3C0).v[3][0] == 0
    w.v[4], w.v[5] = 0, 0x00080000  # an f64 denormal keeps its own setting
    assert w.run("v_add_f64 v[6:7], v[4:5], 0", mode=0x3C0).v[7][0] == 0x00080000
    w.v[1], w.v[2] = 0x0001, 0x3C00
    assert w.run("v_mul_f16 v3, v1, v2", mode=0x330).v[3][0] == 0


def test_setreg_and_getreg_of_mode() -> None:
    w = Wave()
    w.floats(1, 1.0), w.floats(2, 2.0**-30)
    after = w.run(
        "s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_add_f32 v3, v1, v2\n"
        "s_getreg_b32 s4, hwreg(HW_REG_MODE, 0, 8)\ns_setreg_b32 hwreg(HW_REG_MODE), s9\n"
        "s_getreg_b32 s5, hwreg(HW_REG_MODE)"
    )
    assert after.v[3][0] == 0x3F800001
    assert after.s[4] == 0xF1
    assert after.s[5] == 0


def test_relative_scalar_moves() -> None:
    w = Wave()
    w.s[10:16] = [100, 101, 102, 103, 104, 105]
    w.s[124] = 2  # M0
    assert w.run("s_movrels_b32 s4, s10").s[4] == 102
    assert w.run("s_movrels_b64 s[4:5], s[10:11]").pair(4) == 103 << 32 | 102
    assert w.run("s_movreld_b32 s10, s15").s[12] == 105
    assert w.run("s_movreld_b64 s[10:11], s[14:15]").pair(12) == 105 << 32 | 104
    w.s[0], w.s[124] = 7, 0xFFFFFF00  # out of range: the source is s0, the destination is not written
    assert w.run("s_movrels_b32 s4, s10").s[4] == 7
    assert (w.run("s_movreld_b32 s10, s15").s == w.s).all()


def test_four_masked_sums_of_absolute_differences() -> None:
    """v_mqsad_u32_u8: windows at bytes 0..3 of eight bytes, reference bytes of 0 do not count."""
    w = Wave()
    rng = np.random.default_rng(3)
    data, reference = rng.integers(0, 256, (LANES, 8)), rng.integers(0, 4, (LANES, 4)) * 60
    start = rng.integers(0, 1 << 32, (LANES, 4), dtype=np.uint64)
    w.v[2], w.v[3] = (data[:, i : i + 4].astype(np.uint8).copy().view(np.uint32)[:, 0] for i in (0, 4))
    w.v[4] = reference.astype(np.uint8).copy().view(np.uint32)[:, 0]
    w.v[8:12] = start.T.astype(np.uint32)
    after = w.run("v_mqsad_u32_u8 v[12:15], v[2:3], v4, v[8:11]")
    for k in range(4):
        sums = (np.abs(data[:, k : k + 4] - reference) * (reference != 0)).sum(axis=1)
        assert (after.v[12 + k] == (start[:, k] + sums.astype(np.uint64)) % (1 << 32)).all()


def test_clearing_exceptions_does_nothing() -> None:
    w = Wave()
    after = w.run("v_clrexcp\nv_nop")
    assert (after.v == w.v).all()


def test_every_opcode_with_its_own_handler_is_tested_here() -> None:
    names = {r.name for r in load_rows() if r.executes and find_evidence(r)[0] == "test_special_opcodes.py"}
    text = Path(__file__).read_text()
    assert sorted(n for n in names if n.removesuffix("_b32") not in text) == []


def test_gpr_index_mode_displaces_vector_registers() -> None:
    w = Wave()
    w.v[5], w.v[1], w.s[2] = LANE, 3, 4
    after = w.run("s_set_gpr_idx_on s2, gpr_idx(SRC0)\nv_mov_b32 v9, v1\ns_set_gpr_idx_off\nv_mov_b32 v10, v1")
    assert (after.v[9] == LANE).all()
    assert (after.v[10] == 3).all()
    after = w.run(
        "s_set_gpr_idx_on s2, gpr_idx(DST)\ns_set_gpr_idx_idx s3\nv_mov_b32 v9, v1\ns_set_gpr_idx_mode gpr_idx(SRC0)"
    )
    assert (after.v[9] == 3).all()


def test_a_source_that_is_the_destination_moves_with_it() -> None:
    """CDNA3 ISA, section 6.6.2: v_fmac reads its sum where it writes it."""
    w = Wave()
    w.s[2] = 4
    w.floats(10, 2.0), w.floats(14, 100.0), w.floats(1, 2.0), w.floats(2, 2.0)
    after = w.run("s_set_gpr_idx_on s2, gpr_idx(DST)\nv_fmac_f32 v10, v1, v2\ns_set_gpr_idx_off")
    assert (after.as_floats(14) == 104).all() and (after.as_floats(10) == 2).all()


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("v_pk_add_u16 v3, v1, 1.0", 0x3F800000), ("v_pk_max_u16 v3, v1, 2.0", 0x40000000),
        ("v_pk_mad_i16 v3, v2, v1, -1.0", 0xBF800000), ("v_pk_lshrrev_b16 v3, 0, 0.5", 0x3F000000),
        ("v_pk_add_f16 v3, v1, 1.0", 0x3C00),
    ],
)  # fmt: skip
def test_packed_integers_read_a_float_as_its_32_bits(text: str, constant: int) -> None:
    """As LLVM emits it: `add <2 x i16> %v, <i16 0, i16 16256>` is v_pk_add_u16 with 1.0, and halves have their own."""
    after = Wave().run(text)
    assert (after.v[3] == constant).all()


def test_saveexec_and_carry_chain() -> None:
    w = Wave()
    w.v[1], w.v[2], w.v[3], w.v[4] = 0xFFFFFFFF, 1, LANE, 0
    after = w.run("v_add_co_u32 v5, vcc, v2, v1\nv_addc_co_u32 v6, vcc, v4, v3, vcc\ns_and_saveexec_b64 s[4:5], vcc")
    assert (after.v[5] == 0).all()
    assert (after.v[6] == LANE + 1).all()
    assert after.pair(4) == ALL
    assert after.exec == 0
    assert not after.scc


def test_mbcnt_counts_lanes_below() -> None:
    w = Wave()
    after = w.run("v_mbcnt_lo_u32_b32 v1, -1, 0\nv_mbcnt_hi_u32_b32 v1, -1, v1")
    assert (after.v[1] == LANE).all()


@pytest.mark.parametrize("width", ["f32", "f64"])
def test_division_sequence_is_correctly_rounded(width: str) -> None:
    """The compiler's division: scale, reciprocal, Newton steps, div_fmas, div_fixup; checked against the host."""
    rng = np.random.default_rng(5)
    kind, bits = (np.float32, np.uint32) if width == "f32" else (np.float64, np.uint64)
    edges = [1.0, 3.0, np.finfo(kind).max, np.finfo(kind).tiny, np.finfo(kind).smallest_subnormal, np.inf, 0.0, np.nan]
    random = rng.integers(0, np.iinfo(bits).max, 4096, dtype=bits, endpoint=True).view(kind)
    num = np.concatenate([np.repeat(edges, 8), random[:2048]]).astype(kind)
    den = np.concatenate([np.tile(edges, 8), random[2048:]]).astype(kind)
    w2 = width == "f64"
    v = (lambda r: f"v[{2 * r}:{2 * r + 1}]") if w2 else (lambda r: f"v{r}")
    text = "\n".join(
        [
            f"v_div_scale_{width} {v(3)}, s[0:1], {v(2)}, {v(2)}, {v(1)}",
            f"v_div_scale_{width} {v(4)}, vcc, {v(1)}, {v(2)}, {v(1)}",
            f"v_rcp_{width}_e32 {v(5)}, {v(3)}",
            f"v_fma_{width} {v(6)}, -{v(3)}, {v(5)}, 1.0",
            f"v_fma_{width} {v(5)}, {v(6)}, {v(5)}, {v(5)}",
            *(
                [f"v_fma_{width} {v(6)}, -{v(3)}, {v(5)}, 1.0", f"v_fma_{width} {v(5)}, {v(5)}, {v(6)}, {v(5)}"]
                if w2
                else []
            ),
            f"v_mul_{width} {v(6)}, {v(4)}, {v(5)}",
            f"v_fma_{width} {v(7)}, -{v(3)}, {v(6)}, {v(4)}",
            *(
                [f"v_fma_{width} {v(6)}, {v(7)}, {v(5)}, {v(6)}", f"v_fma_{width} {v(7)}, -{v(3)}, {v(6)}, {v(4)}"]
                if not w2
                else []
            ),
            f"v_div_fmas_{width} {v(6)}, {v(7)}, {v(5)}, {v(6)}",
            f"v_div_fixup_{width} {v(6)}, {v(6)}, {v(2)}, {v(1)}",
        ]
    )
    for at in range(0, len(num) - LANES + 1, LANES):
        a, b = num[at : at + LANES], den[at : at + LANES]
        w = Wave()
        for r, x in ((1, a), (2, b)):
            raw = x.view(bits)
            if w2:
                w.v[2 * r], w.v[2 * r + 1] = raw & 0xFFFFFFFF, raw >> 32
            else:
                w.v[r] = raw
        after = w.run(text)
        raw = after.v[6] if not w2 else after.v[12].astype(np.uint64) | after.v[13].astype(np.uint64) << 32
        got = raw.astype(bits).view(kind)
        with np.errstate(all="ignore"):
            want = a / b
        bad = (got.view(bits) != want.view(bits)) & ~(np.isnan(got) & np.isnan(want))
        assert not bad.any(), list(zip(a[bad], b[bad], got[bad], want[bad], strict=True))[:3]
