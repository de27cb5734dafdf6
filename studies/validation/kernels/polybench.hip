// Kernels equivalent to those of the PolyBench recordings: same algorithm, launch shape, element type and access order.
// Parameters that may alias there may alias here, because this decides which values stay in registers.
// `steps`: of the innermost loop, or fewer when the time is extrapolated.
#include <hip/hip_runtime.h>

__device__ int column() { return blockIdx.x * blockDim.x + threadIdx.x; }
__device__ int row() { return blockIdx.y * blockDim.y + threadIdx.y; }

extern "C" __global__ void convolution_2d(float* from, float* to, int rows, int columns) {
  const int x = column(), y = row();
  if (y >= 1 && y < rows - 1 && x >= 1 && x < columns - 1) {
    const auto at = [&](int dy, int dx) { return from[(y + dy) * columns + (x + dx)]; };
    to[y * columns + x] = 0.2f * at(-1, -1) + 0.5f * at(-1, 0) + 0.2f * at(-1, 1) + 0.5f * at(0, -1) +
                          1.0f * at(0, 0) + 0.5f * at(0, 1) + 0.2f * at(1, -1) + 0.5f * at(1, 0) + 0.2f * at(1, 1);
  }
}

// All 27 neighbours, plane by plane; one plane per group in z.
extern "C" __global__ void convolution_3d(float* from, float* to, int planes, int rows, int columns) {
  const int x = column(), y = row(), z = blockIdx.z;
  if (z >= 1 && z < planes - 1 && y >= 1 && y < rows - 1 && x >= 1 && x < columns - 1) {
    const auto at = [&](int dz, int dy, int dx) {
      return from[(z + dz) * rows * columns + (y + dy) * columns + (x + dx)];
    };
    float sum = 0;
    for (int dz = -1; dz <= 1; ++dz) {
      sum = sum + 2.0f * at(dz, -1, -1) + -8.0f * at(dz, -1, 1) + -3.0f * at(dz, 0, -1) + -9.0f * at(dz, 0, 1) +
            4.0f * at(dz, 1, -1) + 10.0f * at(dz, 1, 1) + 5.0f * at(dz, -1, 0) + 6.0f * at(dz, 0, 0) +
            7.0f * at(dz, 1, 0);
    }
    to[z * rows * columns + y * columns + x] = sum;
  }
}

// Products of square matrices, one element per work-item.
extern "C" __global__ void product(float* left, float* right, float* result, int width, int steps) {
  const int x = column(), y = row();
  if (y < width && x < width) {
    float sum = 0;
    for (int k = 0; k < steps; ++k) sum += left[y * width + k] * right[k * width + x];
    result[y * width + x] = sum;
  }
}
extern "C" __global__ void product_scaled(float* left, float* right, float* result, float alpha, int width, int steps) {
  const int x = column(), y = row();
  if (y < width && x < width) {
    float sum = 0;
    for (int k = 0; k < steps; ++k) sum += alpha * left[y * width + k] * right[k * width + x];
    result[y * width + x] = sum;
  }
}
extern "C" __global__ void product_added(float* left, float* right, float* result, float alpha, float beta, int width,
                                         int steps) {
  const int x = column(), y = row();
  if (y < width && x < width) {
    float sum = 0;
    for (int k = 0; k < steps; ++k) sum += left[y * width + k] * right[k * width + x];
    result[y * width + x] = alpha * sum + beta * result[y * width + x];
  }
}

// Matrix times vector, by rows and by columns, with the sums in memory; `cleared`: they begin at zero.
template <bool cleared>
__device__ void add_rows(float* matrix, float* vector, float* sums, int width, int steps) {
  const int i = column();
  if (i >= width) return;
  if (cleared) sums[i] = 0;
  for (int j = 0; j < steps; ++j) sums[i] += matrix[i * width + j] * vector[j];
}
template <bool cleared>
__device__ void add_columns(float* matrix, float* vector, float* sums, int width, int steps) {
  const int j = column();
  if (j >= width) return;
  if (cleared) sums[j] = 0;
  for (int i = 0; i < steps; ++i) sums[j] += matrix[i * width + j] * vector[i];
}
extern "C" __global__ void atax_rows(float* matrix, float* vector, float* sums, int width, int steps) {
  add_rows<false>(matrix, vector, sums, width, steps);
}
extern "C" __global__ void atax_columns(float* matrix, float* vector, float* sums, int width, int steps) {
  add_columns<false>(matrix, vector, sums, width, steps);
}
extern "C" __global__ void bicg_rows(float* matrix, float* vector, float* sums, int width, int steps) {
  add_rows<true>(matrix, vector, sums, width, steps);
}
extern "C" __global__ void bicg_columns(float* matrix, float* vector, float* sums, int width, int steps) {
  add_columns<true>(matrix, vector, sums, width, steps);
}

