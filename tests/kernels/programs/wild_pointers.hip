// Addresses that nobody allocated and code objects that lie: an error code each time, never a crash.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "check.h"

namespace {

void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

void copies(char* device) {
  char host[64] = {};
  char* freed;
  OK(hipMalloc(&freed, 64));
  OK(hipFree(freed));
  for (void* wild : {at(8), at(0x1234567000), at(~uint64_t{0} - 8), static_cast<void*>(freed)}) {
    for (hipMemcpyKind kind : {hipMemcpyHostToDevice, hipMemcpyDeviceToHost, hipMemcpyDeviceToDevice, hipMemcpyDefault}) {
      FAILS(hipMemcpy(device, wild, 64, kind), hipErrorInvalidValue);
      FAILS(hipMemcpy(wild, host, 64, kind), hipErrorInvalidValue);
    }
    FAILS(hipMemset(wild, 0, 64), hipErrorInvalidValue);
    FAILS(hipMemcpy2D(device, 8, wild, 8, 8, 4, hipMemcpyDefault), hipErrorInvalidValue);
    FAILS(hipHostRegister(wild, 64, 0), hipErrorInvalidValue);
  }
  FAILS(hipHostRegister(device, 64, 0), hipErrorInvalidValue);
  static const char constant[64] = {};
  OK(hipMemcpy(device, constant, 64, hipMemcpyHostToDevice));
  FAILS(hipMemcpy(const_cast<char*>(constant), device, 64, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  FAILS(hipMemcpy(host, device, ~size_t{0} - 4096, hipMemcpyDeviceToHost), hipErrorInvalidValue);
  FAILS(hipMemset(device, 1, ~size_t{0}), hipErrorInvalidValue);
  FAILS(hipMemsetD32(device, 1, size_t{1} << 62), hipErrorInvalidValue);
  FAILS(hipMemcpy2D(device, size_t{1} << 63, host, size_t{1} << 63, 8, 3, hipMemcpyDefault), hipErrorInvalidValue);
  FAILS(hipMemset2D(device, size_t{1} << 63, 0, 8, 3), hipErrorInvalidValue);
}

// Sizes whose product does not fit 64 bits, or that no address space holds.
void sizes() {
  const size_t half = size_t{1} << 32, all = ~size_t{0};
  void* p;
  size_t pitch;
  FAILS(hipMallocPitch(&p, &pitch, half, half), hipErrorOutOfMemory);
  FAILS(hipMallocPitch(&p, &pitch, all, 1), hipErrorOutOfMemory);
  hipPitchedPtr box;
  FAILS(hipMalloc3D(&box, hipExtent{half, half, 1}), hipErrorOutOfMemory);
  FAILS(hipMalloc3D(&box, hipExtent{half, 16, half}), hipErrorOutOfMemory);
  FAILS(hipHostMalloc(&p, all, 0), hipErrorOutOfMemory);
  FAILS(hipHostMalloc(&p, size_t{1} << 60, 0), hipErrorOutOfMemory);
  FAILS(hipMalloc(&p, all), hipErrorOutOfMemory);
  hipArray_t array;
  const hipChannelFormatDesc channels = hipCreateChannelDesc(32, 32, 32, 32, hipChannelFormatKindFloat);
  FAILS(hipMallocArray(&array, &channels, size_t{1} << 60, 1, 0), hipErrorInvalidValue);
  FAILS(hipMallocArray(&array, &channels, half, half >> 4, 0), hipErrorInvalidValue);
  FAILS(hipMalloc3DArray(&array, &channels, hipExtent{1 << 14, 1 << 14, 1 << 13}, 0), hipErrorOutOfMemory);
  FAILS(hipSetupArgument(&p, 8, all - 4), hipErrorInvalidValue);
  FAILS(hipSetupArgument(&p, all, 8), hipErrorInvalidValue);
}

// A copy in a graph whose host memory has gone by the time it runs.
void late_copy(char* device) {
  void* host = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  hipStream_t stream;
  hipGraph_t graph;
  hipGraphExec_t run;
  OK(hipStreamCreate(&stream));
  OK(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
  OK(hipMemcpyAsync(device, host, 64, hipMemcpyHostToDevice, stream));
  OK(hipStreamEndCapture(stream, &graph));
  OK(hipGraphInstantiate(&run, graph, nullptr, nullptr, 0));
  OK(hipGraphLaunch(run, stream));
  munmap(host, 4096);
  FAILS(hipGraphLaunch(run, stream), hipErrorInvalidValue);
}

template <typename T>
void put(std::vector<unsigned char>& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

void loads(const std::vector<unsigned char>& image) {
  char* pages = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  mprotect(pages + 4096, 4096, PROT_NONE);  // so that the image ends where memory ends
  char* place = pages + 4096 - image.size();
  std::memcpy(place, image.data(), image.size());
  hipModule_t module;
  CHECK(hipModuleLoadData(&module, place) != hipSuccess);
  munmap(pages, 8192);
}

void modules() {
  const char* magic = "__CLANG_OFFLOAD_BUNDLE__";
  std::vector<unsigned char> bundle(56);
  std::memcpy(bundle.data(), magic, 24);
  for (uint64_t count : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
    put(bundle, 24, count);
    for (uint64_t value : {uint64_t{0}, uint64_t{40}, uint64_t{1} << 40, ~uint64_t{0}}) {
      for (size_t field : {32, 40, 48}) put(bundle, field, value);
      loads(bundle);
    }
  }
  loads({bundle.begin(), bundle.begin() + 24});
  loads({bundle.begin(), bundle.begin() + 3});
  std::vector<unsigned char> elf(64);
  std::memcpy(elf.data(), "\x7f" "ELF\x02\x01\x01", 7);
  for (uint64_t headers : {uint64_t{0}, uint64_t{60}, uint64_t{1} << 40, ~uint64_t{0} - 64}) {
    put(elf, 0x28, headers);
    put<uint16_t>(elf, 0x3a, 64);
    put<uint16_t>(elf, 0x3c, 0xffff);
    loads(elf);
  }
  put<uint16_t>(elf, 0x3c, 1);
  put<uint64_t>(elf, 0x28, 0);
  loads(elf);
}

}  // namespace

int main() {
  char* device;
  OK(hipMalloc(&device, 4096));
  copies(device);
  sizes();
  late_copy(device);
  modules();
  hipModule_t module;
  FAILS(hipModuleLoad(&module, "none.hsaco"), hipErrorFileNotFound);
  std::printf("survived\n");
  return 0;
}
