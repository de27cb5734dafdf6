// Does what a program from outside must not: the first argument says what.
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

__global__ void fine(int* p) { *p = 1; }

namespace {

int read_file(const char* path) {
  char text[64] = {};
  const int file = open(path, O_RDONLY);
  if (file < 0 || read(file, text, 63) <= 0) return std::perror("read"), 1;
  return std::printf("READ %s\n", text), 0;
}

int write_file(const char* path) {
  const int file = open(path, O_WRONLY | O_CREAT, 0644);
  if (file < 0 || write(file, "x", 1) != 1) return std::perror("write"), 1;
  return std::printf("WROTE\n"), 0;
}

int fork_many() {
  for (int i = 0; i < 64; ++i) fork();
  return std::printf("FORKED\n"), 0;
}

int fill_disk(int files, long bytes) {
  static char block[1 << 20];
  for (int i = 0; i < files; ++i) {
    const int file = open(std::to_string(i).c_str(), O_WRONLY | O_CREAT, 0644);
    for (long left = file < 0 ? 1 : bytes; left > 0; left -= sizeof block)
      if (write(file, block, sizeof block) != sizeof block) return std::perror("fill"), 1;
  }
  return std::printf("FILLED\n"), 0;
}

int touch_memory(long bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  std::memset(p, 1, bytes);
  sleep(5);
  return std::printf("TOUCHED\n"), 0;
}

int flood() {
  const std::string line(1 << 16, 'x');
  for (int i = 0; i < 1 << 14; ++i) std::fwrite(line.data(), 1, line.size(), stdout);
  return 0;
}

}  // namespace

int main(int, char** words) {
  int* p;
  if (hipMalloc(&p, 4) != hipSuccess) return 9;
  fine<<<1, 1>>>(p);
  const std::string deed = words[1];
  if (deed == "read") return read_file((words[2] + std::string("/") + words[3]).c_str());
  if (deed == "write") return write_file(words[2]);
  if (deed == "socket") return socket(AF_INET, SOCK_STREAM, 0) < 0 ? (std::perror("socket"), 1) : 0;
  if (deed == "fork") return fork_many();
  if (deed == "disk") return fill_disk(40, 100L << 20);
  if (deed == "file") return fill_disk(1, 300L << 20);
  if (deed == "memory") return touch_memory(1L << 30);
  if (deed == "flood") return flood();
  if (deed == "loop") for (volatile int i = 0;; i = 1) {}
  if (deed == "sleep") sleep(600);
  return 0;
}
