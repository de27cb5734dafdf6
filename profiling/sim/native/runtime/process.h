// Starting the toolchain's programs: the disassembler and the compiler, for code that a program makes or loads itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth::runtime {

// A folder in the temporary folder, removed with the object and all that is in it. Throws std::runtime_error.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file in it, with the folders that its name asks for, and returns its path.
  std::string write(const std::string& name, const void* data, size_t size) const;

 private:
  std::string path_;
};

// Runs a program to its end with stdout and stderr in files; empty paths: inherited. Its exit status, -1 when it could
// not be started or was killed.
int run_process(const std::vector<std::string>& words, const std::string& output, const std::string& errors);

}  // namespace hipsynth::runtime
