// Fuzzes images loaded at run time: size from the headers, ELF extraction, then the loader with a one-instruction
// disassembly. The first byte chooses the architecture.
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "fuzz/common.h"
#include "runtime/offload_image.h"

namespace {

// Copies to pages not tracked by the sanitizer, because an image of unknown length is read up to the end of mapped
// memory.
uint8_t* pages(const std::vector<uint8_t>& image) {
  constexpr size_t kBytes = 1u << 20;
  static void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  std::memset(memory, 0, kBytes);
  std::copy_n(image.begin(), std::min(image.size(), kBytes), static_cast<uint8_t*>(memory));
  return static_cast<uint8_t*>(memory);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hipsynth;
  if (size == 0) return 0;
  const Arch arch = fuzz::choose_arch(data[0]);
  const std::vector<uint8_t> image(data + 1, data + size);
  runtime::image_size(pages(image));
  const std::vector<uint8_t> elf = runtime::extract_elf(image, traits(arch).name);
  if (elf.size() > image.size()) std::abort();
  if (elf.empty()) return 0;
  Device& device = fuzz::device(arch);
  fuzz::attempt([&] { Module::load(device.arch(), device.memory(), elf, "s_endpgm\n"); });
  return 0;
}
