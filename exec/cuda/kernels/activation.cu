// A thread takes L elements; the last one takes what is left one by one. Of a gated MLP's middle a
// block takes a row.
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
      // Phi(x) + x phi(x): the normal distribution's function and, 0.3989... being 1 / sqrt(2 pi),
      // its density.
      return 0.5F * (1.0F + erff(x * 0.70710678F)) + x * 0.39894228F * expf(-0.5F * x * x);
    case Curve::gelu_tanh: {
      // tanh's own slope is 1 - t^2; the last factor is the slope of its argument.
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
  // In place: y holds the gradient of the curve's value until it is overwritten by that of x.
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

template <class E, int L>
__global__ void gate_kernel(Curve curve, const E* x, std::int64_t width, E* y) {
  // A row is the gate's `width` numbers, then the `width` that it multiplies.
  const E* row = x + std::int64_t{blockIdx.x} * 2 * width;
  E* to = y + std::int64_t{blockIdx.x} * width;
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  for (std::int64_t j = start; j < width; j += stride) {
    float g[L], u[L];
    load<L>(row + j, g);
    load<L>(row + width + j, u);
    for (int i = 0; i < L; ++i) u[i] *= curve_value(curve, g[i]);
    store<L>(to + j, u);
  }
}

template <class E, int L>
__global__ void gate_gradient_kernel(Curve curve, const E* x, std::int64_t width, E* dx) {
  const std::int64_t begin = std::int64_t{blockIdx.x} * 2 * width;
  const std::int64_t start = std::int64_t{threadIdx.x} * L, stride = std::int64_t{blockDim.x} * L;
  for (std::int64_t j = begin + start; j < begin + width; j += stride) {
    float g[L], u[L], dy[L];
    load<L>(x + j, g);
    load<L>(x + width + j, u);
    // dx's second half comes in as the gradient of the gated product: both halves are made of it.
    load<L>(dx + width + j, dy);
    for (int i = 0; i < L; ++i) {
      // g's gradient reads dy before the next line overwrites it with that of u.
      u[i] *= dy[i] * curve_slope(curve, g[i]);
      dy[i] *= curve_value(curve, g[i]);
    }
    store<L>(dx + j, u);
    store<L>(dx + width + j, dy);
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

template <class E>
void gate(Curve curve, const E* x, Rows size, E* y, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(size.width, x, y), [&](auto lanes) {
    constexpr int L = lanes;
    gate_kernel<E, L>
        <<<static_cast<unsigned>(size.rows), threads_for_row(size.width, L), 0, stream>>>(
            curve, x, size.width, y);
  });
  check_launch("gate");
}
template void gate(Curve, const float*, Rows, float*, cudaStream_t);
template void gate(Curve, const Bf16*, Rows, Bf16*, cudaStream_t);

template <class E>
void gate_gradient(Curve curve, const E* x, Rows size, E* dx, cudaStream_t stream) {
  with_lanes<E>(takes_vectors<E>(size.width, x, dx), [&](auto lanes) {
    constexpr int L = lanes;
    gate_gradient_kernel<E, L>
        <<<static_cast<unsigned>(size.rows), threads_for_row(size.width, L), 0, stream>>>(
            curve, x, size.width, dx);
  });
  check_launch("gate_gradient");
}
template void gate_gradient(Curve, const float*, Rows, float*, cudaStream_t);
template void gate_gradient(Curve, const Bf16*, Rows, Bf16*, cudaStream_t);

}  // namespace weir::cuda
