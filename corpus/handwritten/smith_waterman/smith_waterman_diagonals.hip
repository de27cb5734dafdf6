// Local alignment of two sequences, one launch per antidiagonal of the score matrix: cells on it depend only on the two
// diagonals before.
//
// step: smith_waterman 1 smith_waterman_diagonals
// paradigm: multi-pass
// bound: gfx90a launch, gfx942 launch
// check: 200
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int kMatch = 3, kMismatch = -1, kGap = 2;

// Diagonal d holds the cells (i, d - i); its arrays are indexed by i, from 0 for the border.
__global__ void diagonal(const char* a, const char* b, const int* before2, const int* before, int* now, int* best, int d, int n) {
  const int i = max(1, d - n) + blockIdx.x * blockDim.x + threadIdx.x, j = d - i;
  if (i > n || j < 1) return;
  const int match = before2[i - 1] + (a[i - 1] == b[j - 1] ? kMatch : kMismatch);
  const int score = max(max(0, match), max(before[i - 1], before[i]) - kGap);
  now[i] = score;
  best[i] = max(best[i], score);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<char> a(n), b(n);
  for (int i = 0; i < n; ++i) a[i] = "ACGT"[i * 7 % 11 % 4], b[i] = "ACGT"[i * 5 % 13 % 4];
  char *da, *db;
  int *lines[3], *dbest;
  if (hipMalloc(&da, n) != hipSuccess || hipMalloc(&db, n) != hipSuccess) return 1;
  for (int** p : {&lines[0], &lines[1], &lines[2], &dbest}) {
    if (hipMalloc(p, (n + 1) * 4) != hipSuccess) return 1;
    (void)hipMemset(*p, 0, (n + 1) * 4);
  }
  (void)hipMemcpy(da, a.data(), n, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b.data(), n, hipMemcpyHostToDevice);
  for (int d = 2; d <= 2 * n; ++d) {
    const int cells = std::min(n, d - 1) - std::max(1, d - n) + 1;
    // The border cell (d, 0) of the diagonal is zero: no earlier diagonal wrote that index of its array.
    diagonal<<<(cells + 255) / 256, 256>>>(da, db, lines[(d + 1) % 3], lines[(d + 2) % 3], lines[d % 3], dbest, d, n);
  }
  std::vector<int> best(n + 1), above(n + 1), row(n + 1);
  (void)hipMemcpy(best.data(), dbest, best.size() * 4, hipMemcpyDeviceToHost);
  int want = 0;
  for (int i = 1; i <= n; ++i, std::swap(above, row))
    for (int j = 1; j <= n; ++j) {
      row[j] = std::max({0, above[j - 1] + (a[i - 1] == b[j - 1] ? kMatch : kMismatch), above[j] - kGap, row[j - 1] - kGap});
      want = std::max(want, row[j]);
    }
  const int got = *std::max_element(best.begin(), best.end());
  std::printf("%s: score %d, expected %d\n", got == want ? "PASS" : "FAIL", got, want);
  return got == want ? EXIT_SUCCESS : EXIT_FAILURE;
}
