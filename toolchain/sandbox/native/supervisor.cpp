// Runs jobs one after another, inside a sandbox (as its process 1) or as a plain launcher.
//
//   hipsynth-supervisor SOCKET [FOLDER...]
//
// First it sends descriptors of the folders, through which hipsynth reaches the file systems that jobs write to.
//
// Creating a sandbox costs ten times as much as starting a program, so one sandbox runs many jobs. Each job is a new
// process with its own limits, descriptors and, if it may not fork, a stricter system call filter. After a job, every
// process that it left is killed, and the reply says whether it left files in /tmp or /dev/shm (the sandbox is then
// discarded). The supervisor ends when its socket closes, which ends all processes of the sandbox.
//
// A request (see hipsynth/toolchain/sandbox/jail.py): Header, then the filter's bytes, then NUL-terminated strings: the
// working folder, the arguments, the environment. The descriptors that come with its first byte become 0, 1, 2, 3, ...
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <vector>

namespace {

constexpr int kMostDescriptors = 8;
constexpr uint32_t kMostBytes = 16u << 20;
// Of all jobs of the user together, for jobs that may start others: a fork bomb is faster than any polling.
constexpr uint64_t kMostProcesses = 4096;
constexpr int kMostWaits = 200;  // for a busy program
constexpr useconds_t kWaitUs = 5000;

struct Header {
  uint32_t bytes;  // of everything after the header
  uint32_t filter_bytes, arguments, variables;
  uint64_t cpu_soft_s, cpu_hard_s, file_bytes, open_files;
};

struct Reply {
  int32_t status;  // as of waitpid
  int32_t error;   // errno if the program could not be started, else 0
  int64_t cpu_us, peak_kib;
  uint32_t dirty;  // 1: it left files outside its folder
  uint32_t reserved;
};

struct Job {
  Header header;
  std::vector<char> body;
  int descriptors[kMostDescriptors];
  int count = 0;

  const char* filter() const { return body.data(); }
};

bool read_all(int from, char* to, size_t size) {
  while (size > 0) {
    const ssize_t got = read(from, to, size);
    if (got <= 0) return false;
    to += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

// The header and the descriptors of the next job; false when the socket has closed.
bool receive_header(int socket, Job* job) {
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)];
  iovec part{&job->header, sizeof job->header};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
  if (got != sizeof job->header) return false;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_type != SCM_RIGHTS) continue;
    job->count = static_cast<int>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    memcpy(job->descriptors, CMSG_DATA(c), static_cast<size_t>(job->count) * sizeof(int));
  }
  return job->count >= 3 && job->header.bytes <= kMostBytes && job->header.filter_bytes < job->header.bytes;
}

bool receive(int socket, Job* job) {
  if (!receive_header(socket, job)) return false;
  job->body.resize(job->header.bytes);
  return read_all(socket, job->body.data(), job->body.size()) && job->body.back() == '\0';
}

// This and the next two return 0 or errno.
int set_limit(__rlimit_resource resource, uint64_t soft, uint64_t hard) {
  rlimit wanted{soft, hard}, present{};
  // An ordinary user cannot exceed the hard limit that was inherited.
  if (getrlimit(resource, &present) == 0 && present.rlim_max < wanted.rlim_max) wanted.rlim_max = present.rlim_max;
  if (wanted.rlim_cur > wanted.rlim_max) wanted.rlim_cur = wanted.rlim_max;
  return setrlimit(resource, &wanted) == 0 ? 0 : errno;
}

// Moves the received descriptors to 0, 1, 2, ...; all others close when the program starts.
int install_descriptors(const Job& job) {
  int copies[kMostDescriptors];
  for (int i = 0; i < job.count; ++i)
    if ((copies[i] = fcntl(job.descriptors[i], F_DUPFD_CLOEXEC, 64)) < 0) return errno;
  for (int i = 0; i < job.count; ++i)
    if (dup2(copies[i], i) < 0) return errno;
  return 0;
}

