// Many short pairs instead of one long one, as in read mapping: a work-item aligns a pair of 64 letters by itself with the
// previous row of scores in LDS, and the only parallelism needed is that of the pairs.
//
// step: smith_waterman 3 smith_waterman_batch, after smith_waterman_tiles
// paradigm: per-thread
// bound: gfx90a valu, gfx942 valu
// moves: Duration down
// check: 256
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define LENGTH 64
#define GROUP 64

// Letters are two bits each, sixteen to a word; pairs are interleaved so that lanes read neighbouring words.
__global__ __launch_bounds__(GROUP) void align(const unsigned* a, const unsigned* b, int* best, int pairs) {
  __shared__ short row[LENGTH][GROUP];
  const int pair = blockIdx.x * GROUP + threadIdx.x;
  if (pair >= pairs) return;
  for (int j = 0; j < LENGTH; ++j) row[j][threadIdx.x] = 0;
  unsigned wb[LENGTH / 16];
  for (int w = 0; w < LENGTH / 16; ++w) wb[w] = b[w * pairs + pair];
  int largest = 0;
  for (int i = 0; i < LENGTH; ++i) {
    const unsigned letter = a[i / 16 * pairs + pair] >> (i % 16 * 2) & 3;
    int up_left = 0, left = 0;
#pragma unroll
    for (int j = 0; j < LENGTH; ++j) {
      const int up = row[j][threadIdx.x];
      const int match = up_left + (letter == (wb[j / 16] >> (j % 16 * 2) & 3) ? 3 : -1);
      left = max(max(0, match), max(up, left) - 2);
      row[j][threadIdx.x] = static_cast<short>(left);
      up_left = up;
      largest = max(largest, left);
    }
  }
  best[pair] = largest;
}

static int reference(const std::vector<unsigned>& a, const std::vector<unsigned>& b, int pairs, int pair) {
  auto letter = [&](const std::vector<unsigned>& s, int i) { return s[i / 16 * pairs + pair] >> (i % 16 * 2) & 3; };
  int row[LENGTH + 1] = {}, best = 0;
  for (int i = 0; i < LENGTH; i++) {
    int up_left = 0;
    for (int j = 1; j <= LENGTH; j++) {
      int up = row[j];
      row[j] = std::max({0, up_left + (letter(a, i) == letter(b, j - 1) ? 3 : -1), up - 2, row[j - 1] - 2});
      up_left = up;
      best = std::max(best, row[j]);
    }
  }
  return best;
}

int main(int argc, char** argv) {
  int pairs = argc > 1 ? atoi(argv[1]) : 1 << 16;
  std::vector<unsigned> a(pairs * LENGTH / 16), b(a.size());
  std::vector<int> best(pairs);
  unsigned s = 17;
  for (size_t i = 0; i < a.size(); i++) {
    s = s * 1103515245u + 12345u;
    a[i] = s ^ s >> 15;
    b[i] = a[i] ^ (i % 3 ? 1u << (i % 32) : s);
  }
  unsigned *da, *db;
  int* dbest;
  if (hipMalloc(&da, a.size() * 4) || hipMalloc(&db, b.size() * 4) || hipMalloc(&dbest, pairs * 4)) return 1;
  (void)hipMemcpy(da, a.data(), a.size() * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(db, b.data(), b.size() * 4, hipMemcpyHostToDevice);
  align<<<(pairs + GROUP - 1) / GROUP, GROUP>>>(da, db, dbest, pairs);
  (void)hipMemcpy(best.data(), dbest, pairs * 4, hipMemcpyDeviceToHost);
  for (int p = 0; p < pairs; p += 1 + pairs / 500) {
    if (best[p] != reference(a, b, pairs, p)) {
      printf("FAIL: pair %d scores %d instead of %d\n", p, best[p], reference(a, b, pairs, p));
      return EXIT_FAILURE;
    }
  }
  printf("PASS\n");
  return EXIT_SUCCESS;
}
