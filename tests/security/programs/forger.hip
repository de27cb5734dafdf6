// Attacks on the way in which a program's result reaches the tool. Launches a kernel, then does what argv[1] says.
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

__global__ void fill(int* out) { out[threadIdx.x] = threadIdx.x; }

void launch() {
  int* memory = nullptr;
  hipMalloc(&memory, 256);
  fill<<<1, 64>>>(memory);
  hipDeviceSynchronize();
}

char* channel() {
  char line[512];
  unsigned long start = 0;
  FILE* maps = std::fopen("/proc/self/maps", "r");
  while (std::fgets(line, sizeof line, maps)) {
    if (std::strstr(line, "memfd:hipsynth")) std::sscanf(line, "%lx-", &start);
  }
  std::fclose(maps);
  return reinterpret_cast<char*>(start);
}

int main(int argc, char** argv) {
  const std::string attack = argc > 1 ? argv[1] : "";
  const int first = open("/dev/null", O_RDONLY);
  if (attack == "look") std::printf("%d %s\n", first, std::getenv("HIPSYNTH_CHANNEL") ? "seen" : "hidden");
  launch();
  if (attack == "fifo" || attack == "symlink" || attack == "folder") {
    for (const char* name : {"run.json", "run.conf", "run.json.partial"}) {
      unlink(name);
      if (attack == "fifo") mkfifo(name, 0644);
      if (attack == "symlink") (void)!symlink("/etc/passwd", name);
      if (attack == "folder") mkdir(name, 0);
    }
  } else if (attack == "forge") {  // the document is standard input; argv[2]: the header's word instead of the right one
    char* shared = channel();
    char* slot = shared + (1 << 20);
    size_t size = 0, got = 0;
    while ((got = std::fread(slot + size, 1, 1 << 16, stdin)) > 0) size += got;
    const uint64_t word = argc > 2 ? std::strtoull(argv[2], nullptr, 0) : 4 * size;
    std::memcpy(shared, &word, 8);
  } else if (attack == "shrink") {
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/map_files/%lx-%lx", reinterpret_cast<unsigned long>(channel()),
                  reinterpret_cast<unsigned long>(channel()) + (64ul << 20));
    std::printf("%d\n", truncate(path, 0));
    std::fflush(stdout);
  } else if (attack == "unmap") {
    munmap(channel(), 64 << 20);
    launch();
    return 0;
  } else if (attack == "refuse") {
    std::fprintf(stderr, "hipsynth: bad_configuration: unknown key of_tomorrow\n");
    _exit(113);
  } else if (attack == "host memory" || attack == "device memory") {
    constexpr size_t kBytes = 512u << 20;
    char* memory = static_cast<char*>(std::malloc(kBytes));
    if (attack == "device memory" && hipMalloc(&memory, kBytes) != hipSuccess) return 1;
    for (size_t at = 0; at < kBytes; at += 1 << 20) {
      if (attack == "device memory") hipMemset(memory + at, 1, 1 << 20);
      if (attack == "host memory") std::memset(memory + at, 1, 1 << 20);
      usleep(500);
    }
    std::printf("FILLED\n");
    return memory[kBytes - 1];
  } else if (attack == "die") {
    usleep(300000);
    launch();
    kill(getpid(), SIGKILL);
  } else {
    return 0;
  }
  _exit(0);
}
