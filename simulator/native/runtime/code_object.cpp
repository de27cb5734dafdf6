// Disassembles code objects that programs load at run time.
#include "process.h"
#include "runtime.h"

namespace hipsynth::runtime {

std::string disassemble(const std::string& objdump, const std::vector<uint8_t>& elf) {
  TemporaryFolder folder;
  const std::string output = folder.path() + "/code.s";
  if (run_process({objdump, "-d", folder.write("code.o", elf.data(), elf.size())}, output, "") != 0) {
    throw SimError("bad_code_object", objdump + " could not disassemble a code object loaded at run time");
  }
  return read_file(output);
}

}  // namespace hipsynth::runtime
