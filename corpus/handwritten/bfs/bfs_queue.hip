// Each level appends the vertices that it reaches to a queue, and the next level looks at those alone. One atomic per
// found vertex claims its place.
//
// step: bfs 2 bfs_queue, after bfs_all_vertices
// paradigm: work queue
// bound: gfx90a l2, gfx942 latency
// moves: SQ_WAVES down, TCC_ATOMIC up
// check: 2000
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <utility>
#include <vector>

#define CHK(e)                                                                            \
  do {                                                                                    \
    if (hipError_t err = (e); err != hipSuccess) {                                        \
      std::cerr << "line " << __LINE__ << ": " << hipGetErrorString(err) << std::endl;    \
      std::exit(EXIT_FAILURE);                                                            \
    }                                                                                     \
  } while (0)

__global__ void next_level(const int* offsets, const int* targets, int* depth, const int* now, int count, int* next,
                           int* next_count, int d) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int v = now[i];
  for (int e = offsets[v]; e < offsets[v + 1]; e++) {
    const int w = targets[e];
    if (depth[w] == -1 && atomicCAS(&depth[w], -1, d) == -1) next[atomicAdd(next_count, 1)] = w;
  }
}

struct Graph {
  std::vector<int> offsets, targets;
  explicit Graph(int n) : offsets{0} {
    unsigned x = 1;
    for (int v = 0; v < n; v++) {
      for (int e = 0; e < 4; e++) targets.push_back((x = x * 1664525u + 1013904223u) % n);
      offsets.push_back(targets.size());
    }
  }
};

std::vector<int> reference(const Graph& g, int n) {
  std::vector<int> depth(n, -1), frontier{0};
  depth[0] = 0;
  for (int d = 1; !frontier.empty(); d++) {
    std::vector<int> next;
    for (int v : frontier)
      for (int e = g.offsets[v]; e < g.offsets[v + 1]; e++)
        if (depth[g.targets[e]] == -1) depth[g.targets[e]] = d, next.push_back(g.targets[e]);
    frontier = std::move(next);
  }
  return depth;
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18;
  const Graph g(n);
  int *offsets, *targets, *depth, *now, *next, *counter;
  CHK(hipMalloc(&offsets, g.offsets.size() * sizeof(int)));
  CHK(hipMalloc(&targets, g.targets.size() * sizeof(int)));
  for (int** p : {&depth, &now, &next}) CHK(hipMalloc(p, n * sizeof(int)));
  CHK(hipMalloc(&counter, sizeof(int)));
  CHK(hipMemcpy(offsets, g.offsets.data(), g.offsets.size() * sizeof(int), hipMemcpyHostToDevice));
  CHK(hipMemcpy(targets, g.targets.data(), g.targets.size() * sizeof(int), hipMemcpyHostToDevice));
  CHK(hipMemset(depth, 0xff, n * sizeof(int)));
  CHK(hipMemset(depth, 0, sizeof(int)));
  CHK(hipMemset(now, 0, sizeof(int)));
  int count = 1;
  for (int d = 1; count > 0 && d < n; d++) {
    CHK(hipMemset(counter, 0, sizeof(int)));
    next_level<<<(count + 255) / 256, 256>>>(offsets, targets, depth, now, count, next, counter, d);
    CHK(hipMemcpy(&count, counter, sizeof(int), hipMemcpyDeviceToHost));
    std::swap(now, next);
  }
  std::vector<int> got(n);
  CHK(hipMemcpy(got.data(), depth, n * sizeof(int), hipMemcpyDeviceToHost));
  const bool ok = got == reference(g, n);
  std::cout << (ok ? "PASS" : "FAIL") << std::endl;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
