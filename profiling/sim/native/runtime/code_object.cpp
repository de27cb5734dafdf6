// Code objects as programs hand them over at run time: a bare ELF file or clang's uncompressed offload bundle.
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "runtime.h"

extern char** environ;

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

// A file in the temporary folder, removed with the object.
struct TemporaryFile {
  std::string path;
  TemporaryFile() {
    const char* folder = getenv("TMPDIR");
    path = std::string(folder != nullptr ? folder : "/tmp") + "/hipsynth-XXXXXX";
    int fd = mkstemp(path.data());
    if (fd < 0) throw std::runtime_error(path + ": cannot be made");
    ::close(fd);
  }
  ~TemporaryFile() { ::unlink(path.c_str()); }
};

void write_file(const std::string& path, const std::vector<uint8_t>& bytes) {
  int fd = ::open(path.c_str(), O_WRONLY | O_TRUNC | O_CLOEXEC);
  bool ok = fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
  if (fd >= 0) ::close(fd);
  if (!ok) throw std::runtime_error(path + ": cannot be written");
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
  TemporaryFile input, output;
  write_file(input.path, elf);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.path.c_str(), O_WRONLY | O_TRUNC, 0600);
  std::string option = "-d";
  char* argv[] = {const_cast<char*>(objdump.c_str()), option.data(), input.path.data(), nullptr};
  pid_t pid = 0;
  int failed = posix_spawnp(&pid, objdump.c_str(), &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  int status = 0;
  if (failed != 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    throw SimError("bad_code_object", objdump + " could not disassemble a code object loaded at run time");
  }
  return read_file(output.path);
}

}  // namespace hipsynth::runtime
