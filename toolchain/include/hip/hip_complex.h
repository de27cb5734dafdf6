// Complex arithmetic on float2 and double2, with the names of HIP's public complex API.
#ifndef HIPSYNTH_HIP_COMPLEX_H
#define HIPSYNTH_HIP_COMPLEX_H

#include <hip/hip_runtime.h>
#include <math.h>

typedef float2 hipFloatComplex;
typedef double2 hipDoubleComplex;
typedef hipFloatComplex hipComplex;

#define HIPSYNTH_COMPLEX_FN static __host__ __device__ inline

HIPSYNTH_COMPLEX_FN float hipCrealf(hipFloatComplex z) { return z.x; }
HIPSYNTH_COMPLEX_FN float hipCimagf(hipFloatComplex z) { return z.y; }
HIPSYNTH_COMPLEX_FN double hipCreal(hipDoubleComplex z) { return z.x; }
HIPSYNTH_COMPLEX_FN double hipCimag(hipDoubleComplex z) { return z.y; }

HIPSYNTH_COMPLEX_FN hipFloatComplex make_hipFloatComplex(float re, float im) {
  hipFloatComplex z;
  z.x = re;
  z.y = im;
  return z;
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex make_hipDoubleComplex(double re, double im) {
  hipDoubleComplex z;
  z.x = re;
  z.y = im;
  return z;
}
HIPSYNTH_COMPLEX_FN hipComplex make_hipComplex(float re, float im) { return make_hipFloatComplex(re, im); }

HIPSYNTH_COMPLEX_FN hipFloatComplex hipConjf(hipFloatComplex z) { return make_hipFloatComplex(z.x, -z.y); }
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipConj(hipDoubleComplex z) { return make_hipDoubleComplex(z.x, -z.y); }

HIPSYNTH_COMPLEX_FN float hipCsqabsf(hipFloatComplex z) { return z.x * z.x + z.y * z.y; }
HIPSYNTH_COMPLEX_FN double hipCsqabs(hipDoubleComplex z) { return z.x * z.x + z.y * z.y; }
HIPSYNTH_COMPLEX_FN float hipCabsf(hipFloatComplex z) { return sqrtf(hipCsqabsf(z)); }
HIPSYNTH_COMPLEX_FN double hipCabs(hipDoubleComplex z) { return sqrt(hipCsqabs(z)); }

HIPSYNTH_COMPLEX_FN hipFloatComplex hipCaddf(hipFloatComplex p, hipFloatComplex q) {
  return make_hipFloatComplex(p.x + q.x, p.y + q.y);
}
HIPSYNTH_COMPLEX_FN hipFloatComplex hipCsubf(hipFloatComplex p, hipFloatComplex q) {
  return make_hipFloatComplex(p.x - q.x, p.y - q.y);
}
HIPSYNTH_COMPLEX_FN hipFloatComplex hipCmulf(hipFloatComplex p, hipFloatComplex q) {
  return make_hipFloatComplex(p.x * q.x - p.y * q.y, p.y * q.x + p.x * q.y);
}
HIPSYNTH_COMPLEX_FN hipFloatComplex hipCdivf(hipFloatComplex p, hipFloatComplex q) {
  float norm = hipCsqabsf(q);
  return make_hipFloatComplex((p.x * q.x + p.y * q.y) / norm, (p.y * q.x - p.x * q.y) / norm);
}
HIPSYNTH_COMPLEX_FN hipFloatComplex hipCfmaf(hipFloatComplex p, hipFloatComplex q, hipFloatComplex r) {
  return make_hipFloatComplex((p.x * q.x + r.x) - p.y * q.y, (q.x * p.y + r.y) + p.x * q.y);
}

HIPSYNTH_COMPLEX_FN hipDoubleComplex hipCadd(hipDoubleComplex p, hipDoubleComplex q) {
  return make_hipDoubleComplex(p.x + q.x, p.y + q.y);
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipCsub(hipDoubleComplex p, hipDoubleComplex q) {
  return make_hipDoubleComplex(p.x - q.x, p.y - q.y);
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipCmul(hipDoubleComplex p, hipDoubleComplex q) {
  return make_hipDoubleComplex(p.x * q.x - p.y * q.y, p.y * q.x + p.x * q.y);
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipCdiv(hipDoubleComplex p, hipDoubleComplex q) {
  double norm = hipCsqabs(q);
  return make_hipDoubleComplex((p.x * q.x + p.y * q.y) / norm, (p.y * q.x - p.x * q.y) / norm);
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipCfma(hipDoubleComplex p, hipDoubleComplex q, hipDoubleComplex r) {
  return make_hipDoubleComplex((p.x * q.x + r.x) - p.y * q.y, (q.x * p.y + r.y) + p.x * q.y);
}

HIPSYNTH_COMPLEX_FN hipFloatComplex hipComplexDoubleToFloat(hipDoubleComplex z) {
  return make_hipFloatComplex(static_cast<float>(z.x), static_cast<float>(z.y));
}
HIPSYNTH_COMPLEX_FN hipDoubleComplex hipComplexFloatToDouble(hipFloatComplex z) {
  return make_hipDoubleComplex(static_cast<double>(z.x), static_cast<double>(z.y));
}

#undef HIPSYNTH_COMPLEX_FN

#endif  // HIPSYNTH_HIP_COMPLEX_H
