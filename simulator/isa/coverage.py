"""Reports which opcodes execute and how they are tested: `python -m hipsynth.simulator.isa.coverage`.

Options: --json, --write, --check. Without an option, prints the report, which is the content of docs/reference/isa.md.
`common_opcodes.csv` ranks the mnemonics that clang emits for 586 public HIP programs by the number of programs that
use them (empty: none).
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsynth.simulator.isa.table import ARCHS, HERE, OpcodeRow, load_rows

RANKS = HERE / "common_opcodes.csv"
RANKED = tuple(arch for arch in ARCHS if f"{arch}_rank" in RANKS.read_text().partition("\n")[0])
REPORT = HERE.parents[1] / "docs" / "reference" / "isa.md"

PSEUDO_CODE = "AMD's pseudo-code"
HOST = "host CPU"
MANUAL = "ISA manual"
# Plain ALU opcodes that the pseudo-code omits, describes only in a comment, or computes with unintended roundings.
HOST_ORACLE = frozenset({
    "s_quadmask_b32", "s_quadmask_b64", "s_wqm_b32", "s_wqm_b64", "v_accvgpr_mov_b32", "v_accvgpr_read_b32",
    "v_accvgpr_write_b32", "v_ashr_pk_i8_i32", "v_ashr_pk_u8_i32", "v_cos_f16", "v_cos_f32", "v_cvt_f32_bf16",
    "v_cvt_norm_i16_f16", "v_cvt_norm_u16_f16", "v_cvt_off_f32_i4", "v_cvt_pk_bf16_f32", "v_cvt_pk_f16_f32",
    "v_cvt_pknorm_i16_f16", "v_cvt_pknorm_i16_f32", "v_cvt_pknorm_u16_f16", "v_cvt_pknorm_u16_f32",
    "v_cvt_pkrtz_f16_f32", "v_cvt_rpi_i32_f32", "v_div_fmas_f32", "v_div_fmas_f64", "v_dot2_f32_bf16", "v_dot2_f32_f16",
    "v_dot2c_f32_bf16", "v_dot2c_f32_f16", "v_exp_f16", "v_exp_f32", "v_exp_legacy_f32", "v_fma_mix_f32", "v_fract_f16",
    "v_fract_f32", "v_fract_f64", "v_frexp_exp_i16_f16", "v_frexp_exp_i32_f32", "v_frexp_exp_i32_f64",
    "v_ldexp_f16", "v_ldexp_f32", "v_ldexp_f64", "v_lerp_u8", "v_log_f16", "v_log_f32", "v_log_legacy_f32",
    "v_mac_f16", "v_mac_f32", "v_mad_f16", "v_mad_f32", "v_mad_legacy_f32", "v_madak_f16", "v_madak_f32",
    "v_madmk_f16", "v_madmk_f32", "v_maximum3_f32", "v_minimum3_f32", "v_mqsad_pk_u16_u8", "v_msad_u8",
    "v_perm_b32", "v_pk_maximum3_f16", "v_pk_minimum3_f16", "v_qsad_pk_u16_u8", "v_rcp_f32", "v_rcp_iflag_f32",
    "v_rndne_f16", "v_rndne_f32", "v_rndne_f64", "v_rsq_f16", "v_rsq_f32", "v_rsq_f64", "v_sad_hi_u8",
    "v_sad_u16", "v_sad_u32", "v_sad_u8", "v_sat_pk_u8_i16", "v_sin_f16", "v_sin_f32", "v_sqrt_f16",
    "v_sqrt_f32", "v_sqrt_f64", "v_trig_preop_f64",
})  # fmt: skip
# Opcodes with a dedicated test against a computed reference: name pattern -> test.
OF_THEIR_OWN = {
    r"v_fma_mix(_f32|lo_f16|hi_f16)": "test_mode_register.py::test_mixed_fma_follows_each_operand_s_format",
    r"v_cvt_sr_(fp8|bf8)_f32": "test_mode_register.py::test_stochastic_rounding_uses_every_dropped_bit",
    r"v_mqsad_u32_u8": "test_special_opcodes.py::test_four_masked_sums_of_absolute_differences",
    r"v_(readlane|writelane|readfirstlane)_b32": "test_cross_lane.py::test_single_lanes",
    r"v_swap_b32": "test_cross_lane.py::test_swaps",
    r"v_permlane(16|32)_swap_b32": "test_cdna4_opcodes.py::test_groups_of_lanes_change_places",
    r"v_bitop3_b(16|32)": "test_cdna4_opcodes.py::test_any_function_of_three_bits",
    r"v_cvt_scalef32_(?!sr_).*": "test_cdna4_opcodes.py::test_scaled_conversions",
    r"v_cvt_scalef32_sr_.*": "test_cdna4_opcodes.py::test_scaled_conversions_with_random_bits",
    r"v_cvt_sr_b?f16_f32": "test_cdna4_opcodes.py::test_stochastic_halves",
    r"v_mfma(_scale)?_f32_.*_f8f6f4": "test_cdna4_matrices.py",
    r"ds_read_b\d+_tr_b\d+": "test_cdna4_memory.py::test_reads_that_transpose",
    r"s_[gs]etreg_b32": "test_cross_lane.py::test_fields_of_mode",
    r"ds_b?permute_b32": "test_cross_lane.py::test_permutes",
    r"ds_swizzle_b32": "test_cross_lane.py::test_swizzles",
    r"(global|scratch)_load_lds_\w+": "test_buffer_ranges.py::test_loads_into_the_lds",
}
# Known or possible differences from hardware: short name (column "gap" of the affected opcodes) -> explanation.
GAPS = {
    "last bit": "Approximate functions (`v_rcp`, `v_rsq`, `v_sqrt`, `v_exp`, `v_log`, `v_sin`, `v_cos`) are within one "
    "unit in the last place of the exact value; the hardware's last bit is not published. The f32 forms, except sine "
    "and cosine, flush denormal inputs and results regardless of MODE, as the manuals of later generations state and "
    "as LLVM's scaling around these instructions implies.",
    "sum order": "Matrix instructions add one product at a time with a fused multiply-add in the accumulator's type. "
    "The hardware's order and internal rounding are not published, so inexact sums may differ. Sparse forms count "
    "the FLOPs of their dense shape. MODE does not affect matrix instructions.",
    "dot rounding": "Dot products of halves are two fused multiply-adds with MODE's f32 rounding; the hardware's "
    "order is not published.",
    "division": "The published pseudo-code of the division steps does not give correctly rounded quotients; ours is "
    "corrected. Tests check the purpose of each step in exact rational arithmetic. With a rounding direction other "
    "than to nearest, `v_div_fmas` may round twice in the denormal range.",
    "random bits": "Stochastic conversions to 8 bits add the upper random bits and truncate; the published pseudo-code "
    "would round once more and lose the carry of the mantissa.",
    "small floats": "Scaled conversions to formats without NaN turn one into the largest value with its sign; values "
    "that are too large become the largest one in these formats and, under FP16_OVFL, in those of 8 bits. Random bits "
    "are used as by the other stochastic conversions. None of this is published.",
    "float atomic": "Float atomics round to nearest regardless of MODE; a minimum or maximum with a NaN keeps the old "
    "value, as published. Additions of f32 in memory flush denormals on gfx90a; all others keep them.",
    "clock": "`s_memtime` advances by four cycles per executed wave instruction, `s_memrealtime` 16 times slower: "
    "reproducible on every run, but not the hardware's time.",
    "layout": "Images are linear in memory, have one mip level, and interpolate with eight fraction bits. The effect "
    "of the hardware's tiling on cache behaviour is not modelled.",
    "registers": "`s_getreg` reads MODE and XCC_ID, `s_setreg` writes MODE; HW_ID and all others read 0. "
    "Exceptions are neither recorded nor taken.",
    "no trap": "Trap handlers, debugger conditions, graphics messages and exports do not exist: instructions without "
    "effect on results are skipped, the others are refused.",
}
# Gaps that are not specific to an opcode.
GENERAL_GAPS = (
    "NaN results are quiet; their payload is not specified.",
    "Raw buffers are bounds-checked dword by dword, as AMD documents for RDNA and leaves open for CDNA; structured "
    "buffers by their index; atomics and formatted accesses as a whole. The scalar offset is not part of the check, as "
    "LLVM documents, and a stride without index or swizzling changes nothing, as Triton relies on. The value that a "
    "load into the LDS writes for an out-of-bounds element is not published, and assumed to be 0.",
    "The clamp bit of integer operations saturates the exact result; carries are those of the unclamped sum. LLVM uses "
    "it for additions, subtractions and dot products; its effect on the low half of a product is not published.",
    "Float modifiers and MODE of unfused multiply-adds (`v_mad_f16`, `v_mac_f16`) apply to operands and result; the "
    "intermediate product keeps its denormals.",
)


@dataclass(frozen=True)
class OpcodeCoverage:
    """One mnemonic: rank per architecture (None: not used), whether it executes, its test and the test's reference."""

    mnemonic: str
    ranks: dict[str, int | None]
    archs: tuple[str, ...]  # architectures that have it according to the table
    state: str  # "executes" or "refused"
    reason: str
    test: str
    oracle: str
    gap: str = ""  # a key of GAPS


