// Four bodies per work-item: each LDS read now serves four interactions. At this size
// it leaves most SIMDs without a wavefront and takes longer; it pays from some hundred thousand bodies on.
//
// step: nbody 3 nbody_four_bodies, after nbody_lds_rsqrt
// paradigm: per-tile
// bound: gfx90a valu, gfx942 valu
// moves: SQ_INSTS_LDS down, SQ_WAVES down, Duration up
// check: 512
#include <hip/hip_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define OWN 4
#define GROUP 64

__global__ __launch_bounds__(GROUP) void forces(const float4* __restrict__ bodies, float4* __restrict__ force, int n) {
  __shared__ float4 tile[GROUP];
  const int base = blockIdx.x * GROUP * OWN + threadIdx.x;
  float4 me[OWN];
  float fx[OWN] = {}, fy[OWN] = {}, fz[OWN] = {};
  for (int b = 0; b < OWN; b++) me[b] = bodies[base + b * GROUP];
  for (int first = 0; first < n; first += GROUP) {
    __syncthreads();
    tile[threadIdx.x] = bodies[first + threadIdx.x];
    __syncthreads();
    for (int j = 0; j < GROUP; j++) {
      const float4 o = tile[j];
#pragma unroll
      for (int b = 0; b < OWN; b++) {
        const float dx = o.x - me[b].x, dy = o.y - me[b].y, dz = o.z - me[b].z;
        const float r = __frsqrt_rn(fmaf(dx, dx, fmaf(dy, dy, fmaf(dz, dz, 0.01f)))), s = o.w * r * r * r;
        fx[b] = fmaf(s, dx, fx[b]);
        fy[b] = fmaf(s, dy, fy[b]);
        fz[b] = fmaf(s, dz, fz[b]);
      }
    }
  }
  for (int b = 0; b < OWN; b++) force[base + b * GROUP] = make_float4(fx[b], fy[b], fz[b], 0.f);
}

int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 16384;  // a multiple of 256
  std::vector<float4> h(n), f(n);
  srand(42);
  for (auto& b : h) b = make_float4(rand() % 1000 * 1e-3f, rand() % 1000 * 1e-3f, rand() % 1000 * 1e-3f, 1.0f / n);
  float4 *db, *df;
  if (hipMalloc(&db, n * sizeof *db) != hipSuccess || hipMalloc(&df, n * sizeof *df) != hipSuccess) return 1;
  if (hipMemcpy(db, h.data(), n * sizeof *db, hipMemcpyHostToDevice) != hipSuccess) return 1;
  forces<<<n / (GROUP * OWN), GROUP>>>(db, df, n);
  if (hipMemcpy(f.data(), df, n * sizeof *df, hipMemcpyDeviceToHost) != hipSuccess) return 1;
  double worst = 0;
  for (int i = 0; i < n; i += n / 40) {
    double z = 0;
    for (auto& b : h) {
      double dx = b.x - h[i].x, dy = b.y - h[i].y, dz = b.z - h[i].z;
      z += b.w * dz / pow(dx * dx + dy * dy + dz * dz + 0.01, 1.5);
    }
    worst = fmax(worst, fabs(z - f[i].z));
  }
  printf("%s, largest error %g\n", worst < 1e-3 ? "PASS" : "FAIL", worst);
  (void)hipFree(db);
  (void)hipFree(df);
  return worst < 1e-3 ? EXIT_SUCCESS : EXIT_FAILURE;
}
