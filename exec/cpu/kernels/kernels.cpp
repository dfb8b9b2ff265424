// What the CPU computes besides gemms, for one thread: norms, activations, dropout, softmax, loss.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/kernels.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "exec/cpu/kernels/mask_words.hpp"
#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {
namespace {

constexpr float kGeluA = 0.7978845608028654F;  // sqrt(2 / pi), Hendrycks & Gimpel 2016
constexpr float kGeluB = 0.044715F;

WEIR_INLINE float gelu_tanh(float x) {
  return 0.5F * x * (1.0F + fast_tanh(kGeluA * (x + kGeluB * x * x * x)));
}

WEIR_INLINE float gelu_tanh_slope(float x) {
  const float t = fast_tanh(kGeluA * (x + kGeluB * x * x * x));
  return 0.5F * (1.0F + t) + 0.5F * x * (1.0F - t * t) * kGeluA * (1.0F + 3.0F * kGeluB * x * x);
}

WEIR_MULTIVERSION void gelu_tanh_forward(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = gelu_tanh(x[i]);
}
WEIR_MULTIVERSION void gelu_tanh_backward(const float* x, std::int64_t n, float* dx) {
  for (std::int64_t i = 0; i < n; ++i) dx[i] *= gelu_tanh_slope(x[i]);
}

// 1 / (1 + e^-x); clamped where float's is 0 or its exponential would overflow.
WEIR_INLINE float fast_sigmoid(float x) {
  return 1.0F / (1.0F + fast_exp(x < -87.0F ? 87.0F : -x));
}

WEIR_MULTIVERSION void silu_gate(const float* x, std::int64_t rows, std::int64_t width, float* y) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* g = x + row * 2 * width;
    const float* u = g + width;
    float* out = y + row * width;
    for (std::int64_t i = 0; i < width; ++i) out[i] = g[i] * fast_sigmoid(g[i]) * u[i];
  }
}

// silu'(g) = s (1 + g (1 - s)) with s = sigmoid(g).
WEIR_MULTIVERSION void silu_gate_gradient(const float* x, std::int64_t rows, std::int64_t width,
                                          float* dx) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* g = x + row * 2 * width;
    const float* u = g + width;
    float* dg = dx + row * 2 * width;
    float* du = dg + width;
#pragma GCC ivdep
    for (std::int64_t i = 0; i < width; ++i) {
      const float s = fast_sigmoid(g[i]), dy = du[i];
      dg[i] = dy * u[i] * s * (1.0F + g[i] * (1.0F - s));
      du[i] = dy * g[i] * s;
    }
  }
}

// write(i, factor of element first + i) for i in [0, n): whole groups of blocks where `first`
// begins a block.
template <class Write>
WEIR_INLINE void masked(const DropoutMask& mask, std::uint64_t first, std::int64_t n, Write write) {
  std::uint32_t words[kWordsAtOnce];
  const std::uint32_t drop_below = mask.drop_below;
  const float scale = mask.scale;
  // A block of the generator makes four words; the rest, or an unaligned run, goes one by one.
  std::int64_t i = 0;
  if (first % 4 == 0) {
    for (; i + kWordsAtOnce <= n; i += kWordsAtOnce) {
      mask_words(mask, (first + static_cast<std::uint64_t>(i)) / 4, words);
#pragma GCC unroll 1
      for (std::int64_t w = 0; w < kWordsAtOnce; ++w)
        write(i + w, words[w] < drop_below ? 0.0F : scale);
    }
  }
  for (; i < n; ++i) write(i, mask.factor(first + static_cast<std::uint64_t>(i)));
}

}  // namespace

WEIR_MULTIVERSION void layer_norm(const float* x, const float* weight, const float* bias,
                                  std::int64_t rows, std::int64_t width, float epsilon, float* y,
                                  float* statistics) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    float* out = y + row * width;
    const float mean =
        lane_sum(width, [in](std::int64_t i) { return in[i]; }) / static_cast<float>(width);
    // About the mean: E[x^2] - mean^2 would cancel in fp32.
    const float variance =
        lane_sum(width, [in, mean](std::int64_t i) { return (in[i] - mean) * (in[i] - mean); }) /
        static_cast<float>(width);
    const float rstd = 1.0F / std::sqrt(variance + epsilon);
    for (std::int64_t i = 0; i < width; ++i) out[i] = (in[i] - mean) * rstd * weight[i] + bias[i];
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = rstd;
  }
}

