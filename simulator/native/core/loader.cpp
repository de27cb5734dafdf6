// Loads a code object into device memory, applies its relocations and reads kernel descriptors and metadata.
#include <cxxabi.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/elf.h"
#include "core/machine.h"
#include "core/msgpack.h"

namespace hipsynth {
namespace {

// Relocation numbers of "User Guide for AMDGPU Backend", section Relocation Records.
enum : uint32_t {
  kAbs32Lo = 1,
  kAbs32Hi = 2,
  kAbs64 = 3,
  kRel32 = 4,
  kRel64 = 5,
  kAbs32 = 6,
  kGlobDat = 7,
  kRel32Lo = 10,
  kRel32Hi = 11,
  kRelative64 = 13
};

// The used fields of the 64-byte kernel descriptor (same guide, section Kernel Descriptor).
struct Descriptor {
  uint32_t group_segment_bytes, private_segment_bytes, kernarg_bytes, reserved0;
  int64_t entry_offset;
  uint8_t reserved1[20];
  uint32_t rsrc3, rsrc1, rsrc2;
  uint16_t code_properties, kernarg_preload;
  uint32_t reserved2;
};
static_assert(sizeof(Descriptor) == 64);

constexpr uint32_t kNoInstruction = ~0u;
constexpr std::string_view kDescriptorSuffix = ".kd";  // of a kernel's name: the symbol of its descriptor
constexpr uint64_t kMaxArgumentBytes = 1u << 20;       // kernel arguments; ROCm's own limit is far lower
constexpr size_t kMaxDemangled = 8192;                 // longer names are not demangled

uint64_t next_serial() {
  static std::atomic<uint64_t> modules{0};
  return ++modules;
}

std::string demangle(const std::string& symbol) {
  if (symbol.size() > kMaxDemangled) return symbol;
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text ? text : symbol;
  std::free(text);
  return name;
}

}  // namespace

struct ModuleLoader {
  Arch arch;
  Memory& memory;
  const std::vector<uint8_t>& bytes;
  Elf elf;
  std::unique_ptr<Module> module = std::make_unique<Module>();

  void check_in_image(uint64_t vaddr, uint64_t n) const {
    if (vaddr > module->image_bytes_ || n > module->image_bytes_ - vaddr)
      throw_bad_code_object("address outside the image");
  }

  uint8_t* checked_image_bytes(uint64_t vaddr, uint64_t n) const {
    check_in_image(vaddr, n);
    return reinterpret_cast<uint8_t*>(module->image_base_ + vaddr);
  }

  void allocate_image() {
    uint64_t end = 0;
    for (const ElfSegment& s : elf.segments) end = std::max(end, s.vaddr + s.memory_bytes);
    module->memory_ = &memory;
    module->image_bytes_ = (end + 4095) & ~4095ull;
    module->image_base_ = reinterpret_cast<uint64_t>(memory.allocate(module->image_bytes_, Memory::Kind::code));
    for (const ElfSegment& s : elf.segments)
      std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(s.file_offset), s.file_bytes,
                  checked_image_bytes(s.vaddr, s.memory_bytes));
  }

  void relocate(const ElfRelocation& r) {
    uint64_t symbol = 0;
    if (r.type != kRelative64 && r.symbol) {
      if (r.symbol >= elf.dynamic_symbols.size()) throw_bad_code_object("relocation names no symbol");
      const ElfSymbol& s = elf.dynamic_symbols[r.symbol];
      if (!s.defined)
        throw_bad_code_object("undefined symbol " + std::string(s.name) + " (linked without its definition)");
      symbol = module->image_base_ + s.value;
    }
    const uint64_t value = symbol + static_cast<uint64_t>(r.addend);
    const uint64_t named = r.type == kRelative64 ? static_cast<uint64_t>(r.addend) : value - module->image_base_;
    const uint32_t index = find_instruction(named);
    if (index != kNoInstruction) module->address_taken_.push_back(index);
    const uint64_t address = module->image_base_ + r.offset;
    const auto put32 = [&](uint64_t v) {
      const auto w = static_cast<uint32_t>(v);
      std::memcpy(checked_image_bytes(r.offset, 4), &w, 4);
    };
    const auto put64 = [&](uint64_t v) { std::memcpy(checked_image_bytes(r.offset, 8), &v, 8); };
    switch (r.type) {
      case 0:
        return;
      case kAbs32Lo:
      case kAbs32:
        return put32(value);
      case kAbs32Hi:
        return put32(value >> 32);
      case kRel32:
      case kRel32Lo:
        return put32(value - address);
      case kRel32Hi:
        return put32((value - address) >> 32);
      case kRel64:
        return put64(value - address);
      case kAbs64:
      case kGlobDat:
        return put64(value);
      case kRelative64:
        return put64(module->image_base_ + static_cast<uint64_t>(r.addend));
      default:
        throw_bad_code_object("relocation type " + std::to_string(r.type));
    }
  }

