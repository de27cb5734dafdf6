// The memory behind thrust::device_vector: hipMalloc and hipFree instead of thrust's operator new, so that kernels may
// use it. Same public names as thrust 1.17's own header of this path.
#pragma once

#include <hip/hip_runtime.h>
#include <thrust/detail/config.h>
#include <thrust/mr/fancy_pointer_resource.h>
#include <thrust/mr/memory_resource.h>
#include <thrust/system/cpp/pointer.h>
#include <thrust/system/detail/sequential/whole_pages.h>

#include <cstddef>
#include <new>

THRUST_NAMESPACE_BEGIN
namespace system {
namespace cpp {
namespace detail {

class hip_memory_resource final : public thrust::mr::memory_resource<> {
 public:
  void* do_allocate(std::size_t bytes, std::size_t /*alignment: hipMalloc gives at least 256*/) override {
    void* memory = nullptr;
    if (hipMalloc(&memory, thrust::system::detail::sequential::whole_pages(bytes)) != hipSuccess) throw std::bad_alloc();
    return memory;
  }

  void do_deallocate(void* memory, std::size_t, std::size_t) override { (void)hipFree(memory); }
};

using native_resource = thrust::mr::fancy_pointer_resource<hip_memory_resource, thrust::cpp::pointer<void>>;
using universal_native_resource =
    thrust::mr::fancy_pointer_resource<hip_memory_resource, thrust::cpp::universal_pointer<void>>;

}  // namespace detail

using memory_resource = detail::native_resource;
using universal_memory_resource = detail::universal_native_resource;
using universal_host_pinned_memory_resource = detail::native_resource;

}  // namespace cpp
}  // namespace system
THRUST_NAMESPACE_END