// With z = (x - mean) / deviation and g = dy * weight: dx = (g - mean(g) - z mean(g z)) /
// deviation.
WEIR_MULTIVERSION void layer_norm_gradient(const float* x, const float* statistics,
                                           const float* weight, const float* dy, std::int64_t rows,
                                           std::int64_t width, Beta beta, float* dx,
                                           float* weight_gradient, float* bias_gradient) {
  for (std::int64_t i = 0; i < width; ++i) weight_gradient[i] = bias_gradient[i] = 0.0F;
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    const float* up = dy + row * width;
    float* out = dx + row * width;
    const float mean = statistics[2 * row], rstd = statistics[2 * row + 1];
    // mean(g) and mean(g z) of the row, in one pass each, before anything of dx is written.
    const float g = lane_sum(width, [=](std::int64_t i) { return up[i] * weight[i]; }) /
                    static_cast<float>(width);
    const float gz =
        lane_sum(width, [=](std::int64_t i) { return up[i] * weight[i] * (in[i] - mean) * rstd; }) /
        static_cast<float>(width);
    if (beta == Beta::zero) std::fill(out, out + width, 0.0F);
    for (std::int64_t i = 0; i < width; ++i) {
      const float z = (in[i] - mean) * rstd;
      out[i] += (up[i] * weight[i] - g - z * gz) * rstd;
      weight_gradient[i] += up[i] * z;
      bias_gradient[i] += up[i];
    }
  }
}

WEIR_MULTIVERSION void rms_norm(const float* x, const float* weight, std::int64_t rows,
                                std::int64_t width, float epsilon, float* y, float* statistics) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    float* out = y + row * width;
    const float square =
        lane_sum(width, [in](std::int64_t i) { return in[i] * in[i]; }) / static_cast<float>(width);
    const float inverse = 1.0F / std::sqrt(square + epsilon);
    for (std::int64_t i = 0; i < width; ++i) out[i] = in[i] * inverse * weight[i];
    statistics[2 * row] = 0.0F;
    statistics[2 * row + 1] = inverse;
  }
}

// With z = x / rms and g = dy * weight: dx = (g - z mean(g z)) / rms.
WEIR_MULTIVERSION void rms_norm_gradient(const float* x, const float* statistics,
                                         const float* weight, const float* dy, std::int64_t rows,
                                         std::int64_t width, Beta beta, float* dx,
                                         float* weight_gradient) {
  std::fill(weight_gradient, weight_gradient + width, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* in = x + row * width;
    const float* up = dy + row * width;
    float* out = dx + row * width;
    const float inverse = statistics[2 * row + 1];
    // mean(g z) of the row, before anything of dx is written.
    const float gz =
        lane_sum(width, [=](std::int64_t i) { return up[i] * weight[i] * in[i] * inverse; }) /
        static_cast<float>(width);
    if (beta == Beta::zero) std::fill(out, out + width, 0.0F);
    for (std::int64_t i = 0; i < width; ++i) {
      const float z = in[i] * inverse;
      out[i] += (up[i] * weight[i] - z * gz) * inverse;
      weight_gradient[i] += up[i] * z;
    }
  }
}

void activate(Activation activation, const float* x, std::int64_t n, float* y) {
  switch (activation) {
    case Activation::gelu_tanh:
      gelu_tanh_forward(x, n, y);
      return;
    case Activation::gelu:
      for (std::int64_t i = 0; i < n; ++i)
        y[i] = 0.5F * x[i] * (1.0F + std::erf(x[i] * 0.70710678F));
      return;
    case Activation::relu:
      for (std::int64_t i = 0; i < n; ++i) y[i] = std::max(x[i], 0.0F);
      return;
    case Activation::silu:
      for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] / (1.0F + std::exp(-x[i]));
      return;
  }
}

void activate_gradient(Activation activation, const float* x, std::int64_t n, float* dx) {
  switch (activation) {
    case Activation::gelu_tanh:
      gelu_tanh_backward(x, n, dx);
      return;
    case Activation::gelu:
      for (std::int64_t i = 0; i < n; ++i) {
        dx[i] *= 0.5F * (1.0F + std::erf(x[i] * 0.70710678F)) +
                 x[i] * 0.39894228F * std::exp(-0.5F * x[i] * x[i]);
      }
      return;
    case Activation::relu:
      for (std::int64_t i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dx[i] : 0.0F;
      return;
    case Activation::silu:
      for (std::int64_t i = 0; i < n; ++i) {
        const float s = 1.0F / (1.0F + std::exp(-x[i]));
        dx[i] *= s * (1.0F + x[i] * (1.0F - s));
      }
      return;
  }
}

void gate(Activation activation, const float* x, std::int64_t rows, std::int64_t width, float* y) {
  if (activation == Activation::silu) return silu_gate(x, rows, width, y);
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* u = x + row * 2 * width + width;
    float* out = y + row * width;
    activate(activation, x + row * 2 * width, width, out);
    for (std::int64_t i = 0; i < width; ++i) out[i] *= u[i];
  }
}

