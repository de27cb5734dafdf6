// Runs before thrust's own configuration: HIP first (as rocThrust does), then the sequential C++ device system, whose
// algorithms run on the host over memory that kernels can reach (see system/detail/sequential/malloc_and_free.h).
#ifndef HIPSYNTH_THRUST_CONFIG_H
#define HIPSYNTH_THRUST_CONFIG_H

#include <hip/hip_runtime.h>

#ifndef THRUST_DEVICE_SYSTEM
#define THRUST_DEVICE_SYSTEM THRUST_DEVICE_SYSTEM_CPP
#endif

#endif  // HIPSYNTH_THRUST_CONFIG_H

#include_next <thrust/detail/config.h>
