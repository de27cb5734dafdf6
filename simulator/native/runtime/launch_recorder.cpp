#include "launch_recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace hipsynth::runtime {
namespace {

constexpr uint64_t kSmall = 64ull << 10;        // allocations that are kept for every launch: tables and structures
constexpr uint64_t kPrefix = 32ull << 20;       // kept of an allocation
constexpr uint64_t kGlobal = 1ull << 20;        // variables of the device code that are kept
constexpr uint64_t kAllocations = 4096;         // later ones are left out
constexpr uint64_t kLaunchBytes = 128;          // of the numbers of a launch in the file, about
constexpr uint64_t kMostExamined = 2ull << 30;  // bytes that are compared with what was kept before

uint64_t load(const uint8_t* p) {
  uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return word;
}

uint64_t mixed(uint64_t a, uint64_t word) {
  a = (a ^ word) * 0xff51afd7ed558ccd;
  return a ^ a >> 32;
}

std::pair<uint64_t, uint64_t> hash(const uint8_t* p, uint64_t bytes) {
  uint64_t a = 0x9e3779b97f4a7c15, b = 0xc2b2ae3d27d4eb4f;
  for (; bytes >= 16; p += 16, bytes -= 16) {
    a = mixed(a, load(p));
    b = mixed(b, load(p + 8) + a);
  }
  for (; bytes > 0; ++p, --bytes) a = mixed(a, *p);
  return {a, mixed(b, a)};
}

// Whether eight bytes of a launch's arguments may be an address: not if two smaller arguments share them.
bool may_be_address(const KernelInfo& kernel, size_t at) {
  return kernel.args.empty() || std::any_of(kernel.args.begin(), kernel.args.end(), [at](const KernelArg& arg) {
           return arg.offset <= at && at + 8 <= arg.offset + arg.size;
         });
}

// The length without zeros at the end.
uint64_t trimmed(const uint8_t* p, uint64_t bytes) {
  while (bytes >= 8 && load(p + bytes - 8) == 0) bytes -= 8;
  while (bytes > 0 && p[bytes - 1] == 0) --bytes;
  return bytes;
}

}  // namespace

