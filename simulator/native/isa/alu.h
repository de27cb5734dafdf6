// Executes one vector or scalar ALU instruction.
#pragma once

#include "core/inst.h"

namespace hipsynth {

// Apertures of generic addresses: values of src_shared_base and src_private_base (ROCr's choice on gfx9).
inline constexpr uint64_t kSharedBase = 0x0001'0000'0000'0000ull;
inline constexpr uint64_t kPrivateBase = 0x0002'0000'0000'0000ull;

// Executes `in` with VGPR indices offset by M0 (s_set_gpr_idx_on).
void execute_indexed(Wave& w, const Inst& in);

// Executes one instruction of unit valu or salu; does not change Wave::pc.
inline void execute_alu(Wave& w, const Inst& in) {
  if (w.gpr_index_mode != 0) [[unlikely]] {
    execute_indexed(w, in);
    return;
  }
  in.fn(w, in);
}

// Which of the two compiled handler sets runs on the host CPU: "x86-64-v3" or "x86-64-v4".
const char* isa_level();

}  // namespace hipsynth
