// 32 cells per word: a full adder in logic operations counts the neighbours of all 32 at once, so bytes shrink to an
// eighth and instructions per cell to a few percent.
//
// step: life 2 life_bits, after life_bytes
// paradigm: per-thread
// bound: gfx90a dispatch, gfx942 dispatch
// moves: FETCH_SIZE down, SQ_INSTS down, Duration down
// check: 256
#include <hip/hip_runtime.h>

#include <cstdlib>
#include <iostream>
#include <vector>

struct Sums {  // two-bit number per cell
  unsigned ones, twos;
};

// Left + middle + right of a row of cells, 32 at a time.
__device__ Sums row_sum(const unsigned* row, int word, int words) {
  const unsigned m = row[word], before = row[(word + words - 1) % words], after = row[(word + 1) % words];
  const unsigned l = m << 1 | before >> 31, r = m >> 1 | after << 31, x = l ^ r;
  return {x ^ m, (l & r) | (x & m)};
}

__global__ void generation(const unsigned* now, unsigned* next, int words, int rows) {
  const int word = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
  if (word >= words) return;
  const unsigned alive = now[y * words + word];
  const Sums a = row_sum(now + (y + rows - 1) % rows * words, word, words), b = row_sum(now + y * words, word, words),
             c = row_sum(now + (y + 1) % rows * words, word, words);
  const unsigned ones = a.ones ^ b.ones ^ c.ones, carry = (a.ones & b.ones) | (c.ones & (a.ones ^ b.ones));
  // The sum of all nine is ones + 2 (carry + three twos): 3 keeps or gives life, 4 keeps it.
  const unsigned x = a.twos ^ b.twos ^ c.twos ^ carry;
  const unsigned pairs = (a.twos & b.twos) | (c.twos & carry) | ((a.twos ^ b.twos) & (c.twos ^ carry));
  const unsigned all = a.twos & b.twos & c.twos & carry;
  const unsigned three = ones & x & ~pairs, four = ~ones & ~x & pairs & ~all;
  next[y * words + word] = three | (alive & four);
}

int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096, words = n / 32;
  std::vector<unsigned> now(words * n), next(words * n);
  unsigned s = 7;
  for (auto& w : now) w = (s = s * 1664525u + 1013904223u) & (s >> 7 ^ s << 9);
  unsigned *a = nullptr, *b = nullptr;
  if (hipMalloc(&a, now.size() * 4) != hipSuccess || hipMalloc(&b, now.size() * 4) != hipSuccess) return EXIT_FAILURE;
  (void)hipMemcpy(a, now.data(), now.size() * 4, hipMemcpyHostToDevice);
  generation<<<dim3((words + 63) / 64, n), 64>>>(a, b, words, n);
  (void)hipMemcpy(next.data(), b, next.size() * 4, hipMemcpyDeviceToHost);
  auto cell = [&](const std::vector<unsigned>& v, int x, int y) {
    return v[(y + n) % n * words + (x + n) % n / 32] >> ((x + n) % n % 32) & 1;
  };
  for (int y = 0; y < n; y += 9) {
    for (int x = 0; x < n; ++x) {
      unsigned around = 0;
      for (int k = 0; k < 9; ++k) around += k == 4 ? 0 : cell(now, x + k % 3 - 1, y + k / 3 - 1);
      const bool lives = around == 3 || (around == 2 && cell(now, x, y));
      if (lives != static_cast<bool>(cell(next, x, y))) {
        std::cout << "FAIL at " << x << ", " << y << "\n";
        return EXIT_FAILURE;
      }
    }
  }
  std::cout << "PASS\n";
  return EXIT_SUCCESS;
}
