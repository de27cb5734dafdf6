// Shared by the programs beside it: a check that fails prints its line and ends the program with 1.
#pragma once
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      std::printf("line %d: %s\n", __LINE__, #condition);     \
      std::exit(1);                                           \
    }                                                         \
  } while (0)

#define OK(call)                                                                              \
  do {                                                                                        \
    hipError_t error_ = (call);                                                               \
    if (error_ != hipSuccess) {                                                               \
      std::printf("line %d: %s: %s\n", __LINE__, #call, hipGetErrorName(error_));             \
      std::exit(1);                                                                           \
    }                                                                                         \
  } while (0)

#define FAILS(call, expected)                                                                                    \
  do {                                                                                                           \
    hipError_t error_ = (call);                                                                                  \
    if (error_ != (expected)) {                                                                                  \
      std::printf("line %d: %s: %s instead of %s\n", __LINE__, #call, hipGetErrorName(error_), #expected);       \
      std::exit(1);                                                                                              \
    }                                                                                                            \
  } while (0)