void gate_gradient(Activation activation, const float* x, std::int64_t rows, std::int64_t width,
                   float* dx) {
  if (activation == Activation::silu) return silu_gate_gradient(x, rows, width, dx);
  std::vector<float> activated(static_cast<std::size_t>(width));
  for (std::int64_t row = 0; row < rows; ++row) {
    const float* g = x + row * 2 * width;
    const float* u = g + width;
    float* dg = dx + row * 2 * width;
    float* du = dg + width;
    // The curve's values are needed only for u's gradient.
    activate(activation, g, width, activated.data());
    for (std::int64_t i = 0; i < width; ++i) {
      // g's first: it reads du, which the next line overwrites.
      dg[i] = du[i] * u[i];
      du[i] *= activated[static_cast<std::size_t>(i)];
    }
    activate_gradient(activation, g, width, dg);
  }
}

WEIR_MULTIVERSION void dropout_add(const DropoutMask& mask, std::uint64_t first_element,
                                   const float* x, std::int64_t n, float* y) {
  if (!mask.active()) {
    for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
    return;
  }
  masked(mask, first_element, n,
         [=](std::int64_t i, float factor) { y[i] = y[i] * factor + x[i]; });
}

WEIR_MULTIVERSION void dropout(const DropoutMask& mask, std::uint64_t first_element, const float* x,
                               std::int64_t n, float* y) {
  if (!mask.active()) {
    if (x != y) std::copy(x, x + n, y);
    return;
  }
  masked(mask, first_element, n, [=](std::int64_t i, float factor) { y[i] = x[i] * factor; });
}

WEIR_MULTIVERSION void attention_softmax(float scale, KeyMask mask, std::int64_t s, float* x) {
  for (std::int64_t row = 0; row < s; ++row) {
    float* p = x + row * s;
    const std::int64_t n = mask == KeyMask::causal ? row + 1 : s;
    float largest = p[0];
    for (std::int64_t i = 1; i < n; ++i) largest = p[i] > largest ? p[i] : largest;
    for (std::int64_t i = 0; i < n; ++i) p[i] = fast_exp((p[i] - largest) * scale);
    const float inverse = 1.0F / lane_sum(n, [p](std::int64_t i) { return p[i]; });
    for (std::int64_t i = 0; i < n; ++i) p[i] *= inverse;
    for (std::int64_t i = n; i < s; ++i) p[i] = 0.0F;
  }
}

WEIR_MULTIVERSION void softmax_gradient(const float* p, KeyMask mask, std::int64_t s, float* dp) {
  for (std::int64_t row = 0; row < s; ++row) {
    const float* q = p + row * s;
    float* d = dp + row * s;
    const std::int64_t n = mask == KeyMask::causal ? row + 1 : s;
    const float dot = lane_sum(n, [=](std::int64_t i) { return q[i] * d[i]; });
    for (std::int64_t i = 0; i < n; ++i) d[i] = q[i] * (d[i] - dot);
    for (std::int64_t i = n; i < s; ++i) d[i] = 0.0F;
  }
}

WEIR_MULTIVERSION double cross_entropy(float* logits, const std::int32_t* targets,
                                       std::int64_t rows, std::int64_t vocabulary, float scale) {
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    float* x = logits + row * vocabulary;
    // Without a label a place has no loss, and no gradient.
    if (targets[row] < 0) {
      std::fill(x, x + vocabulary, 0.0F);
      continue;
    }
    float largest = x[0];
    for (std::int64_t i = 1; i < vocabulary; ++i) largest = x[i] > largest ? x[i] : largest;
    // Read before the logits are overwritten by their gradient.
    const float at_target = x[targets[row]];
    for (std::int64_t i = 0; i < vocabulary; ++i) x[i] = fast_exp(x[i] - largest);
    const float sum = lane_sum(vocabulary, [x](std::int64_t i) { return x[i]; });
    // log(sum exp(x - largest)) - (x_target - largest): the largest cancels.
    loss += std::log(static_cast<double>(sum)) - static_cast<double>(at_target - largest);
    // One factor both divides by the sum and scales.
    const float factor = scale / sum;
    for (std::int64_t i = 0; i < vocabulary; ++i) x[i] *= factor;
    // softmax - one-hot, times the scale.
    x[targets[row]] -= scale;
  }
  return loss;
}

WEIR_MULTIVERSION void column_sum(const float* x, std::int64_t rows, std::int64_t width, Beta beta,
                                  float* y) {
  if (beta == Beta::zero) std::fill(y, y + width, 0.0F);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) y[i] += x[row * width + i];
  }
}

WEIR_MULTIVERSION void add(const float* x, std::int64_t n, float* y) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

}  // namespace weir::cpu
