// A thread takes L elements; the last one takes what is left one by one.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/activation.hpp"
#include "exec/cuda/kernels/device.cuh"

namespace weir::cuda {
namespace {

constexpr float kRootTwoOverPi = 0.79788456F;
constexpr float kCube = 0.044715F;

__device__ float curve_value(Curve curve, float x) {
  switch (curve) {
    case Curve::gelu:
      return 0.5F * x * (1.0F + erff(x * 0.70710678F));
    case Curve::gelu_tanh:
      return 0.5F * x * (1.0F + tanhf(kRootTwoOverPi * (x + kCube * x * x * x)));
    case Curve::relu:
      return fmaxf(x, 0.0F);
    default:
      return x / (1.0F + expf(-x));
  }
}

__device__ float curve_slope(Curve curve, float x) {
  switch (curve) {
    case Curve::gelu:
      return 0.5F * (1.0F + erff(x * 0.70710678F)) + x * 0.39894228F * expf(-0.5F * x * x);
    case Curve::gelu_tanh: {
      const float t = tanhf(kRootTwoOverPi * (x + kCube * x * x * x));
      return 0.5F * (1.0F + t) +
             0.5F * x * (1.0F - t * t) * kRootTwoOverPi * (1.0F + 3.0F * kCube * x * x);
    }
    case Curve::relu:
      return x > 0 ? 1.0F : 0.0F;
    default: {
      const float s = 1.0F / (1.0F + expf(-x));
      return s * (1.0F + x * (1.0F - s));
    }
  }
}

// y = curve(x), or y * curve'(x) with kGradient, from element i on.
template <class E, int L, bool kGradient>
__device__ void activate_some(Curve curve, const E* x, std::int64_t i, E* y) {
  float value[L];
  load<L>(x + i, value);
  if constexpr (kGradient) {
    float gradient[L];
    load<L>(y + i, gradient);
    for (int k = 0; k < L; ++k) value[k] = gradient[k] * curve_slope(curve, value[k]);
  } else {
    for (int k = 0; k < L; ++k) value[k] = curve_value(curve, value[k]);
  }
  store<L>(y + i, value);
}

template <class E, int L, bool kGradient>
__global__ void activate_kernel(Curve curve, const E* x, std::int64_t n, E* y) {
  std::int64_t i = thread_index() * L;
  if (i + L <= n) {
    activate_some<E, L, kGradient>(curve, x, i, y);
  } else {
    for (; i < n; ++i) activate_some<E, 1, kGradient>(curve, x, i, y);
  }
}

template <class E, bool kGradient>
void run_activate(Curve curve, const E* x, std::int64_t n, E* y, cudaStream_t stream) {
  with_lanes<E>(begins_on_16_bytes(x) && begins_on_16_bytes(y), [&](auto lanes) {
    constexpr int L = lanes;
    activate_kernel<E, L, kGradient>
        <<<blocks_for(n, kThreads * L), kThreads, 0, stream>>>(curve, x, n, y);
  });
  check_launch("activate");
}

}  // namespace

template <class E>
void activate(Curve curve, const E* x, std::int64_t n, E* y, cudaStream_t stream) {
  run_activate<E, false>(curve, x, n, y, stream);
}
template void activate(Curve, const float*, std::int64_t, float*, cudaStream_t);
template void activate(Curve, const Bf16*, std::int64_t, Bf16*, cudaStream_t);

template <class E>
void activate_gradient(Curve curve, const E* x, std::int64_t n, E* dx, cudaStream_t stream) {
  run_activate<E, true>(curve, x, n, dx, stream);
}
template void activate_gradient(Curve, const float*, std::int64_t, float*, cudaStream_t);
template void activate_gradient(Curve, const Bf16*, std::int64_t, Bf16*, cudaStream_t);

}  // namespace weir::cuda
