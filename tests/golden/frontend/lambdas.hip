// Lambdas on both sides, captures of every form, function pointers, local shadowing.
#include <hip/hip_runtime.h>
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <vector>

template <typename F>
__global__ void forEach(int n, F body) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) body(i);
}
__device__ int twice(int v) { return 2 * v; }
__device__ int thrice(int v) { return 3 * v; }
using Operation = int (*)(int);

__global__ void choose(int* out, int which) {
  Operation op = which ? twice : thrice;
  int n = 1;
  {
    int n = 2;
    out[1] += n;
    for (int n = 0; n < 3; ++n) out[2] += n;
  }
  auto addMany = [](auto... parts) { return (parts + ... + 0); };
  auto counter = [n, total = 0](int by) mutable { return total += by + n; };
  counter(1);
  out[0] = op(n) + addMany(1, 2, n) + counter(2);
}

struct Model {
  int bias;
  int run(std::vector<int>& v) {
    std::for_each(v.begin(), v.end(), [this, &v](int& e) { e += bias + static_cast<int>(v.size()); });
    auto copy = [*this](int n) { return bias + n; };
    return copy(1);
  }
};

int main() {
  const int n = 100;
  int *data = nullptr, *picks = nullptr, back[100], three[3] = {};
  if (hipMalloc(&data, sizeof(back)) != hipSuccess || hipMalloc(&picks, sizeof(three)) != hipSuccess) return 1;
  if (hipMemset(picks, 0, sizeof(three)) != hipSuccess) return 1;
  const int offset = 7;
  forEach<<<2, 64>>>(n, [=] __device__(int i) { data[i] = i * i + offset; });
  choose<<<1, 1>>>(picks, 1);
  if (hipMemcpy(back, data, sizeof(back), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  if (hipMemcpy(three, picks, sizeof(three), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  std::vector<int> v(back, back + n);
  int count = std::count_if(v.begin(), v.end(), [limit = 50](int value) { return value > limit; });
  int max = *std::max_element(v.begin(), v.end());
  long sum = std::accumulate(v.begin(), v.end(), 0L, [&](long acc, int e) { return acc + e % max; });
  Model model{3};
  printf("%d %d %ld %d %d %d %d\n", count, max, sum, model.run(v), three[0], three[1], three[2]);
  return 0;
}