  void decode_text(const std::string& disassembly) {
    DecodeResult result = decode(arch, disassembly);
    module->code_ = std::move(result.code);
    if (module->code_.insts.empty())
      throw_bad_code_object(
          "it has no instruction; the compiler removes a kernel that always does something undefined");
  }

  uint32_t find_instruction(uint64_t vaddr) const {
    const Code& code = module->code_;
    const uint64_t word = (vaddr - code.base) / 4;
    if (vaddr < code.base || vaddr % 4 != 0 || word >= code.index_by_word.size()) return kNoInstruction;
    return code.index_by_word[word];
  }

  uint32_t index_of(uint64_t vaddr) const {
    const uint32_t index = find_instruction(vaddr);
    if (index == kNoInstruction) throw_bad_code_object("no instruction at an entry point");
    return index;
  }

  uint32_t end_index(uint64_t vaddr_end) const {
    const auto& insts = module->code_.insts;
    const auto it = std::lower_bound(insts.begin(), insts.end(), vaddr_end,
                                     [](const Inst& i, uint64_t a) { return i.address < a; });
    return static_cast<uint32_t>(it - insts.begin());
  }

  void read_descriptor(const ElfSymbol& symbol) {
    Descriptor d;
    std::memcpy(&d, checked_image_bytes(symbol.value, sizeof d), sizeof d);
    KernelInfo k;
    k.symbol = symbol.name.substr(0, symbol.name.size() - kDescriptorSuffix.size());
    k.name = demangle(k.symbol);
    const uint64_t entry = symbol.value + static_cast<uint64_t>(d.entry_offset);
    k.entry = index_of(entry);
    k.end = k.entry + 1;
    for (const ElfSymbol& s : elf.symbols) {
      if (s.type == kSymbolFunction && s.value == entry) k.end = end_index(s.value + s.bytes);
    }
    if (k.end <= k.entry) throw_bad_code_object("the code of " + k.name + " has no end");
    if (d.kernarg_bytes > kMaxArgumentBytes) throw_bad_code_object("arguments of " + k.name + " are too large");
    k.kernarg_bytes = d.kernarg_bytes;
    k.lds_bytes = d.group_segment_bytes;
    k.scratch_bytes = d.private_segment_bytes;
    k.rsrc1 = d.rsrc1;
    k.rsrc2 = d.rsrc2;
    k.rsrc3 = d.rsrc3;
    k.code_properties = d.code_properties;
    k.kernarg_preload = d.kernarg_preload;
    k.vgprs = ((d.rsrc1 & 0x3f) + 1) * 8;
    k.sgprs = 8 * ((d.rsrc1 >> 6 & 0xf) + 1);
    k.accum_offset = ((d.rsrc3 & 0x3f) + 1) * 4;
    module->kernels_[k.symbol] = std::move(k);
  }

  void read_symbols() {
    for (const ElfSymbol& s : elf.symbols) {
      if (!s.defined) continue;
      if (s.type == kSymbolFunction) {
        const uint32_t index = find_instruction(s.value);
        if (index != kNoInstruction) module->functions_.push_back(index);
      } else if (s.type == kSymbolObject) {
        if (s.name.size() > kDescriptorSuffix.size() && s.name.ends_with(kDescriptorSuffix)) {
          read_descriptor(s);
        } else {
          check_in_image(s.value, s.bytes);
          module->globals_[std::string(s.name)] = {module->image_base_ + s.value, s.bytes};
        }
      }
    }
  }

