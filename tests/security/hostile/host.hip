// Hostile host programs: the first argument says which deed. They print what they achieved; nothing outside is written.
#include <dirent.h>
#include <fcntl.h>
#include <hip/hip_runtime.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

__global__ void fine(int* p) { *p = 1; }

namespace {

int say(const char* what) {
  std::puts(what);
  std::fflush(stdout);
  return 0;
}

int call(long number, long a = 0, long b = 0, long c = 0, long d = 0) {
  const long made = syscall(number, a, b, c, d);
  return say(made < 0 ? std::strerror(errno) : "DONE");
}

int fill(const std::string& folder) {
  const std::vector<char> block(8 << 20, 1);
  for (int i = 0; i < 24; ++i) {
    FILE* file = std::fopen((folder + "/" + std::to_string(i)).c_str(), "wb");
    if (!file || std::fwrite(block.data(), 1, block.size(), file) != block.size()) return say("full");
    std::fclose(file);
    usleep(20000);
  }
  return say("FILLED");
}

int page_tables() {
  const size_t step = 2 << 20, count = 100000;  // 400 MiB of page tables
  auto* memory = static_cast<volatile char*>(
      mmap(nullptr, step * count, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  if (memory == MAP_FAILED) return say("no room");
  madvise(const_cast<char*>(memory), step * count, MADV_NOHUGEPAGE);
  char sum = 0;
  for (size_t i = 0; i < count; ++i) sum += memory[i * step];
  sleep(2);
  return say(sum ? "?" : "FILLED");
}

int threads() {
  for (int i = 0; i < 600; ++i) std::thread([] { sleep(20); }).detach();
  sleep(5);
  return say("STARTED");
}

int ignore_signals() {
  for (int number = 1; number < 64; ++number) signal(number, SIG_IGN);
  for (volatile int i = 0;; i = 1) {
  }
}

int open_files() {
  int count = 0;
  while (open("/dev/null", O_RDONLY) >= 0) ++count;
  return say(count < 1000 ? "limited" : "UNLIMITED");
}

int inherited() {
  DIR* folder = opendir("/proc/self/fd");
  std::string found;
  while (dirent* entry = readdir(folder)) {
    char target[256] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, 255) > 0 && std::strstr(target, "socket")) found += target;
  }
  return say(found.empty() ? "no socket" : found.c_str());
}

int supervisor_files() {
  int opened = 0;
  for (const char* name : {"mem", "environ", "maps", "fd/3", "root/etc", "cwd", "auxv"})
    opened += open((std::string("/proc/1/") + name).c_str(), O_RDONLY) >= 0;
  return say(opened ? "OPENED" : "closed");
}

int attack_supervisor() {
  for (int number : {SIGKILL, SIGSTOP, SIGTERM, SIGSEGV}) kill(1, number);
  kill(-1, SIGSTOP);
  return say("still here");
}

int leave_much() {
  mkdir("closed", 0700);
  (void)!symlink("/", "closed/root");
  mkfifo("closed/pipe", 0600);
  std::string deep = "deep";
  for (int i = 0; i < 300; ++i, deep += "/d") mkdir(deep.c_str(), 0700);
  chmod("closed", 0);
  FILE* file = std::fopen("setuid", "w");
  std::fclose(file);
  chmod("setuid", 06777);
  return say("left");
}

int move_folder() {
  char here[4096];
  const std::string path = getcwd(here, sizeof here);
  if (rename(path.c_str(), (path + "-moved").c_str()) != 0) return say("may not");
  return symlink("/etc", path.c_str()) == 0 ? say("MOVED") : say("half");
}

int recursion(volatile int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = 1;
  return recursion(depth + 1) + frame[0];
}

int become_root() {
  if (setuid(0) == 0) return say("ROOT");
  execl("/bin/su", "su", "-c", "id", nullptr);
  return say("no su");
}

int shell() {
  execl("/bin/sh", "sh", "-c", "echo a shell; /bin/echo A CHILD", nullptr);
  return 1;
}

int flood_errors() {
  const std::string line(1 << 16, 'x');
  for (;;) std::fwrite(line.data(), 1, line.size(), stderr);
}

const std::map<std::string, std::function<int()>> deeds = {
    {"fill /tmp", [] { return fill("/tmp"); }},
    {"fill /dev/shm", [] { return fill("/dev/shm"); }},
    {"page tables", page_tables},
    {"threads", threads},
    {"ignore signals", ignore_signals},
    {"open files", open_files},
    {"inherited sockets", inherited},
    {"read the supervisor", supervisor_files},
    {"kill the supervisor", attack_supervisor},
    {"limit the supervisor",
     [] {
       rlimit none{0, 0};
       return call(SYS_prlimit64, 1, RLIMIT_NOFILE, reinterpret_cast<long>(&none));
     }},
    {"slow the supervisor", [] { return call(SYS_setpriority, PRIO_PROCESS, 1, 19); }},
    {"vfork", [] { return call(SYS_vfork); }},
    {"clone3", [] { return call(SYS_clone3); }},
    {"unshare", [] { return call(SYS_unshare, CLONE_NEWUSER | CLONE_NEWNS); }},
    {"ptrace", [] { return call(SYS_ptrace, 16, 1); }},
    {"read another's memory", [] { return call(SYS_process_vm_readv, 1); }},
    {"mount", [] { return call(SYS_mount); }},
    {"bpf", [] { return call(SYS_bpf); }},
    {"io_uring", [] { return call(SYS_io_uring_setup, 1); }},
    {"keyring", [] { return call(SYS_keyctl); }},
    {"memfd", [] { return call(SYS_memfd_create, reinterpret_cast<long>("x")); }},
    {"socket pair", [] { return call(SYS_socketpair, 1, 1); }},
    {"x32 calls", [] { return call(0x40000000 | SYS_getpid); }},
    {"leave much", leave_much},
    {"move its folder", move_folder},
    {"write to the root folder",
     [] { return open("/x", O_WRONLY | O_CREAT, 0600) < 0 ? say("may not") : say("MADE"); }},
    {"recursion", [] { return recursion(0); }},
    {"become root", become_root},
    {"a shell", shell},
    {"flood errors", flood_errors},
    {"stop itself", [] { return raise(SIGSTOP); }},
    {"abort",
     [] {
       std::abort();
       return 0;
     }},
};

}  // namespace

int main(int, char** words) {
  int* p;
  if (hipMalloc(&p, 4) != hipSuccess) return 9;
  fine<<<1, 1>>>(p);
  (void)hipDeviceSynchronize();
  return deeds.at(words[1])();
}
