// One thread an element for what is element-wise, one block a row for what is summed along a row. A block's sum is a
// fixed tree over fixed strides; a sum over rows is in ascending order, in two stages.
// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "exec/cuda/kernels.hpp"
#include "plan/error.hpp"

namespace weir::cuda {
namespace {

constexpr int kThreads = 256;

unsigned blocks_for(std::int64_t items) { return static_cast<unsigned>((items + kThreads - 1) / kThreads); }

// A failed launch is an error of the program (a bad grid, no code for this device), told with the kernel's name.
void check_launch(const char* kernel) {
  const cudaError_t status = cudaPeekAtLastError();
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  throw RunFailed(std::string("launch of ") + kernel + ": " + cudaGetErrorString(status));
}

__device__ std::int64_t thread_index() { return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ float factor(const DropoutMask& mask, std::uint64_t element) {
  return mask.active() ? mask.factor(element) : 1.0F;
}

struct Sum {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return a + b;
  }
};
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// Over a block of kThreads threads; every thread gets the same bits.
template <class Combine, class T>
__device__ T block_reduce(T value, Combine combine) {
  __shared__ T scratch[kThreads];
  __syncthreads();  // scratch may still be read from the call before
  scratch[threadIdx.x] = value;
  for (int half = kThreads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < half)
      scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + half]);
  }
  __syncthreads();
  return scratch[0];
}

__global__ void layer_norm_kernel(const float* x, const float* gain, const float* shift, std::int64_t width,
                                  float epsilon, float* y, float* statistics) {
  const std::int64_t row = blockIdx.x;
  x += row * width;
  y += row * width;
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < width; j += kThreads) sum += x[j];
  const float mean = block_reduce(sum, Sum{}) / static_cast<float>(width);
  float squares = 0;
  for (std::int64_t j = threadIdx.x; j < width; j += kThreads) squares += (x[j] - mean) * (x[j] - mean);
  const float inverse = rsqrtf(block_reduce(squares, Sum{}) / static_cast<float>(width) + epsilon);
  for (std::int64_t j = threadIdx.x; j < width; j += kThreads) y[j] = (x[j] - mean) * inverse * gain[j] + shift[j];
  if (threadIdx.x == 0) {
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = inverse;
  }
}

// n = (x - mean) / deviation, d = dy * gain: dx = (d - mean(d) - n * mean(d * n)) / deviation.
__global__ void layer_norm_input_kernel(NormGradient g, std::int64_t width, Into into) {
  const std::int64_t row = blockIdx.x;
  const float mean = g.statistics[2 * row], inverse = g.statistics[2 * row + 1];
  const float* x = g.x + row * width;
  const float* dy = g.dy + row * width;
  float* dx = g.dx + row * width;
  float sum = 0, product = 0;
  for (std::int64_t j = threadIdx.x; j < width; j += kThreads) {
    const float d = dy[j] * g.gain[j];
    sum += d;
    product += d * ((x[j] - mean) * inverse);
  }
  sum = block_reduce(sum, Sum{}) / static_cast<float>(width);
  product = block_reduce(product, Sum{}) / static_cast<float>(width);
  for (std::int64_t j = threadIdx.x; j < width; j += kThreads) {
    const float normed = (x[j] - mean) * inverse;
    const float value = inverse * (dy[j] * g.gain[j] - sum - normed * product);
    dx[j] = into == Into::add ? dx[j] + value : value;
  }
}

// Block (x, y): columns of block x, rows of partial y.
__global__ void layer_norm_weight_kernel(NormGradient g, Rows size) {
  const std::int64_t j = thread_index();
  if (j >= size.width) return;
  const std::int64_t first = blockIdx.y * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  float gain = 0, shift = 0;
  for (std::int64_t row = first; row < last; ++row) {
    const float d = g.dy[row * size.width + j];
    gain += d * ((g.x[row * size.width + j] - g.statistics[2 * row]) * g.statistics[2 * row + 1]);
    shift += d;
  }
  g.partials[blockIdx.y * size.width + j] = gain;
  g.partials[(gridDim.y + blockIdx.y) * size.width + j] = shift;
}

__global__ void column_partials_kernel(const float* x, Rows size, float* partials) {
  const std::int64_t j = thread_index();
  if (j >= size.width) return;
  const std::int64_t first = blockIdx.y * kRowsPerPartial;
  const std::int64_t last = min(first + kRowsPerPartial, size.rows);
  float sum = 0;
  for (std::int64_t row = first; row < last; ++row) sum += x[row * size.width + j];
  partials[blockIdx.y * size.width + j] = sum;
}

