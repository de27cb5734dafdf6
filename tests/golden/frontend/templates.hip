// Templates: dependent members, specialisations, packs, aliases, deduction guides, concepts of one's own.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <type_traits>

template <typename T, int Rows, int Cols = Rows>
struct Matrix {
  using Scalar = T;
  static constexpr int kRows = Rows, kCols = Cols;
  T cells[Rows * Cols];
  __host__ __device__ T& at(int r, int c) { return cells[r * Cols + c]; }
  __host__ __device__ const T& at(int r, int c) const;
  template <typename Other>
  __host__ __device__ auto plus(const Matrix<Other, Rows, Cols>& other) const {
    Matrix<decltype(T() + Other()), Rows, Cols> sum{};
    for (int k = 0; k < Rows * Cols; ++k) sum.cells[k] = cells[k] + other.cells[k];
    return sum;
  }
};
template <typename T, int Rows, int Cols>
__host__ __device__ const T& Matrix<T, Rows, Cols>::at(int r, int c) const {
  return this->cells[r * Cols + c];
}

template <typename T>
struct Traits {
  static constexpr int weight = 1;
};
template <>
struct Traits<float> {
  static constexpr int weight = 2;
};
template <typename T>
struct Traits<T*> {
  static constexpr int weight = 10 + Traits<T>::weight;
};

template <typename T>
struct Holder {
  T held;
  __host__ __device__ explicit Holder(T initial) : held(initial) {}
  template <typename U>
  __host__ __device__ Holder(U a, U b) : held(static_cast<T>(a * b)) {}
};
template <typename T>
Holder(T) -> Holder<T>;

template <typename Base>
struct Mixin : Base {
  __host__ __device__ int doubled() const { return 2 * this->inner() + Base::bonus; }
};
struct Core {
  int bonus = 5;
  __host__ __device__ int inner() const { return 21; }
};

template <typename M>
__host__ __device__ typename M::Scalar trace(const M& m) {
  typename M::Scalar total{};
  for (int k = 0; k < M::kRows; ++k) total += m.at(k, k);
  return total;
}
template <typename Head, typename... Tail>
__host__ __device__ int countAll(Head head, Tail... tail) {
  if constexpr (sizeof...(tail) > 0) return static_cast<int>(head) + countAll(tail...);
  return static_cast<int>(head);
}
template <typename T>
__host__ __device__ std::enable_if_t<std::is_integral<T>::value, int> kindOf(T) { return 1; }
template <typename T>
__host__ __device__ std::enable_if_t<!std::is_integral<T>::value, int> kindOf(T) { return 2; }
template <template <typename> class Box, typename T>
__host__ __device__ T unbox(Box<T> box) { return box.held; }
template <typename T>
using Pair = Matrix<T, 1, 2>;
template <typename T>
constexpr T kScale = T(3);

template <typename T, int N>
__global__ void evaluate(T* results, const Matrix<T, N>* input) {
  Matrix<T, N> local = *input;
  auto both = local.plus(Matrix<int, N>{});
  Pair<T> pair{};
  pair.at(0, 1) = kScale<T>;
  Holder held(T(4));
  Mixin<Core> mixed;
  results[0] = trace(both) + pair.cells[1];
  results[1] = Traits<T*>::weight + countAll(1, 2.5f, 'a') + kindOf(T()) + kindOf(1);
  results[2] = unbox(held) + mixed.doubled() + Holder<int>(2, 3).held;
}

int main() {
  Matrix<float, 3> host{};
  for (int k = 0; k < 9; ++k) host.cells[k] = k;
  Matrix<float, 3>* input = nullptr;
  float *results = nullptr, back[3];
  if (hipMalloc(&input, sizeof(host)) != hipSuccess || hipMalloc(&results, sizeof(back)) != hipSuccess) return 1;
  if (hipMemcpy(input, &host, sizeof(host), hipMemcpyHostToDevice) != hipSuccess) return 1;
  evaluate<float, 3><<<1, 1>>>(results, input);
  if (hipMemcpy(back, results, sizeof(back), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  printf("%.1f %.1f %.1f\n", back[0], back[1], back[2]);
  return 0;
}
