// All lanes of a wavefront stay in the loop over edges, so one vote of all claims their places in the queue; the compiler
// merges only the atomics of lanes that meet in a branch. Every vertex has the same degree, which saves the offsets.
//
// step: bfs 3 bfs_queue_aggregated, after bfs_queue
// paradigm: work queue
// bound: gfx90a l2, gfx942 atomics
// moves: TCP_TOTAL_CACHE_ACCESSES down, Duration down
// check: 2000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

__device__ int claim(int* counter, bool wanted) {  // called by all lanes that are in the loop together
  const unsigned long long voters = __ballot(wanted);
  const int lane = threadIdx.x % 64, leader = __ffsll(voters) - 1;
  int base = 0;
  if (lane == leader) base = atomicAdd(counter, __popcll(voters));
  if (voters == 0) return 0;
  return __shfl(base, leader) + __popcll(voters & ((1ull << lane) - 1));
}

__global__ void step(const int* edges, int degree, int* level, const int* queue, int length, int* next, int* next_length,
                     int current) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int v = i < length ? queue[i] : -1;
  for (int e = 0; e < degree; ++e) {  // every lane stays, so that the vote sees the whole wavefront
    const int to = v >= 0 ? edges[v * degree + e] : -1;
    const bool found = to >= 0 && level[to] < 0 && atomicCAS(&level[to], -1, current) == -1;
    const int at = claim(next_length, found);
    if (found) next[at] = to;
  }
}

struct Free {
  void operator()(int* p) const { (void)hipFree(p); }
};
using Buffer = std::unique_ptr<int, Free>;
static Buffer buffer(std::size_t count) {
  int* p = nullptr;
  if (hipMalloc(&p, count * sizeof(int)) != hipSuccess) std::exit(2);
  return Buffer(p);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18, degree = 4;
  std::vector<int> edges(n * degree), level(n), want(n, -1), frontier{0};
  unsigned x = 1;
  for (int& e : edges) e = (x = x * 1664525u + 1013904223u) % n;
  want[0] = 0;
  for (std::size_t i = 0; i < frontier.size(); ++i)
    for (int e = 0; e < degree; ++e) {
      const int to = edges[frontier[i] * degree + e];
      if (want[to] < 0) want[to] = want[frontier[i]] + 1, frontier.push_back(to);
    }
  Buffer d_edges = buffer(edges.size()), d_level = buffer(n), queue = buffer(n), next = buffer(n), length = buffer(1);
  (void)hipMemcpy(d_edges.get(), edges.data(), edges.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemset(d_level.get(), 0xff, n * 4);
  (void)hipMemset(d_level.get(), 0, 4);
  (void)hipMemset(queue.get(), 0, 4);
  for (int current = 1, size = 1; size > 0 && current < n; ++current) {
    (void)hipMemset(length.get(), 0, 4);
    step<<<(size + 255) / 256, 256>>>(d_edges.get(), degree, d_level.get(), queue.get(), size, next.get(), length.get(), current);
    (void)hipMemcpy(&size, length.get(), 4, hipMemcpyDeviceToHost);
    std::swap(queue, next);
  }
  (void)hipMemcpy(level.data(), d_level.get(), n * 4, hipMemcpyDeviceToHost);
  std::puts(level == want ? "PASS" : "FAIL");
  return level == want ? 0 : 1;
}
