// Launches over diagonals of 64 x 64 tiles instead of cells: inside a tile a wavefront sweeps 127 diagonals with the
// neighbours' scores from the next lane by a shuffle; only the borders of tiles reach memory.
//
// step: smith_waterman 2 smith_waterman_tiles, after smith_waterman_diagonals
// paradigm: per-wave
// bound: gfx90a latency, gfx942 latency
// moves: TCC_REQ down, Duration down
// check: 256
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

constexpr int kTile = 64, kMatch = 3, kMismatch = -1, kGap = 2;

// `bottom` holds the last row computed in every column, `right` the last column in every row, `corner` the bottom right
// cell of each tile. Lane l computes row l of the tile.
__global__ __launch_bounds__(64) void tile_diagonal(const char* a, const char* b, int* bottom, int* right, int* corner,
                                                    int* best, int d, int first, int tiles) {
  const int ti = first + blockIdx.x, tj = d - ti, lane = threadIdx.x;
  const int row = ti * kTile + lane, col0 = tj * kTile;
  const char mine = a[row];
  int left = tj ? right[row] : 0;  // the cell to the left
  int up_left = lane == 0 ? (ti && tj ? corner[(ti - 1) * tiles + tj - 1] : 0) : __shfl_up(left, 1);
  if (lane > 0) up_left = tj ? right[row - 1] : 0;
  int largest = 0, score = 0;
  for (int step = 0; step < 2 * kTile - 1; ++step) {
    const int j = step - lane;
    int up = __shfl_up(score, 1);  // what the row above computed one step ago
    if (j >= 0 && j < kTile) {
      if (lane == 0) up = ti ? bottom[col0 + j] : 0;
      score = max(max(0, up_left + (mine == b[col0 + j] ? kMatch : kMismatch)), max(up, left) - kGap);
      up_left = up;
      left = score;
      largest = max(largest, score);
      if (lane == kTile - 1) bottom[col0 + j] = score;
    }
  }
  right[row] = score;
  if (lane == kTile - 1) corner[ti * tiles + tj] = score;
  best[row] = max(best[row], largest);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096, tiles = n / kTile;  // a multiple of 64
  std::string a(n, ' '), b(n, ' ');
  for (int i = 0; i < n; ++i) {
    a[i] = "ACGT"[i * 7 % 11 % 4];
    b[i] = "ACGT"[i * 5 % 13 % 4];
  }
  char *da, *db;
  int *bottom, *right, *corner, *d_best;
  bool ok = hipMalloc(&da, n) == hipSuccess && hipMalloc(&db, n) == hipSuccess && hipMalloc(&bottom, n * 4) == hipSuccess;
  ok = ok && hipMalloc(&right, n * 4) == hipSuccess && hipMalloc(&d_best, n * 4) == hipSuccess;
  ok = ok && hipMalloc(&corner, tiles * tiles * 4) == hipSuccess && hipMemset(d_best, 0, n * 4) == hipSuccess;
  if (!ok) return EXIT_FAILURE;
  (void)hipMemcpy(da, a.data(), n, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b.data(), n, hipMemcpyHostToDevice);
  for (int d = 0; d < 2 * tiles - 1; ++d) {
    const int first = std::max(0, d - tiles + 1), last = std::min(d, tiles - 1);
    tile_diagonal<<<last - first + 1, 64>>>(da, db, bottom, right, corner, d_best, d, first, tiles);
  }
  std::vector<int> best(n);
  (void)hipMemcpy(best.data(), d_best, n * 4, hipMemcpyDeviceToHost);
  std::vector<int> above(n + 1), row(n + 1);
  for (int i = 0; i < n; ++i, std::swap(above, row)) {
    int want = 0;
    for (int j = 1; j <= n; ++j) {
      const int diagonal = above[j - 1] + (a[i] == b[j - 1] ? kMatch : kMismatch);
      row[j] = std::max({0, diagonal, above[j] - kGap, row[j - 1] - kGap});
      want = std::max(want, row[j]);
    }
    ok = ok && best[i] == want;
  }
  std::cout << (ok ? "PASS" : "FAIL") << ", best score " << *std::max_element(best.begin(), best.end()) << std::endl;
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