__global__ void add_partials_kernel(const float* partials, Rows size, Into into, float* y) {
  const std::int64_t j = thread_index();
  if (j >= size.width) return;
  float sum = 0;
  for (std::int64_t row = 0; row < size.rows; ++row) sum += partials[row * size.width + j];
  y[j] = into == Into::add ? y[j] + sum : sum;
}

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
      return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * kRootTwoOverPi * (1.0F + 3.0F * kCube * x * x);
    }
    case Curve::relu:
      return x > 0 ? 1.0F : 0.0F;
    default: {
      const float s = 1.0F / (1.0F + expf(-x));
      return s * (1.0F + x * (1.0F - s));
    }
  }
}

__global__ void activate_kernel(Curve curve, const float* x, std::int64_t n, float* y) {
  const std::int64_t i = thread_index();
  if (i < n) y[i] = curve_value(curve, x[i]);
}
__global__ void activate_gradient_kernel(Curve curve, const float* x, std::int64_t n, float* dx) {
  const std::int64_t i = thread_index();
  if (i < n) dx[i] *= curve_slope(curve, x[i]);
}

__global__ void dropout_add_kernel(DropoutMask mask, const float* x, std::int64_t n, float* y) {
  const std::int64_t i = thread_index();
  if (i < n) y[i] = y[i] * factor(mask, static_cast<std::uint64_t>(i)) + x[i];
}
__global__ void dropout_kernel(DropoutMask mask, std::uint64_t first, const float* x, std::int64_t n, float* y) {
  const std::int64_t i = thread_index();
  if (i < n) y[i] = x[i] * factor(mask, first + static_cast<std::uint64_t>(i));
}

__global__ void causal_softmax_kernel(float scale, std::int64_t s, float* x) {
  const std::int64_t columns = blockIdx.x % s + 1;
  x += std::int64_t{blockIdx.x} * s;
  float largest = -INFINITY;
  for (std::int64_t j = threadIdx.x; j < columns; j += kThreads) largest = fmaxf(largest, scale * x[j]);
  largest = block_reduce(largest, Max{});
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < columns; j += kThreads) sum += expf(scale * x[j] - largest);
  sum = block_reduce(sum, Sum{});
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) x[j] = j < columns ? expf(scale * x[j] - largest) / sum : 0;
}

__global__ void softmax_gradient_kernel(const float* p, float scale, std::int64_t s, float* dp) {
  p += std::int64_t{blockIdx.x} * s;
  dp += std::int64_t{blockIdx.x} * s;
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) sum += dp[j] * p[j];
  sum = block_reduce(sum, Sum{});
  for (std::int64_t j = threadIdx.x; j < s; j += kThreads) dp[j] = scale * p[j] * (dp[j] - sum);
}

__device__ std::int64_t token_index(const Tokens& t, std::int64_t row) {
  return row / t.seq_length * (t.seq_length + 1) + row % t.seq_length;
}

__global__ void cross_entropy_kernel(float* logits, Tokens tokens, std::int64_t vocabulary, float scale,
                                     double* row_losses) {
  const std::int64_t row = blockIdx.x;
  const std::int64_t target = tokens.ids[token_index(tokens, row) + 1];
  float* x = logits + row * vocabulary;
  float largest = -INFINITY;
  for (std::int64_t j = threadIdx.x; j < vocabulary; j += kThreads) largest = fmaxf(largest, x[j]);
  largest = block_reduce(largest, Max{});
  float sum = 0;
  for (std::int64_t j = threadIdx.x; j < vocabulary; j += kThreads) sum += expf(x[j] - largest);
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) row_losses[row] = log(static_cast<double>(sum)) + largest - x[target];
  __syncthreads();  // the target's logit is read before it is overwritten
  for (std::int64_t j = threadIdx.x; j < vocabulary; j += kThreads) {
    x[j] = (expf(x[j] - largest) / sum - (j == target ? 1.0F : 0.0F)) * scale;
  }
}

__global__ void sum_losses_kernel(const double* row_losses, std::int64_t rows, double scale, double* loss) {
  double sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kThreads) sum += row_losses[row];
  sum = block_reduce(sum, Sum{});
  if (threadIdx.x == 0) *loss = sum * scale;
}

