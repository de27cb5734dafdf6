// Half precision: the HIP 5.4 implementation on top of the newer runtime headers.
// The older header calls two reciprocal helpers that later toolchains dropped; they are one instruction each.
#ifndef HIPSYNTH_HIP_FP16_H
#define HIPSYNTH_HIP_FP16_H

#include <hip/amd_detail/hip_fp16_math_fwd.h>
#include <hip/hip_common.h>
#include <hip/hip_runtime.h>

#if defined(__clang__) && defined(__HIP__)
static __device__ inline _Float16 __llvm_amdgcn_rcp_f16(_Float16 x) {
#if defined(__HIP_DEVICE_COMPILE__)
  return __builtin_amdgcn_rcph(x);
#else
  return static_cast<_Float16>(1.0f / static_cast<float>(x));
#endif
}
static __device__ inline __2f16 __llvm_amdgcn_rcp_2f16(__2f16 x) {
  return __2f16{__llvm_amdgcn_rcp_f16(x.x), __llvm_amdgcn_rcp_f16(x.y)};
}
#endif

#include <hip/amd_detail/amd_hip_fp16.h>

#endif  // HIPSYNTH_HIP_FP16_H
