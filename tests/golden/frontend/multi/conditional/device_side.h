__host__ __device__ inline float sideOffset() { return 3.0f; }