int install_seccomp_filter(const Job& job) {
  if (job.header.filter_bytes == 0) return 0;
  sock_fprog program{};
  program.len = static_cast<unsigned short>(job.header.filter_bytes / sizeof(sock_filter));
  program.filter = reinterpret_cast<sock_filter*>(const_cast<char*>(job.filter()));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0 ? 0 : errno;
}

// Becomes a program; returns errno if that fails. A program that was just written may be busy: a process that was
// started meanwhile has it open until it becomes another one.
int exec_program(std::vector<char*>& arguments) {
  for (int waits = 0; waits < kMostWaits; ++waits) {
    execvp(arguments[0], arguments.data());
    if (errno != ETXTBSY) return errno;
    usleep(kWaitUs);
  }
  return ETXTBSY;
}

// 0 or errno.
int install_limits(const Header& header) {
  struct Limit {
    __rlimit_resource resource;
    uint64_t soft, hard;
  };
  const Limit limits[] = {{RLIMIT_CORE, 0, 0},
                          {RLIMIT_CPU, header.cpu_soft_s, header.cpu_hard_s},
                          {RLIMIT_FSIZE, header.file_bytes, header.file_bytes},
                          {RLIMIT_NOFILE, header.open_files, header.open_files}};
  for (const Limit& limit : limits)
    if (const int error = set_limit(limit.resource, limit.soft, limit.hard)) return error;
  return header.filter_bytes == 0 ? set_limit(RLIMIT_NPROC, kMostProcesses, kMostProcesses) : 0;
}

void reset_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  signal(SIGINT, SIG_DFL);
}

// Becomes the job's program; returns errno if that fails.
int exec_job(const Job& job) {
  std::vector<char*> words;
  char* at = const_cast<char*>(job.body.data()) + job.header.filter_bytes;
  char* const end = const_cast<char*>(job.body.data()) + job.body.size();
  for (; at < end; at += strlen(at) + 1) words.push_back(at);
  if (words.size() != 1 + job.header.arguments + job.header.variables || job.header.arguments == 0) return EINVAL;
  std::vector<char*> arguments(words.begin() + 1, words.begin() + 1 + job.header.arguments);
  std::vector<char*> variables(words.begin() + 1 + job.header.arguments, words.end());
  arguments.push_back(nullptr);
  variables.push_back(nullptr);

  setsid();
  if (const int error = install_descriptors(job)) return error;
  if (const int error = install_limits(job.header)) return error;
  // clang orders some device variables by address, so randomised addresses would make its output differ between runs.
  personality(ADDR_NO_RANDOMIZE);
  reset_signals();
  if (chdir(words[0]) != 0) return errno;
  environ = variables.data();
  if (const int error = install_seccomp_filter(job)) return error;
  return exec_program(arguments);
}

// In the child: runs the job, or reports through `failure`, which closes when its program starts, why it cannot.
[[noreturn]] void run_child(const Job& job, int failure) {
  const int error = exec_job(job);
  [[maybe_unused]] const ssize_t written = write(failure, &error, sizeof error);
  _exit(127);
}