__global__ void embed_kernel(Tokens tokens, const float* token, const float* position, std::int64_t width,
                             DropoutMask mask, float* y) {
  const std::int64_t i = thread_index();
  if (i >= tokens.batch * tokens.seq_length * width) return;
  const std::int64_t row = i / width, j = i % width;
  float value = token[tokens.ids[token_index(tokens, row)] * width + j];
  if (position != nullptr) value += position[row % tokens.seq_length * width + j];
  y[i] = value * factor(mask, static_cast<std::uint64_t>(i));
}

// The block of a token's first row adds all its rows; the blocks of its other rows do nothing.
__global__ void embed_token_gradient_kernel(Tokens tokens, const float* dy, std::int64_t width, DropoutMask mask,
                                            float* gradient) {
  const std::int64_t rows = tokens.batch * tokens.seq_length, own = blockIdx.x;
  const std::int32_t id = tokens.ids[token_index(tokens, own)];
  int earlier = 0;
  for (std::int64_t row = threadIdx.x; row < own; row += kThreads)
    earlier |= tokens.ids[token_index(tokens, row)] == id;
  if (__syncthreads_or(earlier) != 0) return;
  gradient += id * width;
  for (std::int64_t row = own; row < rows; ++row) {
    if (tokens.ids[token_index(tokens, row)] != id) continue;
    for (std::int64_t j = threadIdx.x; j < width; j += kThreads) {
      gradient[j] += dy[row * width + j] * factor(mask, static_cast<std::uint64_t>(row * width + j));
    }
  }
}

__global__ void embed_position_gradient_kernel(Tokens tokens, const float* dy, std::int64_t width, DropoutMask mask,
                                               float* gradient) {
  const std::int64_t i = thread_index();
  if (i >= tokens.seq_length * width) return;
  float sum = gradient[i];
  for (std::int64_t b = 0; b < tokens.batch; ++b) {
    const std::int64_t at = b * tokens.seq_length * width + i;
    sum += dy[at] * factor(mask, static_cast<std::uint64_t>(at));
  }
  gradient[i] = sum;
}

__device__ float gradient_at(const Gradients& gradients, std::int64_t i) {
  float sum = gradients.of[0][i];
  for (int copy = 1; copy < gradients.count; ++copy) sum += gradients.of[copy][i];
  return sum;
}

__global__ void adamw_kernel(Adam a, Gradients gradients, std::int64_t n, float* weight, float* first, float* second) {
  const std::int64_t i = thread_index();
  if (i >= n) return;
  const float g = gradient_at(gradients, i);
  const float m = first[i] = a.beta1 * first[i] + (1.0F - a.beta1) * g;
  const float v = second[i] = a.beta2 * second[i] + (1.0F - a.beta2) * g * g;
  weight[i] = weight[i] * a.decay - a.rate * (m * a.unbias1) / (sqrtf(v * a.unbias2) + a.epsilon);
}

__global__ void sgd_kernel(Sgd s, Gradients gradients, std::int64_t n, float* weight, float* velocity) {
  const std::int64_t i = thread_index();
  if (i >= n) return;
  float step = gradient_at(gradients, i) + s.decay * weight[i];
  if (velocity != nullptr) step = velocity[i] = s.momentum * velocity[i] + step;
  weight[i] -= s.rate * step;
}

dim3 column_grid(Rows size) { return {blocks_for(size.width), static_cast<unsigned>(partials_of(size.rows)), 1}; }

}  // namespace

void layer_norm(const float* x, const float* gain, const float* shift, Rows size, float epsilon, float* y,
                float* statistics, cudaStream_t stream) {
  layer_norm_kernel<<<static_cast<unsigned>(size.rows), kThreads, 0, stream>>>(x, gain, shift, size.width, epsilon, y,
                                                                               statistics);
  check_launch("layer_norm");
}

void layer_norm_gradient(const NormGradient& g, Rows size, Into into, cudaStream_t stream) {
  const Rows partials{partials_of(size.rows), size.width};
  layer_norm_weight_kernel<<<column_grid(size), kThreads, 0, stream>>>(g, size);
  add_partials_kernel<<<blocks_for(size.width), kThreads, 0, stream>>>(g.partials, partials, Into::overwrite,
                                                                       g.gain_gradient);
  add_partials_kernel<<<blocks_for(size.width), kThreads, 0, stream>>>(g.partials + partials.rows * size.width,
                                                                       partials, Into::overwrite, g.shift_gradient);
  layer_norm_input_kernel<<<static_cast<unsigned>(size.rows), kThreads, 0, stream>>>(g, size.width, into);
  check_launch("layer_norm_gradient");
}

