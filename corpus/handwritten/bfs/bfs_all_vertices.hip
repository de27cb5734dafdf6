// Breadth-first search where every level looks at all vertices for those of the last level: simple, and most of the reads
// find nothing to do.
//
// step: bfs 1 bfs_all_vertices
// paradigm: per-thread
// bound: gfx90a l2, gfx942 launch
// check: 2000
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <queue>
#include <vector>

__global__ void expand(const int* start, const int* edges, int* level, int current, int* changed, int n) {
  const int v = blockIdx.x * blockDim.x + threadIdx.x;
  if (v >= n || level[v] != current) return;
  for (int e = start[v]; e < start[v + 1]; ++e) {
    if (level[edges[e]] < 0) {
      level[edges[e]] = current + 1;  // several may write, all the same
      *changed = 1;
    }
  }
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 1 << 18, degree = 4;
  std::vector<int> start(n + 1), edges(n * degree), level(n, -1), want(n, -1);
  unsigned random = 1;
  for (int v = 0; v <= n; ++v) start[v] = v * degree;
  for (int& e : edges) e = (random = random * 1664525u + 1013904223u) % n;
  want[0] = level[0] = 0;
  std::queue<int> todo({0});
  for (; !todo.empty(); todo.pop())
    for (int e = start[todo.front()]; e < start[todo.front() + 1]; ++e)
      if (want[edges[e]] < 0) want[edges[e]] = want[todo.front()] + 1, todo.push(edges[e]);
  int *ds, *de, *dl, *dc;
  if (hipMalloc(&ds, start.size() * 4) || hipMalloc(&de, edges.size() * 4) || hipMalloc(&dl, n * 4) || hipMalloc(&dc, 4))
    return 1;
  (void)hipMemcpy(ds, start.data(), start.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(de, edges.data(), edges.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(dl, level.data(), n * 4, hipMemcpyHostToDevice);
  for (int current = 0, changed = 1; changed && current < n; ++current) {
    (void)hipMemset(dc, 0, 4);
    expand<<<(n + 255) / 256, 256>>>(ds, de, dl, current, dc, n);
    (void)hipMemcpy(&changed, dc, 4, hipMemcpyDeviceToHost);
  }
  (void)hipMemcpy(level.data(), dl, n * 4, hipMemcpyDeviceToHost);
  std::printf("%s\n", level == want ? "PASS" : "FAIL");
  return level == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