  static void read_kernel_metadata(const msgpack::Value& m, KernelInfo* k) {
    k->vgprs = static_cast<uint32_t>(m.number(".vgpr_count", k->vgprs));
    k->agprs = static_cast<uint32_t>(m.number(".agpr_count", 0));
    k->sgprs = static_cast<uint32_t>(m.number(".sgpr_count", k->sgprs));
    k->max_flat_workgroup = static_cast<uint32_t>(m.number(".max_flat_workgroup_size", 1024));
    k->dynamic_stack = m.number(".uses_dynamic_stack", 0) != 0;
    if (const msgpack::Value* args = m.get(".args")) {
      for (const msgpack::Value& a : args->items) {
        const uint64_t offset = a.number(".offset", 0), size = a.number(".size", 0);
        if (offset > kMaxArgumentBytes || size > kMaxArgumentBytes)
          throw_bad_code_object("arguments of " + k->name + " are too large");
        k->args.push_back({static_cast<uint32_t>(offset), static_cast<uint32_t>(size), a.string(".value_kind")});
      }
    }
  }

  void read_metadata() {
    if (elf.metadata.empty()) throw_bad_code_object("no AMDGPU metadata note");
    for (const Elf::Note& note : elf.metadata) read_metadata(note);
  }

  void read_metadata(const Elf::Note& note) {
    msgpack::Value root;
    if (!msgpack::parse(note.data, note.bytes, &root)) throw_bad_code_object("no readable AMDGPU metadata note");
    if (const msgpack::Value* kernels = root.get("amdhsa.kernels")) {
      for (const msgpack::Value& m : kernels->items) {
        const auto it = module->kernels_.find(m.string(".name"));
        if (it != module->kernels_.end()) read_kernel_metadata(m, &it->second);
      }
    }
    if (const msgpack::Value* formats = root.get("amdhsa.printf")) {
      for (const msgpack::Value& f : formats->items) module->printf_formats_.push_back(f.text);
    }
  }
};

Module::~Module() {
  if (memory_ && image_base_) memory_->release(reinterpret_cast<void*>(image_base_));
}

std::unique_ptr<Module> Module::load(Arch arch, Memory& memory, const std::vector<uint8_t>& elf,
                                     const std::string& disassembly) {
  ModuleLoader loader{arch, memory, elf, parse_elf(elf)};
  loader.decode_text(disassembly);
  loader.allocate_image();
  for (const ElfRelocation& r : loader.elf.relocations) loader.relocate(r);
  loader.read_symbols();
  loader.read_metadata();
  loader.module->serial_ = next_serial();
  return std::move(loader.module);
}

std::unique_ptr<Module> Module::from_text(Arch arch, Memory& memory, const std::string& text, KernelInfo kernel) {
  const std::vector<uint8_t> no_file;
  ModuleLoader loader{arch, memory, no_file, Elf{}};
  loader.decode_text(text);
  loader.elf.segments.push_back({0, 0, 0, 1});
  loader.allocate_image();
  kernel.entry = 0;
  kernel.end = static_cast<uint32_t>(loader.module->code_.insts.size());
  loader.module->kernels_[kernel.symbol] = std::move(kernel);
  loader.module->serial_ = next_serial();
  return std::move(loader.module);
}

const KernelInfo* Module::kernel(const std::string& symbol) const {
  const auto it = kernels_.find(symbol);
  return it == kernels_.end() ? nullptr : &it->second;
}

std::vector<const KernelInfo*> Module::kernels() const {
  std::vector<const KernelInfo*> all;
  for (const auto& [symbol, info] : kernels_) all.push_back(&info);
  return all;
}

uint64_t Module::address_of(uint32_t instruction) const {
  const std::vector<Inst>& insts = code_.insts;
  const bool behind = instruction >= insts.size();
  return image_base_ + (behind ? insts.back().address + insts.back().size : insts[instruction].address);
}

std::pair<uint64_t, uint64_t> Module::global(const std::string& symbol) const {
  const auto it = globals_.find(symbol);
  return it == globals_.end() ? std::pair<uint64_t, uint64_t>{0, 0} : it->second;
}

}  // namespace hipsynth