def gap_of(row: OpcodeRow) -> str:
    """The key in GAPS of an executing row's known gap, "" for none."""
    name, mem = row.name, row.mem
    if row.mfma is not None:
        return "sum order"
    if row.unit == "vmem" and mem.space == "image":
        return "layout"
    if mem.kind == "atomic" and re.search(r"(?<!cmpswap)_(f32|f64|f16|bf16)$", mem.op):
        return "float atomic"
    if mem.kind == "time":
        return "clock"
    if name.startswith(("s_trap", "s_sendmsg", "s_cbranch_cdbg", "s_endpgm_ordered", "s_sethalt", "s_setkill")):
        return "no trap"
    if name.startswith(("s_getreg", "s_setreg", "v_clrexcp")):
        return "registers"
    prefixes = {
        "v_div_": "division",
        "v_dot2_f32": "dot rounding",
        "v_dot2c_f32": "dot rounding",
        "v_cvt_sr_": "random bits",
        "v_cvt_scalef32_": "small floats",
    }
    known_gap = next((gap for prefix, gap in prefixes.items() if name.startswith(prefix)), "")
    return "last bit" if row.rate == "trans" else known_gap


def _alu_evidence(row: OpcodeRow) -> tuple[str, str]:
    if row.mfma is not None:
        function = "test_sparse_product" if row.mfma.sparse else "test_product_and_accumulation"
        return f"test_matrix_opcodes.py::{function}", HOST
    if row.handler or row.name == "v_nop":
        return "test_special_opcodes.py", MANUAL
    if re.fullmatch(r"v_div_(scale|fmas|fixup)_f(32|64)", row.name):
        return "test_division_steps.py", HOST
    return "test_alu_opcodes.py::test_opcode_on_edge_values", HOST if row.name in HOST_ORACLE else PSEUDO_CODE


