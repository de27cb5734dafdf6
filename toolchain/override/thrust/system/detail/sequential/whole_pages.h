// How much memory a thrust container asks for.
#pragma once

#include <thrust/detail/config.h>

#include <cstddef>

THRUST_NAMESPACE_BEGIN
namespace system {
namespace detail {
namespace sequential {

// The ROCm driver maps device memory in pages of 4 KiB, so on hardware the rest of a container's last page is there
// to touch, and published thrust programs do. Containers therefore ask for whole pages; plain hipMalloc keeps the
// exact bounds of what a program asked for, which finds its mistakes.
__host__ __device__ inline std::size_t whole_pages(std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace sequential
}  // namespace detail
}  // namespace system
THRUST_NAMESPACE_END
