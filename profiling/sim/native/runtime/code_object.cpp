// Code objects as programs hand them over at run time: a bare ELF file or clang's uncompressed offload bundle.
#include <cstring>

#include "process.h"
#include "runtime.h"

namespace hipsynth::runtime {
namespace {

constexpr char kElfMagic[] =
    "\x7f"
    "ELF";
constexpr char kBundleMagic[] = "__CLANG_OFFLOAD_BUNDLE__";
constexpr size_t kBundleMagicSize = sizeof kBundleMagic - 1;

template <typename T>
T load(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  return value;
}

// End of the section headers or of the last section's data, whichever is later.
size_t elf_size(const uint8_t* p) {
  uint64_t headers = load<uint64_t>(p + 0x28);
  uint16_t entry = load<uint16_t>(p + 0x3a), count = load<uint16_t>(p + 0x3c);
  uint64_t end = headers + static_cast<uint64_t>(entry) * count;
  for (uint16_t i = 0; i < count; ++i) {
    const uint8_t* section = p + headers + static_cast<uint64_t>(i) * entry;
    constexpr uint32_t kNoBits = 8;
    if (load<uint32_t>(section + 4) != kNoBits) {
      end = std::max(end, load<uint64_t>(section + 0x18) + load<uint64_t>(section + 0x20));
    }
  }
  return end;
}

struct BundleEntry {
  uint64_t offset, size;
  std::string triple;
};

std::vector<BundleEntry> bundle_entries(const uint8_t* p) {
  std::vector<BundleEntry> entries(load<uint64_t>(p + kBundleMagicSize));
  p += kBundleMagicSize + 8;
  for (BundleEntry& entry : entries) {
    entry.offset = load<uint64_t>(p);
    entry.size = load<uint64_t>(p + 8);
    uint64_t length = load<uint64_t>(p + 16);
    entry.triple.assign(reinterpret_cast<const char*>(p + 24), length);
    p += 24 + length;
  }
  return entries;
}

}  // namespace

size_t image_size(const void* image) {
  const auto* p = static_cast<const uint8_t*>(image);
  if (std::memcmp(p, kElfMagic, 4) == 0) return elf_size(p);
  if (std::memcmp(p, kBundleMagic, kBundleMagicSize) != 0) return 0;
  uint64_t end = 0;
  for (const BundleEntry& entry : bundle_entries(p)) end = std::max(end, entry.offset + entry.size);
  return end;
}

std::vector<uint8_t> extract_elf(const std::vector<uint8_t>& image, const std::string& arch) {
  if (image.size() > 64 && std::memcmp(image.data(), kElfMagic, 4) == 0) return image;
  if (image.size() < 32 || std::memcmp(image.data(), kBundleMagic, kBundleMagicSize) != 0) return {};
  for (const BundleEntry& entry : bundle_entries(image.data())) {
    bool device = entry.triple.starts_with("hip") && entry.triple.find(arch) != std::string::npos;
    if (device && entry.size > 0 && entry.offset + entry.size <= image.size()) {
      auto start = image.begin() + static_cast<ptrdiff_t>(entry.offset);
      return {start, start + static_cast<ptrdiff_t>(entry.size)};
    }
  }
  return {};
}

std::string disassemble(const std::string& objdump, const std::vector<uint8_t>& elf) {
  TemporaryFolder folder;
  const std::string output = folder.path() + "/code.s";
  if (run_process({objdump, "-d", folder.write("code.o", elf.data(), elf.size())}, output, "") != 0) {
    throw SimError("bad_code_object", objdump + " could not disassemble a code object loaded at run time");
  }
  return read_file(output);
}

}  // namespace hipsynth::runtime