def find_evidence(row: OpcodeRow) -> tuple[str, str]:
    """(test, oracle) of an executing row; tests are in tests/differential."""
    mem = row.mem
    own_test = next((test for names, test in OF_THEIR_OWN.items() if re.fullmatch(names, row.name)), "")
    if own_test:
        return own_test, HOST
    if row.unit in ("valu", "salu"):
        return _alu_evidence(row)
    if row.unit == "flow" or mem.kind in ("cache", "time", "none"):
        return "test_flow_opcodes.py", MANUAL
    if mem.space == "image":
        return "test_image_opcodes.py", HOST
    if row.unit == "smem":
        return "test_memory_opcodes.py::test_scalar_memory", PSEUDO_CODE if mem.kind == "atomic" else HOST
    if mem.kind == "atomic":
        function = "test_double_exchange" if mem.two_addr else "test_atomic"
        return f"test_memory_opcodes.py::{function}", HOST if "pk_add" in mem.op else PSEUDO_CODE
    if mem.kind in ("load", "store") and not mem.op and not mem.to_lds:
        return "test_memory_opcodes.py::test_load_or_store", HOST
    return "test_memory_opcodes.py", MANUAL


def _coverage_entry(mnemonic: str, ranks: dict[str, int | None], row: OpcodeRow | None) -> OpcodeCoverage:
    if row is None:
        return OpcodeCoverage(mnemonic, ranks, (), "refused", "not in the opcode table", "", "")
    missing = [a for a, rank in ranks.items() if rank is not None and a not in row.archs]
    reason = row.refused or (f"no such instruction on {', '.join(missing)}" if missing else "")
    test, oracle, gap = ("", "", "") if row.refused else (*find_evidence(row), gap_of(row))
    return OpcodeCoverage(mnemonic, ranks, row.archs, "refused" if reason else "executes", reason, test, oracle, gap)


