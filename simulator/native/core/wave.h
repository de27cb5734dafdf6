// Architectural state of one wavefront (wave64) as the ISA manual names it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace hipsynth {

inline constexpr int kLanes = 64;

// Scalar register file in the numbering of the SSRC/SDST operand field: VCC, M0 and EXEC are ordinary entries, and a
// 64-bit access uses two adjacent ones.
enum ScalarReg : uint16_t {
  kFlatScratchLo = 102,
  kXnackMaskLo = 104,
  kVccLo = 106,
  kVccHi = 107,
  kM0 = 124,
  kExecLo = 126,
  kExecHi = 127,
  kScalarRegs = 128,
};

// MODE register fields that change arithmetic (CDNA3 ISA, section 3.5).
struct FpMode {
  uint8_t round_f32 = 0;  // 0 nearest even, 1 +inf, 2 -inf, 3 zero
  uint8_t round_f16_f64 = 0;
  uint8_t denorm_f32 = 3;  // bit 0: keep input denormals, bit 1: keep output denormals
  uint8_t denorm_f16_f64 = 3;
  bool dx10_clamp = true;
  bool ieee = true;
  bool fp16_ovfl = false;  // f16 overflow gives the largest finite value; conversions to fp8 saturate
  // Not a field of MODE: matrix instructions of gfx90a flush denormal 16-bit inputs and f32 results regardless of MODE
  // (AMD: "MI200 MFMA behavior specifics"; gfx942 does not).
  bool flush_products = false;
  // Nor this: floats of 8 bits are those of the OCP, not the "fnuz" ones.
  bool ocp_fp8 = false;

  // The MODE register's value.
  uint32_t bits() const {
    return round_f32 | round_f16_f64 << 2 | denorm_f32 << 4 | denorm_f16_f64 << 6 | uint32_t{dx10_clamp} << 8 |
           uint32_t{ieee} << 9 | uint32_t{fp16_ovfl} << 23;
  }
  void set_bits(uint32_t v) {
    round_f32 = v & 3;
    round_f16_f64 = v >> 2 & 3;
    denorm_f32 = v >> 4 & 3;
    denorm_f16_f64 = v >> 6 & 3;
    dx10_clamp = v >> 8 & 1;
    ieee = v >> 9 & 1;
    fp16_ovfl = v >> 23 & 1;
  }
};

// One wavefront. VGPRs are rows of 64 lanes; AGPR k is row `accum_offset + k` of the same unified register file (up to
// 512 rows on CDNA2 to CDNA4).
struct Wave {
  std::array<uint32_t, kScalarRegs> sgpr{};
  uint32_t* vgpr = nullptr;  // [rows][kLanes], owned by the work-group's register pool
  uint32_t rows = 0;
  uint32_t accum_offset = 0;
  uint32_t pc = 0;  // index into Code::insts, not a byte address
  bool scc = false;
  FpMode mode{};
  uint32_t xcc_id = 0;          // value of HW_REG_XCC_ID for s_getreg
  uint64_t gpr_index_mode = 0;  // s_set_gpr_idx_on: bits 0..3 src0,src1,src2,dst; index in M0[7:0]

  uint64_t sgpr64(uint32_t r) const {
    uint64_t v;
    std::memcpy(&v, &sgpr[r], 8);
    return v;
  }
  void set_sgpr64(uint32_t r, uint64_t v) { std::memcpy(&sgpr[r], &v, 8); }
  uint64_t exec() const { return sgpr64(kExecLo); }
  void set_exec(uint64_t v) { set_sgpr64(kExecLo, v); }
  uint64_t vcc() const { return sgpr64(kVccLo); }
  uint32_t* row(uint32_t r) { return vgpr + static_cast<size_t>(r) * kLanes; }
  const uint32_t* row(uint32_t r) const { return vgpr + static_cast<size_t>(r) * kLanes; }
};

}  // namespace hipsynth
