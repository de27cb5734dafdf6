// Memory of thrust's sequential system comes from hipMalloc, so that a kernel may use a device_vector's data.
#pragma once

#include <hip/hip_runtime.h>
#include <thrust/detail/config.h>
#include <thrust/detail/raw_pointer_cast.h>
#include <thrust/system/detail/sequential/execution_policy.h>
#include <thrust/system/detail/sequential/whole_pages.h>

#include <cstdlib>

THRUST_NAMESPACE_BEGIN
namespace system {
namespace detail {
namespace sequential {

template <typename DerivedPolicy>
inline __host__ __device__ void* malloc(execution_policy<DerivedPolicy>&, std::size_t bytes) {
#if defined(__HIP_DEVICE_COMPILE__)
  return ::malloc(bytes);
#else
  void* memory = nullptr;
  return bytes != 0 && hipMalloc(&memory, whole_pages(bytes)) == hipSuccess ? memory : nullptr;
#endif
}

template <typename DerivedPolicy, typename Pointer>
inline __host__ __device__ void free(sequential::execution_policy<DerivedPolicy>&, Pointer pointer) {
#if defined(__HIP_DEVICE_COMPILE__)
  ::free(thrust::raw_pointer_cast(pointer));
#else
  (void)hipFree(thrust::raw_pointer_cast(pointer));
#endif
}

}  // namespace sequential
}  // namespace detail
}  // namespace system
THRUST_NAMESPACE_END
