// The parts of an ELF64 AMDGPU code object that the loader needs, bounds-checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth {

struct ElfSegment {
  uint64_t vaddr, file_offset, file_bytes, memory_bytes;
};
struct ElfSymbol {
  std::string name;
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
  uint64_t text_start = 0, text_end = 0;
  struct Note {
    const uint8_t* data;  // points into the input bytes
    uint64_t bytes;
  };
  std::vector<Note> metadata;  // NT_AMDGPU_METADATA notes; link-time optimisation may write several
};

inline constexpr uint8_t kSymbolObject = 1, kSymbolFunction = 2;

// Throws SimError "bad_code_object".
Elf parse_elf(const std::vector<uint8_t>& bytes);

}  // namespace hipsynth