// The same with the sum in a register.
extern "C" __global__ void mvt_rows(float* matrix, float* vector, float* sums, int width, int steps) {
  const int i = column();
  if (i < width) {
    float sum = 0;
    for (int j = 0; j < steps; ++j) sum += matrix[i * width + j] * vector[j];
    sums[i] += sum;
  }
}
extern "C" __global__ void mvt_columns(float* matrix, float* vector, float* sums, int width, int steps) {
  const int i = column();
  if (i < width) {
    float sum = 0;
    for (int j = 0; j < steps; ++j) sum += matrix[j * width + i] * vector[j];
    sums[i] += sum;
  }
}
extern "C" __global__ void gesummv(float* first, float* second, float* vector, float* result, float alpha, float beta,
                                   int width, int steps) {
  const int i = column();
  if (i < width) {
    float one = 0, other = 0;
    for (int j = 0; j < steps; ++j) {
      one += first[i * width + j] * vector[j];
      other += second[i * width + j] * vector[j];
    }
    result[i] = alpha * one + beta * other;
  }
}

// Correlation and covariance of the columns of a matrix.
extern "C" __global__ void mean(float* data, float* means, int width, int steps) {
  const int x = column();
  if (x < width) {
    float sum = 0;
    for (int i = 0; i < steps; ++i) sum += data[i * width + x];
    means[x] = sum / static_cast<float>(width);
  }
}
extern "C" __global__ void deviation(float* data, float* means, float* deviations, int width, int steps) {
  const int x = column();
  if (x < width) {
    float sum = 0;
    for (int i = 0; i < steps; ++i) {
      const float off = data[i * width + x] - means[x];
      sum += off * off;
    }
    deviations[x] = sqrtf(sum / static_cast<float>(width));
    if (deviations[x] < 0.005f) deviations[x] = 1.0f;
  }
}
extern "C" __global__ void normalized(float* data, float* means, float* deviations, int width) {
  const int x = column(), y = row();
  if (y < width && x < width) {
    data[y * width + x] = (data[y * width + x] - means[x]) / (sqrtf(static_cast<float>(width)) * deviations[x]);
  }
}
extern "C" __global__ void centred(float* data, float* means, int width) {
  const int x = column(), y = row();
  if (y < width && x < width) data[y * width + x] -= means[x];
}
extern "C" __global__ void correlation(float* data, float* result, int width, int steps) {
  const int x = column(), y = row();
  if (y < width && x < width) {
    if (y == x) {
      result[y * width + x] = 1.0f;
    } else if (y < x) {
      float sum = 0;
      for (int k = 0; k < steps; ++k) sum += data[k * width + y] * data[k * width + x];
      result[y * width + x] = sum;
      result[x * width + y] = sum;
    }
  }
}
extern "C" __global__ void covariance(float* data, float* result, int width, int steps) {
  const int x = column(), y = row();
  if (y < width && x < width && y <= x) {
    float sum = 0;
    for (int k = 0; k < steps; ++k) sum += data[k * width + y] * data[k * width + x];
    const float value = sum / static_cast<float>(width - 1);
    result[y * width + x] = value;
    result[x * width + y] = value;
  }
}

// The lower triangle of a symmetric product; sums stay in memory because the pointers may alias.
extern "C" __global__ void syrk(float* left, float* result, float alpha, float beta, int width, int depth, int steps) {
  const int x = column(), y = row();
  if (y < width && x <= y) {
    result[y * width + x] *= beta;
    for (int k = 0; k < steps; ++k) result[y * width + x] += alpha * left[y * depth + k] * left[x * depth + k];
  }
}
extern "C" __global__ void syr2k(float* left, float* right, float* result, float alpha, float beta, int width,
                                 int depth, int steps) {
  const int x = column(), y = row();
  if (y < width && x <= y) {
    result[y * width + x] *= beta;
    for (int k = 0; k < steps; ++k) {
      result[y * width + x] +=
          alpha * left[y * depth + k] * right[x * depth + k] + alpha * right[y * depth + k] * left[x * depth + k];
    }
  }
}

// One time step of a two-dimensional field: its source, both electric components, the magnetic one.
extern "C" __global__ void field_source(float* ey, float* source, int columns, int time) {
  const int x = column();
  if (x < columns) ey[x] = source[time];
}
extern "C" __global__ void field_y(float* ey, float* hz, int rows, int columns) {
  const int x = column(), y = row();
  if (y >= 1 && y < rows && x < columns) {
    ey[y * columns + x] -= 0.5f * (hz[y * columns + x] - hz[(y - 1) * columns + x]);
  }
}
extern "C" __global__ void field_x(float* ex, float* hz, int rows, int columns) {
  const int x = column(), y = row();
  if (y < rows && x >= 1 && x < columns) {
    ex[y * columns + x] -= 0.5f * (hz[y * columns + x] - hz[y * columns + (x - 1)]);
  }
}
extern "C" __global__ void field_z(float* ex, float* ey, float* hz, int rows, int columns) {
  const int x = column(), y = row();
  if (y < rows - 1 && x < columns - 1) {
    hz[y * columns + x] -= 0.7f * (ex[y * columns + (x + 1)] - ex[y * columns + x] + ey[(y + 1) * columns + x] -
                                   ey[y * columns + x]);
  }
}

// Reads an array, as an earlier call did.
extern "C" __global__ void read_all(const float4* from, float* to, unsigned long long count) {
  const size_t at = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (at < count && from[at].x == -999.0f) *to = 0;
}
