// Classes: constructors, destructors, operators, friends, virtual functions, local classes, unions, bit fields, protocols.
#include <hip/hip_runtime.h>
#include <cstdio>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <vector>

class Shape {
 public:
  explicit Shape(int sides) : sides_(sides) { ++alive; }
  virtual ~Shape() { --alive; }
  virtual double area() const = 0;
  int sides() const { return sides_; }
  static int alive;

 protected:
  int sides_;
};
int Shape::alive = 0;

class Square final : public Shape {
 public:
  using Shape::Shape;
  Square() : Shape(4), edge(2.0) {}
  double area() const override { return edge * edge; }
  double edge = 1.0;
};

struct Complex {
  float re, im;
  __host__ __device__ Complex(float re = 0, float im = 0) : re(re), im(im) {}
  __host__ __device__ Complex operator*(const Complex& that) const {
    return {re * that.re - im * that.im, re * that.im + im * that.re};
  }
  __host__ __device__ Complex& operator+=(Complex that) {
    re += that.re, im += that.im;
    return *this;
  }
  __host__ __device__ float operator[](int part) const { return part ? im : re; }
  __host__ __device__ explicit operator float() const { return re; }
  friend __host__ __device__ Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend struct Inspector;

 private:
  int secret = 7;
};
struct Inspector {
  __host__ __device__ static int look(const Complex& c) { return c.secret; }
};
__host__ __device__ constexpr long double operator""_deg(long double d) { return d * 0.0174532925199L; }

union Bits {
  float asFloat;
  unsigned asWord;
  struct {
    unsigned low : 16, high : 16;
  } parts;
};
struct Key {
  int major_, minor_;
  bool operator==(const Key& k) const { return major_ == k.major_ && minor_ == k.minor_; }
};
template <>
struct std::hash<Key> {
  size_t operator()(const Key& k) const { return k.major_ * 31 + k.minor_; }
};
struct Countdown {
  int start;
  struct Step {
    int now;
    int operator*() const { return now; }
    Step& operator++() { --now; return *this; }
    bool operator!=(const Step& other) const { return now != other.now; }
  };
  Step begin() const { return {start}; }
  Step end() const { return {0}; }
};
struct Printer : std::vector<int> {
  void size_twice() { printf("%d\n", static_cast<int>(2 * size())); }
};

__global__ void multiply(Complex* values, int count) {
  struct Squarer {
    Complex base;
    __device__ Complex operator()() const { return base * base; }
  };
  const int index = threadIdx.x;
  Bits bits;
  bits.asFloat = values[index].re;
  if (index < count) {
    values[index] += Squarer{values[index]}() - Complex(0.5f);
    values[index].im += bits.parts.high & 1u;
    values[index].re += Inspector::look(values[index]) + values[index][1];
  }
}

int main() {
  Complex host[4] = {{1, 2}, {3, 4}, Complex(5), {}};
  Complex* device = nullptr;
  if (hipMalloc(&device, sizeof(host)) != hipSuccess) return 1;
  if (hipMemcpy(device, host, sizeof(host), hipMemcpyHostToDevice) != hipSuccess) return 1;
  multiply<<<1, 64>>>(device, 4);
  if (hipMemcpy(host, device, sizeof(host), hipMemcpyDeviceToHost) != hipSuccess) return 1;
  if (const auto [re, im, hidden] = std::make_tuple(host[0].re, host[0].im, 1); hidden) printf("%.1f %.1f %d\n", re, im, hidden);
  Square square;
  Shape& shape = square;
  std::unordered_map<Key, int> table{{{1, 2}, 3}};
  int sum = 0;
  for (int now : Countdown{3}) sum += now;
  Printer printer;
  printer.push_back(1);
  printer.size_twice();
  printf("%.1f %d %d %d %d %.3f\n", shape.area(), shape.sides(), Shape::alive, table[Key{1, 2}], sum, double(90.0_deg));
  return 0;
}
