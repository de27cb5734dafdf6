__host__ __device__ inline float sideOffset() { return 4.0f; }
