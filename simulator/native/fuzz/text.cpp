// Fuzzes the decoder with arbitrary text. The first byte chooses the architecture.
#include "fuzz/common.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace hipsynth;
  if (size == 0) return 0;
  const DecodeResult result =
      decode(fuzz::choose_arch(data[0]), std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  if (result.code.insts.size() != result.code.text.size()) std::abort();
  return 0;
}