bool LaunchRecorder::open(const Memory& memory) {
  if (file_ != nullptr || failed_) return file_ != nullptr;
  const int fd = ::open(options_.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
  file_ = fd < 0 ? nullptr : ::fdopen(fd, "wb");
  failed_ = file_ == nullptr;
  if (!failed_) std::fprintf(file_, "arena %llu\n", static_cast<unsigned long long>(memory.start()));
  return !failed_;
}

void LaunchRecorder::write_layout(const Memory& memory) {
  if (layout_ == memory.layout() && layout_ != 0) return;
  layout_ = memory.layout();
  allocations_.clear();
  for (const Memory::Allocation& a : memory.user_allocations()) {
    if (allocations_.size() == kAllocations) break;
    allocations_.push_back({a.start, a.bytes, static_cast<uint64_t>(a.kind)});
  }
  std::fprintf(file_, "layout %zu\n", allocations_.size());
  std::fwrite(allocations_.data(), sizeof(RecordedAllocation), allocations_.size(), file_);
}

bool LaunchRecorder::number_of(const uint8_t* data, uint64_t bytes, uint64_t* number) {
  if (examined_ + bytes > kMostExamined) return false;
  examined_ += bytes;
  bytes = trimmed(data, bytes);
  const auto [a, b] = hash(data, bytes);
  const auto known = contents_.find({bytes, a, b});
  if (known != contents_.end()) {
    *number = known->second;
    return true;
  }
  if (written_ + bytes > options_.most_bytes) return false;
  written_ += bytes;
  *number = contents_.size();
  contents_[{bytes, a, b}] = *number;
  std::fprintf(file_, "contents %llu\n", static_cast<unsigned long long>(bytes));
  std::fwrite(data, 1, bytes, file_);
  return true;
}

void LaunchRecorder::write_globals(const Module& module) {
  for (const auto& [symbol, place] : module.globals()) {
    const auto [address, bytes] = place;
    uint64_t number = 0;
    if (bytes > kGlobal || !number_of(reinterpret_cast<const uint8_t*>(address), bytes, &number)) continue;
    const auto [known, fresh] = globals_.try_emplace({module.serial(), symbol}, number);
    if (!fresh && known->second == number) continue;
    known->second = number;
    std::fprintf(file_, "global %s %llu\n", symbol.c_str(), static_cast<unsigned long long>(number));
  }
}

void LaunchRecorder::loaded(const Module& module, const std::vector<uint8_t>& elf, std::string disassembly) {
  if (on()) loaded_[module.serial()] = {elf, std::move(disassembly)};
}

uint64_t LaunchRecorder::write_module(const Module& module) {
  const auto found = loaded_.find(module.serial());
  if (found == loaded_.end()) return 0;
  Loaded& own = found->second;
  uint64_t elf = 0, text = 0;
  const auto* words = reinterpret_cast<const uint8_t*>(own.disassembly.data());
  if (own.number == 0 && number_of(own.elf.data(), own.elf.size(), &elf) &&
      number_of(words, own.disassembly.size(), &text)) {
    own.number = ++modules_;
    std::fprintf(file_, "module %llu %zu %llu\n", static_cast<unsigned long long>(elf), own.elf.size(),
                 static_cast<unsigned long long>(text));
  }
  return own.number;
}

std::vector<RecordedContents> LaunchRecorder::write_contents(bool by_data) {
  std::vector<RecordedContents> held;
  for (uint64_t i = 0; i < allocations_.size(); ++i) {
    const RecordedAllocation& a = allocations_[i];
    if (!by_data && a.bytes > kSmall) continue;
    const uint64_t bytes = std::min(a.bytes, kPrefix);
    uint64_t number = 0;
    if (number_of(reinterpret_cast<const uint8_t*>(a.start), bytes, &number)) held.push_back({i, number, bytes});
  }
  return held;
}

// What tells launches apart: all but addresses.
LaunchRecorder::Identity LaunchRecorder::identity_of(const Launch& launch, const Memory& memory) const {
  std::vector<uint8_t> args = launch.args;
  std::vector<const void*> found;  // allocations, in the order of their first pointers
  for (size_t at = 0; at + 8 <= args.size(); at += 8) {
    const void* allocation = may_be_address(*launch.kernel, at) ? memory.find(load(args.data() + at), 1) : nullptr;
    if (allocation == nullptr) continue;
    const auto same = std::find(found.begin(), found.end(), allocation);
    const uint64_t number = 1 + static_cast<uint64_t>(same - found.begin());  // a null pointer is no address
    if (same == found.end()) found.push_back(allocation);
    std::memcpy(args.data() + at, &number, 8);
  }
  const Dim3 &g = launch.grid, &b = launch.block;
  return {launch.module->serial(),
          launch.kernel->symbol,
          {g.x, g.y, g.z, b.x, b.y, b.z, launch.dynamic_lds},
          std::move(args)};
}

void LaunchRecorder::write_variant(const std::string& variant) {
  uint64_t number = 0;
  if (variant == variant_ || !number_of(reinterpret_cast<const uint8_t*>(variant.data()), variant.size(), &number)) {
    return;
  }
  variant_ = variant;
  std::fprintf(file_, "variant %llu\n", static_cast<unsigned long long>(number));
}

void LaunchRecorder::before_launch(Device& device, const Launch& launch, const std::string& variant) {
  if (!on() || !open(device.memory())) return;
  const auto [known, fresh] = recorded_.try_emplace(identity_of(launch, device.memory()), recorded_.size());
  if (!fresh) {
    std::fprintf(file_, "again %llu\n", static_cast<unsigned long long>(known->second));
    return;
  }
  const auto [answer, asked] = by_data_.try_emplace({launch.module->serial(), launch.kernel->symbol});
  if (asked) answer->second = device.decided_by_data(*launch.module, *launch.kernel);
  write_layout(device.memory());
  const uint64_t module = write_module(*launch.module);
  write_globals(*launch.module);
  write_variant(variant);
  const std::vector<RecordedContents> held = write_contents(answer->second);
  recorded_bytes_ += allocations_.size() * sizeof(RecordedAllocation) + held.size() * sizeof(RecordedContents) +
                     launch.kernel->symbol.size() + launch.args.size() + kLaunchBytes;
  const Dim3 &g = launch.grid, &b = launch.block;
  std::fprintf(file_, "launch %s %llu %u %u %u %u %u %u %u %d %d %zu %zu\n", launch.kernel->symbol.c_str(),
               static_cast<unsigned long long>(module), g.x, g.y, g.z, b.x, b.y, b.z, launch.dynamic_lds,
               launch.cooperative, answer->second, launch.args.size(), held.size());
  std::fwrite(launch.args.data(), 1, launch.args.size(), file_);
  std::fwrite(held.data(), sizeof(RecordedContents), held.size(), file_);
  std::fflush(file_);
}

void LaunchRecorder::after_launch(bool results, const std::string& failure) {
  if (file_ == nullptr) return;
  read_ = false;
  if (failure.empty()) {
    std::fputs(results ? "ran\n" : "lost\n", file_);
  } else {
    std::fprintf(file_, "failed %s\n", failure.c_str());
  }
  std::fflush(file_);
}

void LaunchRecorder::copied_to_host() {
  if (read_ || file_ == nullptr) return;
  read_ = true;
  std::fputs("read\n", file_);
  std::fflush(file_);
}

void LaunchRecorder::caches_cleared() {
  if (file_ == nullptr) return;  // nothing has been launched
  std::fputs("cleared\n", file_);
  std::fflush(file_);
}

void LaunchRecorder::refused(const Memory& memory, const std::string& symbol, const std::string& why) {
  if (!on() || !open(memory)) return;
  std::fprintf(file_, "refused %s %zu\n%s", symbol.c_str(), why.size(), why.c_str());
  std::fflush(file_);
}

}  // namespace hipsynth::runtime
