// Programs to begin with: a name and a source each.

const HEAD = "#include <hip/hip_runtime.h>\n\n";

/** A main() for kernels of (const float* x, float* y, ..., int n). */
const main = (launch, elements, n) => `
int main() {
  const int n = ${n};
  float *x, *y;
  hipMalloc(&x, ${elements} * sizeof(float));
  hipMalloc(&y, ${elements} * sizeof(float));
  hipMemset(x, 0, ${elements} * sizeof(float));
  hipMemset(y, 0, ${elements} * sizeof(float));
  ${launch}
  hipDeviceSynchronize();
}
`;

export const EXAMPLES = [
  ["saxpy: a stream", `${HEAD}__global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
${main("saxpy<<<n / 256, 256>>>(x, y, 2.0f, n);", "n", "1 << 22")}`],
  ["transpose: uncoalesced stores", `${HEAD}__global__ void transpose(const float* x, float* y, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column < n && row < n) y[column * n + row] = x[row * n + column];
}
${main("transpose<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(x, y, n);", "n * n", "1024")}`],
  ["matrix product: a dot product each", `${HEAD}__global__ void multiply(const float* a, const float* b, float* c, int n) {
  int column = blockIdx.x * blockDim.x + threadIdx.x;
  int row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row >= n || column >= n) return;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + column];
  c[row * n + column] = sum;
}
${main("multiply<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(x, x, y, n);", "n * n", "256")}`],
  ["sum: atomics and the LDS", `${HEAD}__global__ void sum(const float* x, float* y, int n) {
  __shared__ float part[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  part[threadIdx.x] = i < n ? x[i] : 0;
  __syncthreads();
  for (int step = 128; step > 0; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(y, part[0]);
}
${main("sum<<<n / 256, 256>>>(x, y, n);", "n", "1 << 20")}`],
  ["stencil: a kernel without main()", `${HEAD}__global__ void stencil(const float* x, float* y, int width, int height) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < 1 || j < 1 || i >= width - 1 || j >= height - 1) return;
  int at = j * width + i;
  y[at] = 0.2f * (x[at] + x[at - 1] + x[at + 1] + x[at - width] + x[at + width]);
}
`],
  ["Triton: a softmax of rows", `import torch
import triton
import triton.language as tl


@triton.jit
def softmax(x_ptr, y_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0) * columns
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row + at, mask=at < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + at, e / tl.sum(e, axis=0), mask=at < columns)


x = torch.randn(4096, 1000, device="cuda")
y = torch.empty_like(x)
softmax[(x.shape[0],)](x, y, x.shape[1], BLOCK=1024)
`],
];
