// Code objects that programs load at run time: disassembly, and source lines of instructions.
#include <cstdio>

#include "process.h"
#include "runtime.h"

namespace hipsynth::runtime {

std::string disassemble(const std::string& objdump, const std::vector<uint8_t>& elf) {
  TemporaryFolder folder;
  const std::string output = folder.path() + "/code.s";
  if (run_process({objdump, "-d", folder.write("code.o", elf.data(), elf.size())}, output, "") != 0) {
    throw SimError(Reason::bad_code_object, objdump + " could not disassemble a code object loaded at run time");
  }
  return read_file(output);
}

std::string source_line(const Runtime& rt, const ihipModuleSymbol_t& kernel, uint64_t instruction) {
  const std::string tool = "objdump";
  std::string symbolizer = rt.config.objdump;
  const size_t at = symbolizer.rfind(tool);
  if (instruction == 0 || kernel.elf == nullptr || at == std::string::npos) return "";
  symbolizer.replace(at, tool.size(), "symbolizer");
  char address[32];
  std::snprintf(address, sizeof address, "0x%llx", static_cast<unsigned long long>(instruction));
  TemporaryFolder folder;
  const std::string output = folder.path() + "/place";
  const std::string object = "--obj=" + folder.write("code.o", kernel.elf->data(), kernel.elf->size());
  if (run_process({symbolizer, object, "--functions=none", "--inlines", address}, output, "") != 0) return "";
  std::string place = read_file(output);  // FILE:LINE:COLUMN of the innermost function, then of those it is inlined in
  place = place.substr(0, place.find('\n'));
  place = place.substr(0, place.rfind(':'));
  return place.empty() || place.starts_with("??") || place.ends_with(":0") ? "" : "; source line " + place;
}

}  // namespace hipsynth::runtime
