// The same prices with one array per member: all accesses are along neighbouring lanes.
//
// step: black_scholes 2 black_scholes_arrays, after black_scholes_structs
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// moves: TCP_TOTAL_CACHE_ACCESSES down, FETCH_SIZE down
// check: 3000
#include <hip/hip_runtime.h>
#include <thrust/device_vector.h>
#include <thrust/host_vector.h>

#include <cmath>
#include <cstdlib>
#include <iostream>

template <typename T>
__host__ __device__ void black_scholes(T S, T K, T t, T r, T v, T& call, T& put) {
  const T width = v * sqrt(t), d1 = (log(S / K) + (r + v * v / 2) * t) / width, d2 = d1 - width;
  const T half = T(0.5), root = T(0.70710678118654752), present = K * exp(-r * t);
  call = S * half * erfc(-d1 * root) - present * half * erfc(-d2 * root);
  put = call + present - S;
}

__global__ void price_all(const float* S, const float* K, const float* t, float* call, float* put, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) black_scholes<float>(S[i], K[i], t[i], 0.02f, 0.3f, call[i], put[i]);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? atoi(argv[1]) : 1 << 22;
  thrust::host_vector<float> S(n), K(n), t(n);
  for (int i = 0; i < n; ++i) {
    S[i] = 80.0f + i % 41;
    K[i] = 70.0f + i % 59;
    t[i] = 0.25f * (1 + i % 8);
  }
  thrust::device_vector<float> dS = S, dK = K, dt = t, dcall(n), dput(n);
  auto raw = [](auto& v) { return thrust::raw_pointer_cast(v.data()); };
  price_all<<<(n + 255) / 256, 256>>>(raw(dS), raw(dK), raw(dt), raw(dcall), raw(dput), n);
  thrust::host_vector<float> call = dcall, put = dput;
  for (int i = 0; i < n; i += 1 + n / 4096) {
    double c, p;
    black_scholes<double>(S[i], K[i], t[i], 0.02, 0.3, c, p);
    if (std::abs(c - call[i]) > 1e-3 || std::abs(p - put[i]) > 1e-3) {
      std::cout << "FAIL at " << i << ": " << call[i] << " " << c << "\n";
      return EXIT_FAILURE;
    }
  }
  std::cout << "PASS\n";
  return EXIT_SUCCESS;
}
