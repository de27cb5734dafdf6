// The parts of an ELF64 AMDGPU code object that the loader needs, bounds-checked.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hipsynth {

struct ElfSegment {
  uint64_t vaddr, file_offset, file_bytes, memory_bytes;
};
struct ElfSymbol {
  std::string_view name;  // in the input bytes
  uint64_t value, bytes;
  uint8_t type;
  bool defined;
};
struct ElfRelocation {
  uint64_t offset;
  uint32_t type, symbol;
  int64_t addend;
};

struct Elf {
  std::vector<ElfSegment> segments;        // PT_LOAD
  std::vector<ElfSymbol> symbols;          // .symtab, else .dynsym
  std::vector<ElfSymbol> dynamic_symbols;  // index space of the relocations
  std::vector<ElfRelocation> relocations;
  struct Note {
    const uint8_t* data;  // points into the input bytes
    uint64_t bytes;
  };
  std::vector<Note> metadata;  // NT_AMDGPU_METADATA notes; link-time optimisation may write several
};

// Throws SimError "bad_code_object".
[[noreturn]] void throw_bad_code_object(const std::string& why);

inline constexpr uint8_t kSymbolObject = 1, kSymbolFunction = 2;

// Throws SimError "bad_code_object". What the file describes twice over (names, segments, notes, relocations that
// share bytes) is refused, so that time and memory are proportional to its size.
Elf parse_elf(const std::vector<uint8_t>& bytes);

}  // namespace hipsynth
