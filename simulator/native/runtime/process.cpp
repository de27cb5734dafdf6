#include "process.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <stdexcept>

extern char** environ;

namespace hipsynth::runtime {

TemporaryFolder::TemporaryFolder() {
  const char* folder = getenv("TMPDIR");
  path_ = std::string(folder != nullptr ? folder : "/tmp") + "/hipsynth-XXXXXX";
  if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(path_ + ": cannot be made");
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, const void* data, size_t size) const {
  const std::filesystem::path path = std::filesystem::path(path_) / std::filesystem::path(name).relative_path();
  std::filesystem::create_directories(path.parent_path());
  std::ofstream out(path, std::ios::binary);
  if (!out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size)).flush()) {
    throw std::runtime_error(path.string() + ": cannot be written");
  }
  return path.string();
}

namespace {

// Returns the wait status of a child, -1 on failure. Signals that the program handles do not end the wait.
int await_exit(pid_t child) {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == child ? status : -1;
}

}  // namespace

int run_process(const std::vector<std::string>& words, const std::string& output, const std::string& errors) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_TRUNC;
  if (!output.empty()) posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), kFlags, 0600);
  if (!errors.empty()) posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), kFlags, 0600);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  const int status = failed == 0 ? await_exit(pid) : -1;
  return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace hipsynth::runtime
