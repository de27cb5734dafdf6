#include "core/elf.h"

#include <algorithm>
#include <cstring>

#include "core/machine.h"

namespace hipsynth {
namespace {

constexpr uint16_t kMachineAmdgpu = 224;
constexpr uint32_t kTypeSymtab = 2, kTypeRela = 4, kTypeDynsym = 11;
constexpr uint32_t kNoteAmdgpuMetadata = 32;
constexpr uint64_t kMostImage = 1ull << 32;  // bytes of a loaded code object

// ELF file records (System V ABI, ELF-64).
struct FileHeader {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, phoff, shoff;
  uint32_t flags;
  uint16_t ehsize, phentsize, phnum, shentsize, shnum, shstrndx;
};
struct ProgramHeader {
  uint32_t type, flags;
  uint64_t offset, vaddr, paddr, filesz, memsz, align;
};
struct SectionHeader {
  uint32_t name, type;
  uint64_t flags, addr, offset, size;
  uint32_t link, info;
  uint64_t addralign, entsize;
};
struct SymbolRecord {
  uint32_t name;
  uint8_t info, other;
  uint16_t shndx;
  uint64_t value, size;
};
struct RelaRecord {
  uint64_t offset, info;
  int64_t addend;
};
struct NoteHeader {
  uint32_t namesz, descsz, type;
};

class File {
 public:
  explicit File(const std::vector<uint8_t>& bytes) : bytes_(bytes) {}

  template <class T>
  T at(uint64_t offset) const {
    T v;
    std::memcpy(&v, span(offset, sizeof(T)), sizeof(T));
    return v;
  }

  uint64_t size() const { return bytes_.size(); }
  const uint8_t* span(uint64_t offset, uint64_t n) const {
    if (offset > bytes_.size() || n > bytes_.size() - offset) throw_bad_code_object("truncated");
    return bytes_.data() + offset;
  }

 private:
  const std::vector<uint8_t>& bytes_;
};

// The bytes that all things of one kind may have together: as many as the file, so a small one cannot describe much.
class ByteBudget {
 public:
  ByteBudget(const File& file, const char* kind) : left_(file.size()), kind_(kind) {}
  uint64_t left() const { return left_; }
  void spend(uint64_t bytes) {
    if (bytes > left_) throw_bad_code_object(std::string(kind_) + " overlap");
    left_ -= bytes;
  }

 private:
  uint64_t left_;
  const char* kind_;
};

// The names in a string table.
class NameTable {
 public:
  NameTable(const File& file, const SectionHeader& table)
      : text_(reinterpret_cast<const char*>(file.span(table.offset, table.size)), table.size),
        budget_(file, "symbol names") {}
  std::string_view read(uint64_t offset) {
    if (offset >= text_.size()) throw_bad_code_object("string outside its table");
    const std::string_view rest = text_.substr(offset);
    const size_t n = strnlen(rest.data(), std::min<uint64_t>(rest.size(), budget_.left() + 1));
    budget_.spend(n);
    return rest.substr(0, n);
  }

 private:
  std::string_view text_;
  ByteBudget budget_;
};

std::vector<ElfSymbol> read_symbols(const File& file, const SectionHeader& table, const SectionHeader& strings) {
  std::vector<ElfSymbol> symbols;
  NameTable names(file, strings);
  for (uint64_t at = 0; at + sizeof(SymbolRecord) <= table.size; at += sizeof(SymbolRecord)) {
    const auto s = file.at<SymbolRecord>(table.offset + at);
    symbols.push_back({names.read(s.name), s.value, s.size, static_cast<uint8_t>(s.info & 0xf), s.shndx != 0});
  }
  return symbols;
}

void read_notes(const File& file, const ProgramHeader& p, Elf* elf) {
  file.span(p.offset, p.filesz);
  uint64_t at = p.offset;
  const uint64_t end = p.offset + p.filesz;
  while (at + sizeof(NoteHeader) <= end) {
    const auto note = file.at<NoteHeader>(at);
    const uint64_t name_at = at + sizeof(NoteHeader);
    const uint64_t desc_at = name_at + ((note.namesz + 3ull) & ~3ull);
    if (desc_at + note.descsz > end) throw_bad_code_object("note runs out of its segment");
    if (note.type == kNoteAmdgpuMetadata) elf->metadata.push_back({file.span(desc_at, note.descsz), note.descsz});
    at = desc_at + ((note.descsz + 3ull) & ~3ull);
  }
}

void read_segments(const File& file, const FileHeader& header, Elf* elf) {
  constexpr uint32_t kLoad = 1, kNote = 4;
  ByteBudget loads(file, "segments"), notes(file, "notes");
  for (uint16_t i = 0; i < header.phnum; ++i) {
    const auto p = file.at<ProgramHeader>(header.phoff + i * sizeof(ProgramHeader));
    if (p.type == kLoad) {
      if (p.filesz > p.memsz || p.vaddr > kMostImage || p.memsz > kMostImage - p.vaddr)
        throw_bad_code_object("segment sizes make no sense");
      file.span(p.offset, p.filesz);
      loads.spend(p.filesz);
      elf->segments.push_back({p.vaddr, p.offset, p.filesz, p.memsz});
    }
    if (p.type == kNote) {
      notes.spend(p.filesz);
      read_notes(file, p, elf);
    }
  }
}

void read_sections(const File& file, const FileHeader& header, Elf* elf) {
  std::vector<SectionHeader> sections;
  for (uint16_t i = 0; i < header.shnum; ++i) {
    sections.push_back(file.at<SectionHeader>(header.shoff + i * sizeof(SectionHeader)));
  }
  ByteBudget relocations(file, "relocations");
  for (const SectionHeader& s : sections) {
    if ((s.type == kTypeSymtab || s.type == kTypeDynsym) && s.link < sections.size()) {
      std::vector<ElfSymbol>& symbols = s.type == kTypeSymtab ? elf->symbols : elf->dynamic_symbols;
      if (!symbols.empty())
        throw_bad_code_object("more than one symbol table");  // limits the time that a crafted file can cost
      symbols = read_symbols(file, s, sections[s.link]);
    } else if (s.type == kTypeRela && s.size) {
      relocations.spend(s.size);
      for (uint64_t at = 0; at + sizeof(RelaRecord) <= s.size; at += sizeof(RelaRecord)) {
        const auto r = file.at<RelaRecord>(s.offset + at);
        elf->relocations.push_back(
            {r.offset, static_cast<uint32_t>(r.info), static_cast<uint32_t>(r.info >> 32), r.addend});
      }
    }
  }
  if (elf->symbols.empty()) elf->symbols = elf->dynamic_symbols;
}

}  // namespace

void throw_bad_code_object(const std::string& why) {
  throw SimError(Reason::bad_code_object, "not a usable AMDGPU code object: " + why);
}

Elf parse_elf(const std::vector<uint8_t>& bytes) {
  const File file(bytes);
  const auto header = file.at<FileHeader>(0);
  if (std::memcmp(header.ident, "\177ELF\2\1", 6) != 0) throw_bad_code_object("no ELF64 header");
  if (header.machine != kMachineAmdgpu)
    throw_bad_code_object("machine " + std::to_string(header.machine) + " instead of AMDGPU (224)");
  if (header.phentsize != sizeof(ProgramHeader) || header.shentsize != sizeof(SectionHeader))
    throw_bad_code_object("odd header sizes");
  Elf elf;
  read_segments(file, header, &elf);
  read_sections(file, header, &elf);
  if (elf.segments.empty()) throw_bad_code_object("no loadable segment");
  return elf;
}

}  // namespace hipsynth
