#include <hip/hip_runtime.h>
#include <cstdio>
#include <vector>
#include <map>
#include <algorithm>
#define N 1024
#define CHECK(call) do { hipError_t err_ = (call); if (err_ != hipSuccess) { printf("%s failed %s\n", #call, hipGetErrorString(err_)); } } while (0)
#define CAT(a, b) a##b
#define LAUNCH(kern, ...) hipLaunchKernelGGL(kern, dim3(4), dim3(64), 0, 0, __VA_ARGS__)
#define FIELD(s) (s).weight + bias_total
namespace app { namespace detail { struct Point { float weight; int count; __host__ __device__ Point(float w) : weight(w), count{0} {} ~Point() {} 
  __host__ __device__ float get() const { return this->weight * count; } 
  __device__ Point& operator+=(const Point& o) { weight += o.weight; return *this; } friend bool operator==(const Point& p, const Point& q) { return p.weight == q.weight; } }; }
using detail::Point; using real = float; typedef unsigned int uint_t; }
enum class Color : int { Red, Green = 2 }; enum Old { OLD_A, OLD_B };
template <typename T, int BLOCK, class... Rest> struct Accum { T value; T data[BLOCK]; using value_type = T; static constexpr int size = BLOCK; 
   __device__ T sum(const Accum& other) const { T s = other.value; for (int i = 0; i < BLOCK; ++i) s += data[i] + this->value; return s; } };
template <class A> __device__ typename A::value_type read_it(A& acc, A* ap) { return acc.value + ap->value + A::size + acc.sum(acc); }
template <class... Ts> __host__ __device__ int how_many(Ts... ts) { return sizeof...(Ts) + sizeof...(ts) + (0 + ... + int(ts)); }
struct Cfg { int width, height; float4 vec; };
__constant__ float coef[16];
__device__ int bias_total;
extern "C" __global__ void kern_c(float* out, int n) { extern __shared__ float tile[]; int x = threadIdx.x; __shared__ int y; y = 1; tile[x] = y; __syncthreads();
  if (x < n) out[x] = tile[x] + coef[x & 15]; 
  float4 v = make_float4(1, 2, 3, 4); v.x += x; out[x] += v.x;
  Accum<float, 4> acc{}; out[x] += read_it(acc, &acc);
  auto lam = [&, z = x + 1](int q) mutable { return q + z + x; }; out[x] += lam(3);
  auto gen = [=](auto g) { return g + n; }; out[x] += gen(2);
  switch (n) { case N: out[0] = 1; break; case static_cast<int>(Color::Green): goto done; default: break; }
done: return; }
template <typename T> __global__ void kern_t(T* p, int count, Cfg cfg) { int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < count) p[i] = T(cfg.width) * cfg.vec.x; 
#ifdef __HIP_DEVICE_COMPILE__
  p[0] += bias_total;
#endif
}
int CAT(foo, bar)(int arg) { return arg; }
static int counter() { static int calls = 0; return ++calls; }
int main(int argc, char** argv) {
  float* buf; CHECK(hipMalloc(&buf, N * sizeof(float)));
  Cfg c = {.width = 3, .height = 4}; std::vector<int> v(3); int count = std::count(v.begin(), v.end(), 0);
  std::map<int, int> m; for (auto& [key, val] : m) count += key + val;
  auto [aa, bb] = std::pair<int, int>(1, 2); count += aa + bb;
  kern_t<float><<<dim3(4), 64>>>(buf, count, c); LAUNCH(kern_c, buf, 3); hipLaunchKernelGGL((kern_t<float>), dim3(1), dim3(1), 0, 0, buf, argc, c);
  app::Point pt(3.0f); app::detail::Point pt2{1.f}; count += FIELD(pt); count += pt == pt2; auto mp = &Cfg::width; count += c.*mp; count += foobar(3);
  struct Local { int q; int operator()(int w) const { return q + w; } } loc{3}; count += loc(3) + how_many(1, 2.0) + counter();
  std::sort(v.begin(), v.end(), [](int l, int r) { return l < r; }); app::real rr = 3; app::uint_t uu = rr; CHECK(hipDeviceSynchronize());
  Old o = OLD_A; count += o + offsetof(Cfg, height) + uu; try { throw Cfg{}; } catch (const Cfg& ex) { count += ex.width; }
  printf("%d\n", count); CHECK(hipFree(buf)); return 0; }