def ranked_coverage(ranks: Path = RANKS) -> list[OpcodeCoverage]:
    """State of every ranked mnemonic, in the order of the file."""
    rows = {r.name: r for r in load_rows()}
    entries = []
    with ranks.open(newline="") as file:
        for line in csv.DictReader(file):
            by_arch = {a: int(line.get(f"{a}_rank") or 0) or None for a in ARCHS}
            entries.append(_coverage_entry(line["mnemonic"], by_arch, rows.get(line["mnemonic"])))
    return entries


def full_coverage() -> list[OpcodeCoverage]:
    """Every opcode that is ranked or in the table, by name."""
    ranked = {e.mnemonic: e for e in ranked_coverage()}
    nowhere: dict[str, int | None] = dict.fromkeys(ARCHS)
    rest = {row.name: _coverage_entry(row.name, nowhere, row) for row in load_rows() if row.name not in ranked}
    return [entry for _, entry in sorted((ranked | rest).items())]


def executing_opcodes(entries: Iterable[OpcodeCoverage], arch: str) -> list[OpcodeCoverage]:
    """Opcodes that `arch` has and the simulator executes."""
    return [e for e in entries if e.ranks[arch] is not None and e.state == "executes"]


def _and_list(names: Sequence[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def _summary_table(entries: list[OpcodeCoverage]) -> list[str]:
    counts: dict[str, Callable[[str], int]] = {
        "used by 586 public HIP programs": lambda a: sum(e.ranks[a] is not None for e in entries),
        "used and executed": lambda a: len(executing_opcodes(entries, a)),
        "in the table": lambda a: sum(a in e.archs for e in entries),
        "in the table and executed": lambda a: sum(a in e.archs and e.state == "executes" for e in entries),
    }
    lines = ["| opcodes | " + " | ".join(ARCHS) + " |", "|---|" + "---:|" * len(ARCHS)]
    return lines + [f"| {title} | " + " | ".join(str(of(a)) for a in ARCHS) + " |" for title, of in counts.items()]


def render_report() -> str:
    """The text of docs/reference/isa.md."""
    entries = full_coverage()
    tested = Counter(e.oracle for e in entries if e.state == "executes")
    lines = [
        "# Instructions",
        "",
        f"Generated by `python -m hipsynth.simulator.isa.coverage --write`. Every opcode of {_and_list(ARCHS)} that",
        "the project knows: whether it executes, its test (in `tests/differential`) and the reference of that test.",
        "Ranks are by number of programs that use an opcode, where that was counted.",
        "",
        *_summary_table(entries),
        "",
        "Compared with: " + ", ".join(f"{name} ({count})" for name, count in sorted(tested.items())) + ".",
        "Existence on an architecture is checked against LLVM's assembler. A program is",
        "refused if a kernel that it launches can reach a refused instruction; kernels that are never launched are",
        "not checked.",
        "",
        "## Known gaps",
        "",
        *(f"- **{name}**: {gap}" for name, gap in GAPS.items()),
        *(f"- {gap}" for gap in GENERAL_GAPS),
        "",
        "## Refused",
        "",
        "| opcode | on | why |",
        "|---|---|---|",
        *(f"| `{e.mnemonic}` | {', '.join(e.archs)} | {e.reason} |" for e in entries if e.state == "refused"),
        "",
        "## Executed",
        "",
        f"| opcode | on | {' | '.join(f'rank {arch}' for arch in RANKED)} | test | compared with | gap |",
        "|---|---|" + "---:|" * len(RANKED) + "---|---|---|",
    ]
    for e in entries:
        if e.state == "executes":
            ranks = " | ".join(str(e.ranks[a] or "") for a in RANKED)
            lines.append(f"| `{e.mnemonic}` | {', '.join(e.archs)} | {ranks} | {e.test} | {e.oracle} | {e.gap} |")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if "--json" in arguments:
        print(json.dumps([asdict(e) for e in full_coverage()]))
        return 0
    text = render_report()
    if "--write" in arguments:
        REPORT.write_text(text)
        return 0
    if "--check" in arguments:
        fresh = REPORT.is_file() and REPORT.read_text() == text
        if not fresh:
            print(f"{REPORT} is stale: run `python -m hipsynth.simulator.isa.coverage --write`", file=sys.stderr)
        return 0 if fresh else 1
    print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
