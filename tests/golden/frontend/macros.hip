// Macros: text that mentions locals, fields and functions; # and ##; variadic; undefined and defined again; X-macros.
#include <hip/hip_runtime.h>
#include <cstdio>
#define CHECK(call)                                                                  \
  do {                                                                               \
    hipError_t status = (call);                                                      \
    if (status != hipSuccess) {                                                      \
      fprintf(stderr, "%s:%d %s: %s\n", __FILE__, __LINE__, #call, hipGetErrorString(status)); \
      return 1;                                                                      \
    }                                                                                \
  } while (0)
#define TX threadIdx.x
#define GLOBAL_ID (blockIdx.x * blockDim.x + TX)
#define AT(buffer, row, col) (buffer)[(row) * pitch + (col)]
#define NORM2(v) ((v).x * (v).x + (v).y * (v).y)
#define MAKE_GETTER(field) \
  __host__ __device__ int get_##field() const { return field; }
#define SHOW(expr) printf(#expr " = %d\n", static_cast<int>(expr))
#define XSTR(t) STR(t)
#define STR(t) #t
#define LAUNCH(kernel, blocks, threads, ...) kernel<<<blocks, threads, 0, 0>>>(__VA_ARGS__)
#define LOG(format, args...) printf(format, ##args)
#define UNUSED(arg) (void)(arg)
#define NEVER_USED(thing) thing.ghost + phantom
#define OPS(OP) OP(Add, +) OP(Sub, -)
#define WIDTH 8
#if WIDTH > 4 && defined(WIDTH)
#define HALF_WIDTH (WIDTH / 2)
#else
#define HALF_WIDTH 1
#endif

struct Cell {
  int depth, rank;
  MAKE_GETTER(depth)
  MAKE_GETTER(rank)
};
enum OpKind {
#define OP(name, sign) k##name,
  OPS(OP)
#undef OP
};
__host__ __device__ inline int applyOp(OpKind kind, int lhs, int rhs) {
  switch (kind) {
#define OP(name, sign) \
  case k##name:        \
    return lhs sign rhs;
    OPS(OP)
#undef OP
  }
  return 0;
}
struct Vec {
  float x, y;
};

__global__ void fill(float* out, int pitch, Vec scale, Cell cell) {
  const int gid = GLOBAL_ID;
  UNUSED(cell);
  if (gid < WIDTH * WIDTH) AT(out, gid / WIDTH, gid % WIDTH) = NORM2(scale) + applyOp(kSub, gid, HALF_WIDTH) + cell.get_rank();
#pragma unroll HALF_WIDTH
  for (int step = 0; step < HALF_WIDTH; ++step) out[gid % 64] += step * 0.5f;
}

int main() {
  float* data = nullptr;
  CHECK(hipMalloc(&data, 64 * sizeof(float)));
  Vec scale{1.0f, 2.0f};
  Cell cell{3, 4};
  LAUNCH(fill, 1, 64, data, WIDTH, scale, cell);
  float back[64];
  CHECK(hipMemcpy(back, data, sizeof(back), hipMemcpyDeviceToHost));
  int shown = static_cast<int>(back[9]);
  SHOW(shown);
  SHOW(cell.get_depth() + 1);
  LOG("%s %d\n", XSTR(WIDTH), kAdd);
  CHECK(hipFree(data));
  return 0;
}
