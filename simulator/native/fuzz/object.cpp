// Fuzzes the loader with a code object and its disassembly, then launches every kernel that it claims to contain.
// Input: architecture byte, four bytes with the length of the text, the text, the ELF file.
#include <cstring>

#include "fuzz/common.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hipsynth;
  constexpr size_t kHead = 5;
  if (size < kHead) return 0;
  uint32_t text_bytes = 0;
  std::memcpy(&text_bytes, data + 1, sizeof text_bytes);
  text_bytes = static_cast<uint32_t>(std::min<size_t>(text_bytes, size - kHead));
  const std::string text(reinterpret_cast<const char*>(data) + kHead, text_bytes);
  const std::vector<uint8_t> elf(data + kHead + text_bytes, data + size);
  Device& device = fuzz::device(fuzz::choose_arch(data[0]));
  fuzz::attempt([&] {
    const std::unique_ptr<Module> module = Module::load(device.arch(), device.memory(), elf, text);
    int launches = 0;
    for (const KernelInfo* kernel : module->kernels()) {
      if (++launches > 4) break;
      Launch launch;
      launch.module = module.get();
      launch.kernel = kernel;
      launch.grid = {2, 1, 1};
      launch.block = {64, 1, 1};
      fuzz::attempt([&] { device.launch(launch); });
    }
  });
  return 0;
}
