// Attention of several heads as three launches: all scores Q Kt to memory, softmax of their rows, product with V. The matrix
// of scores is written once and read twice.
//
// step: attention 1 attention_three_launches
// paradigm: multi-pass
// bound: gfx90a vl1d, gfx942 vl1d
// check: 130 3
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kDim = 64;

__global__ void scores(const float* q, const float* k, float* s, int n) {
  const int key = blockIdx.x * blockDim.x + threadIdx.x, query = blockIdx.y, head = blockIdx.z * n;
  if (key >= n) return;
  float sum = 0;
  for (int d = 0; d < kDim; ++d) sum += q[(head + query) * kDim + d] * k[head * kDim + d * n + key];  // K is stored by dimension
  s[(head + query) * n + key] = sum * 0.125f;
}

__global__ void softmax(float* s, int n) {
  __shared__ float line[256];
  float* row = s + blockIdx.x * n;
  float m = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += 256) m = fmaxf(m, row[i]);
  line[threadIdx.x] = m;
  for (int d = 128; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) line[threadIdx.x] = fmaxf(line[threadIdx.x], line[threadIdx.x + d]);
  }
  __syncthreads();
  m = line[0];
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) sum += row[i] = __expf(row[i] - m);
  line[threadIdx.x] = sum;
  for (int d = 128; d > 0; d /= 2) {
    __syncthreads();
    if (threadIdx.x < d) line[threadIdx.x] += line[threadIdx.x + d];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += 256) row[i] /= line[0];
}

__global__ void weighted(const float* s, const float* v, float* out, int n) {
  const int query = blockIdx.x * blockDim.y + threadIdx.y, head = blockIdx.y * n;
  if (query >= n) return;
  float sum = 0;
  for (int key = 0; key < n; ++key) sum += s[(head + query) * n + key] * v[(head + key) * kDim + threadIdx.x];
  out[(head + query) * kDim + threadIdx.x] = sum;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 512, heads = argc > 2 ? std::atoi(argv[2]) : 16;
  const int count = heads * n * kDim;
  std::vector<float> q(count), k(count), v(count), out(count);
  for (int i = 0; i < count; ++i) q[i] = (i % 13) / 13.0f, k[i] = (i % 17) / 17.0f, v[i] = (i % 19) / 19.0f;
  float *dq, *dk, *dv, *ds, *dout;
  for (float** p : {&dq, &dk, &dv, &dout})
    if (hipMalloc(p, count * 4) != hipSuccess) return 1;
  if (hipMalloc(&ds, sizeof(float) * heads * n * n) != hipSuccess) return 1;
  (void)hipMemcpy(dq, q.data(), count * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(dk, k.data(), count * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(dv, v.data(), count * 4, hipMemcpyHostToDevice);
  scores<<<dim3((n + 255) / 256, n, heads), 256>>>(dq, dk, ds, n);
  softmax<<<heads * n, 256>>>(ds, n);
  weighted<<<dim3((n + 3) / 4, heads), dim3(kDim, 4)>>>(ds, dv, dout, n);
  (void)hipMemcpy(out.data(), dout, count * 4, hipMemcpyDeviceToHost);
  for (int s = 0; s < 60; ++s) {
    const int i = s * 37 % n, head = s % heads * n * kDim;
    std::vector<double> p(n);
    double sum = 0;
    for (int j = 0; j < n; ++j) {
      double dot = 0;
      for (int d = 0; d < kDim; ++d) dot += q[head + i * kDim + d] * k[head + d * n + j];
      sum += p[j] = std::exp(dot * 0.125);
    }
    for (int d = 0; d < kDim; d += 5) {
      double want = 0;
      for (int j = 0; j < n; ++j) want += p[j] / sum * v[head + j * kDim + d];
      if (std::fabs(want - out[head + i * kDim + d]) > 1e-4) return std::printf("FAIL: query %d\n", i), 1;
    }
  }
  std::printf("PASS\n");
  return 0;
}
