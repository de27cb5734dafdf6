// Handlers that do not fit the per-lane form: cross-lane moves, mixed precision, MODE access, matrix instructions.
#pragma once

#include "operands.h"

namespace HIPSYNTH_ISA {

void readlane(Wave& w, const Inst& in);
void readfirstlane(Wave& w, const Inst& in);
void writelane(Wave& w, const Inst& in);
void swap_rows(Wave& w, const Inst& in);
void fma_mix(Wave& w, const Inst& in);
void fma_mixlo(Wave& w, const Inst& in);
void fma_mixhi(Wave& w, const Inst& in);
void cvt_sr_fp8(Wave& w, const Inst& in);
void cvt_sr_bf8(Wave& w, const Inst& in);
void cvt_sr_f16(Wave& w, const Inst& in);
void cvt_sr_bf16(Wave& w, const Inst& in);
void permlane16_swap(Wave& w, const Inst& in);
void permlane32_swap(Wave& w, const Inst& in);
void bitop3_b32(Wave& w, const Inst& in);
void bitop3_b16(Wave& w, const Inst& in);
void s_getreg(Wave& w, const Inst& in);
void s_setreg(Wave& w, const Inst& in);
void s_set_gpr_idx_on(Wave& w, const Inst& in);
void s_set_gpr_idx_off(Wave& w, const Inst& in);
void s_set_gpr_idx_idx(Wave& w, const Inst& in);
void s_set_gpr_idx_mode(Wave& w, const Inst& in);
void s_movrels(Wave& w, const Inst& in);
void s_movreld(Wave& w, const Inst& in);
void mqsad_u32(Wave& w, const Inst& in);
void nothing(Wave& w, const Inst& in);

}  // namespace HIPSYNTH_ISA
