// Kernels compiled while the program runs: options, headers, templates by name expression, and what errors say.
#include <hip/hiprtc.h>
#include <signal.h>
#include <sys/time.h>

#include <cstring>
#include <string>
#include <vector>

#include "check.h"

#define RTC(call)                                                                             \
  do {                                                                                        \
    hiprtcResult result_ = (call);                                                            \
    if (result_ != HIPRTC_SUCCESS) {                                                          \
      std::printf("line %d: %s: %s\n", __LINE__, #call, hiprtcGetErrorString(result_));       \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (0)

static const char kSource[] = R"(
#include "factor.h"
#ifndef __HIPCC_RTC__
#error not compiled at run time
#endif
__device__ int offset = 7;
extern "C" __global__ void scale(float* x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= FACTOR * TIMES;
}
template <typename T> __global__ void shift(T* x) { x[threadIdx.x] += T(offset); }
)";

static std::string log_of(hiprtcProgram program) {
  size_t size = 0;
  RTC(hiprtcGetProgramLogSize(program, &size));
  std::string log(size, 0);
  if (size > 0) RTC(hiprtcGetProgramLog(program, log.data()));
  return log;
}

static void errors() {
  hiprtcProgram program;
  RTC(hiprtcCreateProgram(&program, "__global__ void k() { undeclared = 1; }", "wrong.hip", 0, nullptr, nullptr));
  CHECK(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_ERROR_COMPILATION);
  CHECK(log_of(program).find("wrong.hip:1:23: error: use of undeclared identifier 'undeclared'") != std::string::npos);
  RTC(hiprtcDestroyProgram(&program));
  CHECK(hiprtcCreateProgram(nullptr, "", "", 0, nullptr, nullptr) == HIPRTC_ERROR_INVALID_INPUT);
  CHECK(hiprtcCompileProgram(program, 0, nullptr) == HIPRTC_ERROR_INVALID_PROGRAM);
  CHECK(std::strcmp(hiprtcGetErrorString(HIPRTC_ERROR_COMPILATION), "HIPRTC_ERROR_COMPILATION") == 0);
}

// Signals arrive while the compiler runs, for a program that handles them.
static void set_timer(long us) {
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  const itimerval interval = {{0, us}, {0, us}};
  CHECK(setitimer(ITIMER_REAL, &interval, nullptr) == 0);
}

int main() {
  const char *headers[] = {"#define FACTOR 3.0f\n"}, *names[] = {"factor.h"};
  hipDeviceProp_t properties;
  OK(hipGetDeviceProperties(&properties, 0));
  const std::string arch = std::string("--gpu-architecture=") + properties.gcnArchName;
  const char* options[] = {arch.c_str(), "-DTIMES=2", "-std=c++17"};
  hiprtcProgram program;
  RTC(hiprtcCreateProgram(&program, kSource, "scale.hip", 1, headers, names));
  RTC(hiprtcAddNameExpression(program, "shift<float>"));
  RTC(hiprtcAddNameExpression(program, "&offset"));
  set_timer(1000);
  if (hiprtcCompileProgram(program, 3, options) != HIPRTC_SUCCESS) std::printf("%s\n", log_of(program).c_str());
  set_timer(0);
  const char *shift_name, *offset_name;
  RTC(hiprtcGetLoweredName(program, "shift<float>", &shift_name));
  RTC(hiprtcGetLoweredName(program, "&offset", &offset_name));
  size_t size;
  RTC(hiprtcGetCodeSize(program, &size));
  std::vector<char> code(size);
  RTC(hiprtcGetCode(program, code.data()));

  hipModule_t module;
  hipFunction_t scale, shift;
  void* offset;
  OK(hipModuleLoadData(&module, code.data()));
  OK(hipModuleGetFunction(&scale, module, "scale"));
  OK(hipModuleGetFunction(&shift, module, shift_name));
  OK(hipModuleGetGlobal(&offset, &size, module, offset_name));
  CHECK(size == sizeof(int));
  float host[64], *x;
  for (int i = 0; i < 64; ++i) host[i] = i;
  OK(hipMalloc(&x, sizeof host));
  OK(hipMemcpy(x, host, sizeof host, hipMemcpyHostToDevice));
  int n = 60;
  void *scale_args[] = {&x, &n}, *shift_args[] = {&x};
  OK(hipModuleLaunchKernel(scale, 1, 1, 1, 64, 1, 1, 0, nullptr, scale_args, nullptr));
  OK(hipModuleLaunchKernel(shift, 1, 1, 1, 64, 1, 1, 0, nullptr, shift_args, nullptr));
  OK(hipMemcpy(host, x, sizeof host, hipMemcpyDeviceToHost));
  for (int i = 0; i < 64; ++i) CHECK(host[i] == (i < n ? 6.0f * i : i) + 7.0f);
  OK(hipModuleUnload(module));
  // A compilation that fails leaves nothing of the one before.
  const char* other_arch[] = {"--gpu-architecture=gfx906"};
  CHECK(hiprtcCompileProgram(program, 1, other_arch) == HIPRTC_ERROR_COMPILATION);
  CHECK(hiprtcGetLoweredName(program, "&offset", &offset_name) == HIPRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION);
  RTC(hiprtcGetCodeSize(program, &size));
  CHECK(size == 0);
  RTC(hiprtcDestroyProgram(&program));
  errors();
  std::printf("run-time compile ok\n");
  return 0;
}
