__device__ inline float advance(float x) { return x + 1.0f; }
