// A thread takes four elements at a time, and the block walks on by the grid; the last few are
// taken one by one. The arrays begin on 64 bytes, as arenas give them.
// SPDX-License-Identifier: Apache-2.0
#include <cassert>

#include "exec/cuda/kernels/device.cuh"
#include "exec/cuda/kernels/optimizer.hpp"

namespace weir::cuda {
namespace {

constexpr int kFour = 4;
constexpr unsigned kMostBlocks = 2048;  // several for every multiprocessor of the largest devices

struct Unbias {
  float first, second;
};

// base^exponent by squaring.
__device__ double power(double base, std::uint32_t exponent) {
  double result = 1;
  for (; exponent != 0; exponent >>= 1) {
    if ((exponent & 1U) != 0) result *= base;
    base *= base;
  }
  return result;
}

// Once a block, in double: in fp32 1 - beta^t would lose digits while t is small.
__device__ Unbias unbias_of(const Adam& a, const StepNumbers* numbers) {
  __shared__ Unbias unbias;
  const std::uint32_t t = numbers->step + 1;
  if (threadIdx.x == 0) unbias.first = static_cast<float>(1 / (1 - power(a.beta1, t)));
  if (threadIdx.x == kWarp) unbias.second = static_cast<float>(1 / (1 - power(a.beta2, t)));
  __syncthreads();
  return unbias;
}

template <int L>
__device__ void load_gradient(const Gradients& gradients, std::int64_t i, float (&sum)[L]) {
  load<L>(gradients.of[0] + i, sum);
  for (int copy = 1; copy < gradients.count; ++copy) {
    float value[L];
    load<L>(gradients.of[copy] + i, value);
    for (int k = 0; k < L; ++k) sum[k] += value[k];
  }
}

template <int L>
__device__ void store_weight(const Weights& weights, std::int64_t i, const float (&weight)[L]) {
  store<L>(weights.master + i, weight);
  if (weights.working != nullptr) store<L>(weights.working + i, weight);
}

template <int L>
__device__ void adamw_some(const Adam& a, const Unbias& unbias, const Gradients& gradients,
                           std::int64_t i, const Weights& weights, float* first, float* second) {
  float g[L], w[L], m[L], v[L];
  load_gradient<L>(gradients, i, g);
  load<L>(weights.master + i, w);
  load<L>(first + i, m);
  load<L>(second + i, v);
  // 1 - beta rounds once, from double: in fp32 it would be 1.7e-4 off at 0.9999. Each moment moves
  // by that share of its distance, so that beta itself is never rounded.
  const auto share1 = static_cast<float>(1 - a.beta1), share2 = static_cast<float>(1 - a.beta2);
  for (int k = 0; k < L; ++k) {
    m[k] += share1 * (g[k] - m[k]);
    v[k] += share2 * (g[k] * g[k] - v[k]);
    w[k] =
        w[k] * a.decay - a.rate * (m[k] * unbias.first) / (sqrtf(v[k] * unbias.second) + a.epsilon);
  }
  store<L>(first + i, m);
  store<L>(second + i, v);
  store_weight<L>(weights, i, w);
}

__global__ void adamw_kernel(Adam a, const __grid_constant__ Gradients gradients, std::int64_t n,
                             Weights weights, float* first, float* second,
                             const StepNumbers* numbers) {
  const Unbias unbias = unbias_of(a, numbers);
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * kFour;
  for (std::int64_t i = thread_index() * kFour; i < n; i += stride) {
    if (i + kFour <= n) {
      adamw_some<kFour>(a, unbias, gradients, i, weights, first, second);
    } else {
      for (std::int64_t j = i; j < n; ++j)
        adamw_some<1>(a, unbias, gradients, j, weights, first, second);
    }
  }
}

template <int L>
__device__ void sgd_some(const Sgd& s, const Gradients& gradients, std::int64_t i,
                         const Weights& weights, float* velocity) {
  float step[L], w[L];
  load_gradient<L>(gradients, i, step);
  load<L>(weights.master + i, w);
  for (int k = 0; k < L; ++k) step[k] += s.decay * w[k];
  if (velocity != nullptr) {
    float speed[L];
    load<L>(velocity + i, speed);
    for (int k = 0; k < L; ++k) step[k] = s.momentum * speed[k] + step[k];
    store<L>(velocity + i, step);
  }
  for (int k = 0; k < L; ++k) w[k] -= s.rate * step[k];
  store_weight<L>(weights, i, w);
}

__global__ void sgd_kernel(Sgd s, const __grid_constant__ Gradients gradients, std::int64_t n,
                           Weights weights, float* velocity) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x * kFour;
  for (std::int64_t i = thread_index() * kFour; i < n; i += stride) {
    if (i + kFour <= n) {
      sgd_some<kFour>(s, gradients, i, weights, velocity);
    } else {
      for (std::int64_t j = i; j < n; ++j) sgd_some<1>(s, gradients, j, weights, velocity);
    }
  }
}

unsigned grid_for(std::int64_t n) {
  const unsigned blocks = blocks_for(n, kThreads * kFour);
  return blocks < kMostBlocks ? blocks : kMostBlocks;
}

[[maybe_unused]] bool begin_right(const Gradients& gradients) {
  for (int i = 0; i < gradients.count; ++i) {
    if (!begins_on_16_bytes(gradients.of[i])) return false;
  }
  return true;
}

}  // namespace

void adamw(const Adam& adam, const Gradients& gradients, std::int64_t n, const Weights& weights,
           float* first, float* second, const StepNumbers* numbers, cudaStream_t stream) {
  assert(begin_right(gradients) && begins_on_16_bytes(weights.master) &&
         begins_on_16_bytes(first) && begins_on_16_bytes(second) && "tensors begin on 64 bytes");
  adamw_kernel<<<grid_for(n), kThreads, 0, stream>>>(adam, gradients, n, weights, first, second,
                                                     numbers);
  check_launch("adamw");
}

void sgd(const Sgd& sgd, const Gradients& gradients, std::int64_t n, const Weights& weights,
         float* velocity, cudaStream_t stream) {
  assert(begin_right(gradients) && begins_on_16_bytes(weights.master) &&
         begins_on_16_bytes(velocity) && "tensors begin on 64 bytes");
  sgd_kernel<<<grid_for(n), kThreads, 0, stream>>>(sgd, gradients, n, weights, velocity);
  check_launch("sgd");
}

}  // namespace weir::cuda