void activate(Curve curve, const float* x, std::int64_t n, float* y, cudaStream_t stream) {
  activate_kernel<<<blocks_for(n), kThreads, 0, stream>>>(curve, x, n, y);
  check_launch("activate");
}
void activate_gradient(Curve curve, const float* x, std::int64_t n, float* dx, cudaStream_t stream) {
  activate_gradient_kernel<<<blocks_for(n), kThreads, 0, stream>>>(curve, x, n, dx);
  check_launch("activate_gradient");
}

void dropout_add(const DropoutMask& mask, const float* x, std::int64_t n, float* y, cudaStream_t stream) {
  dropout_add_kernel<<<blocks_for(n), kThreads, 0, stream>>>(mask, x, n, y);
  check_launch("dropout_add");
}
void dropout(const DropoutMask& mask, std::uint64_t first, const float* x, std::int64_t n, float* y,
             cudaStream_t stream) {
  dropout_kernel<<<blocks_for(n), kThreads, 0, stream>>>(mask, first, x, n, y);
  check_launch("dropout");
}

void causal_softmax(float scale, std::int64_t matrices, std::int64_t s, float* x, cudaStream_t stream) {
  causal_softmax_kernel<<<static_cast<unsigned>(matrices * s), kThreads, 0, stream>>>(scale, s, x);
  check_launch("causal_softmax");
}
void softmax_gradient(const float* p, float scale, std::int64_t matrices, std::int64_t s, float* dp,
                      cudaStream_t stream) {
  softmax_gradient_kernel<<<static_cast<unsigned>(matrices * s), kThreads, 0, stream>>>(p, scale, s, dp);
  check_launch("softmax_gradient");
}

void cross_entropy(float* logits, Tokens tokens, std::int64_t vocabulary, float scale, double* row_losses, double* loss,
                   cudaStream_t stream) {
  const std::int64_t rows = tokens.batch * tokens.seq_length;
  cross_entropy_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, tokens, vocabulary, scale,
                                                                             row_losses);
  sum_losses_kernel<<<1, kThreads, 0, stream>>>(row_losses, rows, static_cast<double>(scale), loss);
  check_launch("cross_entropy");
}

void embed(Tokens tokens, const float* token, const float* position, std::int64_t width, const DropoutMask& mask,
           float* y, cudaStream_t stream) {
  const std::int64_t n = tokens.batch * tokens.seq_length * width;
  embed_kernel<<<blocks_for(n), kThreads, 0, stream>>>(tokens, token, position, width, mask, y);
  check_launch("embed");
}

void embed_gradient(Tokens tokens, const float* dy, std::int64_t width, const DropoutMask& mask, float* token_gradient,
                    float* position_gradient, cudaStream_t stream) {
  const auto rows = static_cast<unsigned>(tokens.batch * tokens.seq_length);
  embed_token_gradient_kernel<<<rows, kThreads, 0, stream>>>(tokens, dy, width, mask, token_gradient);
  if (position_gradient != nullptr) {
    embed_position_gradient_kernel<<<blocks_for(tokens.seq_length * width), kThreads, 0, stream>>>(
        tokens, dy, width, mask, position_gradient);
  }
  check_launch("embed_gradient");
}

void column_sum(const float* x, Rows size, Into into, float* partials, float* y, cudaStream_t stream) {
  column_partials_kernel<<<column_grid(size), kThreads, 0, stream>>>(x, size, partials);
  add_partials_kernel<<<blocks_for(size.width), kThreads, 0, stream>>>(
      partials, Rows{partials_of(size.rows), size.width}, into, y);
  check_launch("column_sum");
}

void adamw(const Adam& adam, const Gradients& gradients, std::int64_t n, float* weight, float* first, float* second,
           cudaStream_t stream) {
  adamw_kernel<<<blocks_for(n), kThreads, 0, stream>>>(adam, gradients, n, weight, first, second);
  check_launch("adamw");
}
void sgd(const Sgd& sgd, const Gradients& gradients, std::int64_t n, float* weight, float* velocity,
         cudaStream_t stream) {
  sgd_kernel<<<blocks_for(n), kThreads, 0, stream>>>(sgd, gradients, n, weight, velocity);
  check_launch("sgd");
}

}  // namespace weir::cuda
