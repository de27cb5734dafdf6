// Starts the disassembler and the compiler for code that a program compiles or loads at run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hipsynth::runtime {

// A temporary folder, deleted with its contents by the destructor. Throws std::runtime_error.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }
  // Writes a file in it, creating the folders in its name, and returns its path.
  std::string write(const std::string& name, const void* data, size_t size) const;

 private:
  std::string path_;
};

// Runs a program to completion with stdout and stderr redirected to files (empty path: inherited). Returns the exit
// status, or -1 if it could not be started or was killed.
int run_process(const std::vector<std::string>& words, const std::string& output, const std::string& errors);

}  // namespace hipsynth::runtime
