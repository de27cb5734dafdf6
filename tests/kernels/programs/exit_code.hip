// Ends with the exit code given as its argument, by the way given as the second one.
#include <hip/hip_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

__global__ void fine(int* p) { p[threadIdx.x] = 1; }

int main(int argc, char** argv) {
  int* p;
  if (hipMalloc(&p, 256) != hipSuccess) return 1;
  fine<<<1, 64>>>(p);
  std::printf("to stdout\n");
  std::fprintf(stderr, "to stderr\n");
  int code = argc > 1 ? std::atoi(argv[1]) : 0;
  if (argc > 2 && !std::strcmp(argv[2], "_exit")) std::fflush(stdout), _exit(code);
  if (argc > 2 && !std::strcmp(argv[2], "exit")) std::exit(code);
  return code;
}