// Adds the usage of a process that has ended.
void account(const rusage& used, Reply* reply) {
  reply->cpu_us +=
      (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000 + used.ru_utime.tv_usec + used.ru_stime.tv_usec;
  if (used.ru_maxrss > reply->peak_kib) reply->peak_kib = used.ru_maxrss;
}

// Reaps what has ended; true once `child` was among them.
bool reap(pid_t child, int flags, Reply* reply) {
  bool ended = false;
  int status = 0;
  rusage used{};
  for (pid_t pid = 0; (pid = wait4(-1, &status, flags, &used)) > 0;) {
    account(used, reply);
    if (pid == child) {
      ended = true;
      reply->status = status;
    }
  }
  return ended;
}

// Kills all remaining processes of a job: they are this process's children, because it adopts orphans.
void kill_rest(Reply* reply) {
  for (;;) {
    if (getpid() == 1) {
      kill(-1, SIGKILL);
    } else {
      char path[64];
      snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
      FILE* list = fopen(path, "re");
      if (!list) return;
      for (int pid = 0; fscanf(list, "%d", &pid) == 1;) kill(pid, SIGKILL);
      fclose(list);
    }
    int status = 0;
    rusage used{};
    const pid_t pid = wait4(-1, &status, 0, &used);
    if (pid < 0) return;
    account(used, reply);
  }
}

// How much the temporary file systems hold, and who may use them. They are the only writable places besides the job's
// folder.
struct Usage {
  uint64_t files = 0, blocks = 0, modes = 0;
  bool operator==(const Usage&) const = default;
};

Usage temporary_files() {
  Usage sum;
  for (const char* path : {"/tmp", "/dev/shm"}) {
    struct statvfs found{};
    if (statvfs(path, &found) != 0) continue;
    sum.files += found.f_files - found.f_ffree;
    sum.blocks += found.f_blocks - found.f_bfree;
    struct stat folder{};
    if (stat(path, &folder) == 0) sum.modes = sum.modes << 16 | folder.st_mode;
  }
  return sum;
}

// Sends descriptors of the folders `paths`, with one byte; false if that is not possible.
bool send_folders(int socket, char** paths, int count) {
  int descriptors[kMostDescriptors];
  for (int i = 0; i < count; ++i)
    if ((descriptors[i] = open(paths[i], O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0) return false;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostDescriptors)] = {};
  char byte = 0;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = CMSG_SPACE(sizeof(int) * static_cast<size_t>(count));
  cmsghdr* c = CMSG_FIRSTHDR(&message);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof(int) * static_cast<size_t>(count));
  memcpy(CMSG_DATA(c), descriptors, sizeof(int) * static_cast<size_t>(count));
  const bool sent = sendmsg(socket, &message, 0) == 1;
  for (int i = 0; i < count; ++i) close(descriptors[i]);
  return sent;
}

// Waits for the end of a job; false if the socket closed, which means that nobody wants its result.
bool supervise(int socket, int signals, pid_t child, Reply* reply) {
  pollfd watched[] = {{socket, POLLIN | POLLRDHUP, 0}, {signals, POLLIN, 0}};
  while (!reap(child, WNOHANG, reply)) {
    if (poll(watched, std::size(watched), -1) < 0 && errno != EINTR) return false;
    signalfd_siginfo drained;
    while (read(signals, &drained, sizeof drained) > 0) continue;
    if (watched[0].revents != 0) return false;
  }
  return true;
}

// Runs one job; false if the supervisor has to end. `before`: what the temporary file systems held, null outside a
// sandbox.
bool run(int socket, int signals, const Job& job, const Usage* before) {
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) return false;
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) run_child(job, failure[1]);
  close(failure[1]);
  for (int i = 0; i < job.count; ++i) close(job.descriptors[i]);
  Reply reply{};
  if (!supervise(socket, signals, child, &reply)) {
    kill_rest(&reply);
    return false;
  }
  kill_rest(&reply);
  if (read(failure[0], &reply.error, sizeof reply.error) < 0) reply.error = 0;
  close(failure[0]);
  reply.dirty = before && temporary_files() != *before;
  return write(socket, &reply, sizeof reply) == sizeof reply;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc - 2 > kMostDescriptors) {
    fputs("hipsynth-supervisor: started by hipsynth, not by hand\n", stderr);
    return 2;
  }
  const int socket = atoi(argv[1]);
  const bool jailed = getpid() == 1;
  // Jobs run as the same user: they must not read or change this process.
  if (jailed && prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return 125;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  fcntl(socket, F_SETFD, FD_CLOEXEC);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, nullptr);
  const int signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) return 125;
  if (argc > 2 && !send_folders(socket, argv + 2, argc - 2)) return 125;
  const Usage before = temporary_files();
  for (;;) {
    Job job;
    if (!receive(socket, &job) || !run(socket, signals, job, jailed ? &before : nullptr)) return 0;
  }
}
