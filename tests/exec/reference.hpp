// GPT-2's and Llama's forward in double precision, written straight from the definitions, layer by
// layer; no dropout. Gradients come from it by central differences, so it shares nothing with the
// kernels under test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "plan/model/layer_tensors.hpp"
#include "plan/model/model.hpp"

namespace weir::reference {

using Matrix = std::vector<double>;  // row-major [rows, width]

// y = x w' + bias; w is [out, in].
inline Matrix linear(const Matrix& x, const Matrix& w, const Matrix& bias, std::size_t rows,
                     std::size_t in, std::size_t out) {
  Matrix y(rows * out);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      double sum = bias.empty() ? 0 : bias[o];
      for (std::size_t i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
      y[r * out + o] = sum;
    }
  }
  return y;
}

inline Matrix norm(const Matrix& x, const Matrix& weight, const Matrix& bias, std::size_t rows,
                   std::size_t h, double epsilon) {
  Matrix y(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < h; ++i) mean += x[r * h + i] / static_cast<double>(h);
    for (std::size_t i = 0; i < h; ++i)
      variance += std::pow(x[r * h + i] - mean, 2) / static_cast<double>(h);
    for (std::size_t i = 0; i < h; ++i) {
      y[r * h + i] = (x[r * h + i] - mean) / std::sqrt(variance + epsilon) * weight[i] + bias[i];
    }
  }
  return y;
}

// y = x / sqrt(mean(x^2) + epsilon) weight, row by row.
inline Matrix rms_norm(const Matrix& x, const Matrix& weight, double epsilon) {
  Matrix y(x.size());
  const std::size_t h = weight.size();
  for (std::size_t r = 0; r < x.size() / h; ++r) {
    double square = 0;
    for (std::size_t i = 0; i < h; ++i)
      square += x[r * h + i] * x[r * h + i] / static_cast<double>(h);
    for (std::size_t i = 0; i < h; ++i)
      y[r * h + i] = x[r * h + i] / std::sqrt(square + epsilon) * weight[i];
  }
  return y;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Batch {
  std::size_t samples = 1, tokens = 1;
  const std::int32_t* ids = nullptr;  // [samples, tokens + 1]
};

// What the pair i of a head of d turns by a token: theta^(-2i/d), scaled.
inline double frequency(const RotaryAngles& a, std::size_t i, std::size_t d) {
  const double f = std::pow(a.theta, -2 * static_cast<double>(i) / static_cast<double>(d));
  if (a.scaling == RotaryScaling::linear) return f / a.factor;
  if (a.scaling != RotaryScaling::llama3) return f;
  // In turns over the original context: below low_frequency slowed, above high_frequency kept.
  const double turns = static_cast<double>(a.original_positions) * f / (2 * M_PI);
  const double share = (turns - a.low_frequency) / (a.high_frequency - a.low_frequency);
  return share <= 0 ? f / a.factor : share >= 1 ? f : (1 - share) * f / a.factor + share * f;
}

// One head's d numbers turned to a position, the first half against the second.
inline void turn(const RotaryAngles& a, std::size_t position, double* head, std::size_t d) {
  for (std::size_t i = 0; i < d / 2; ++i) {
    const double angle = static_cast<double>(position) * frequency(a, i, d);
    const double x = head[i], y = head[i + d / 2];
    head[i] = x * std::cos(angle) - y * std::sin(angle);
    head[i + d / 2] = y * std::cos(angle) + x * std::sin(angle);
  }
}

// softmax(q k' / sqrt d) v of rows [rows, (heads + 2 kv_heads) d]; several queries share a key.
inline Matrix attention(const TransformerShape& s, const Matrix& qkv, const Batch& batch) {
  const auto heads = static_cast<std::size_t>(s.heads), d = static_cast<std::size_t>(s.head_dim);
  const auto kv = static_cast<std::size_t>(s.kv_heads);
  const std::size_t n = batch.tokens, width = (heads + 2 * kv) * d;
  Matrix context(batch.samples * n * heads * d);
  for (std::size_t b = 0; b < batch.samples; ++b) {
    for (std::size_t a = 0; a < heads; ++a) {
      const std::size_t shared = a / (heads / kv);
      const auto at = [&](std::size_t token, std::size_t head, std::size_t e) {
        return qkv[(b * n + token) * width + head * d + e];
      };
      for (std::size_t i = 0; i < n; ++i) {
        std::vector<double> weight(i + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t e = 0; e < d; ++e) score += at(i, a, e) * at(j, heads + shared, e);
          sum += weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t e = 0; e < d; ++e) {
            context[((b * n + i) * heads + a) * d + e] +=
                weight[j] / sum * at(j, heads + kv + shared, e);
          }
        }
      }
    }
  }
  return context;
}

// The block; parameters in the order in which it uses them, what it lacks left out.
inline Matrix transformer(const TransformerShape& s, const std::vector<Matrix>& p, const Matrix& x,
                          const Batch& batch) {
  const auto h = static_cast<std::size_t>(s.hidden), f = static_cast<std::size_t>(s.ffn);
  const auto heads = static_cast<std::size_t>(s.heads), d = static_cast<std::size_t>(s.head_dim);
  const auto kv = static_cast<std::size_t>(s.kv_heads);
  const std::size_t rows = batch.samples * batch.tokens, width = (heads + 2 * kv) * d;
  std::size_t next = 0;
  const auto normed = [&](const Matrix& from) {
    if (s.norm == NormKind::rms_norm) return rms_norm(from, p[next++], s.norm_epsilon);
    Matrix y = norm(from, p[next], p[next + 1], rows, h, s.norm_epsilon);
    next += 2;
    return y;
  };
  const auto product = [&](const Matrix& from, std::size_t in, std::size_t out, bool bias) {
    Matrix y = linear(from, p[next], bias ? p[next + 1] : Matrix{}, rows, in, out);
    next += bias ? 2 : 1;
    return y;
  };
  Matrix qkv = product(normed(x), h, width, s.qkv_bias);
  const std::size_t gains = next;
  if (s.qk_norm) next += 2;
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t head = 0; head < heads + kv; ++head) {
      double* at = &qkv[r * width + head * d];
      if (s.qk_norm) {
        const Matrix y =
            rms_norm(Matrix(at, at + d), p[head < heads ? gains : gains + 1], s.norm_epsilon);
        std::copy(y.begin(), y.end(), at);
      }
      if (s.rotary) turn(s.angles, r % batch.tokens, at, d);
    }
  }
  Matrix y = product(attention(s, qkv, batch), heads * d, h, s.output_bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  const std::size_t up = (s.gated ? 2 : 1) * f;
  const Matrix u = product(normed(y), h, up, s.mlp_bias);
  Matrix g(rows * f);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < f; ++i) {
      const double first = u[r * up + i];
      g[r * f + i] =
          s.activation == Activation::silu ? first / (1 + std::exp(-first)) : gelu(first);
      if (s.gated) g[r * f + i] *= u[r * up + f + i];
    }
  }
  const Matrix down = product(g, f, h, s.mlp_bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += down[i];
  return y;
}

// Any layer; a head gives its mean loss over the batch's tokens as a matrix of one element.
inline Matrix forward(const Layer& layer, const std::vector<Matrix>& p, const Matrix& x,
                      const Batch& batch) {
  const std::size_t rows = batch.samples * batch.tokens;
  if (const auto* e = std::get_if<EmbeddingShape>(&layer.shape)) {
    const auto h = static_cast<std::size_t>(e->hidden);
    Matrix y(rows * h);
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t b = r / batch.tokens, t = r % batch.tokens;
      const auto id = static_cast<std::size_t>(batch.ids[b * (batch.tokens + 1) + t]);
      for (std::size_t i = 0; i < h; ++i)
        y[r * h + i] = p[0][id * h + i] + (e->positions > 0 ? p[1][t * h + i] : 0);
    }
    return y;
  }
  if (const auto* n = std::get_if<NormShape>(&layer.shape)) {
    if (n->kind == NormKind::rms_norm) return rms_norm(x, p[0], n->epsilon);
    return norm(x, p[0], p[1], rows, static_cast<std::size_t>(n->hidden), n->epsilon);
  }
  if (const auto* head = std::get_if<HeadShape>(&layer.shape)) {
    const auto h = static_cast<std::size_t>(head->hidden),
               v = static_cast<std::size_t>(head->vocabulary);
    const Matrix logits = linear(x, p[0], {}, rows, h, v);
    double loss = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      const std::size_t b = r / batch.tokens, t = r % batch.tokens;
      const auto target = static_cast<std::size_t>(batch.ids[b * (batch.tokens + 1) + t + 1]);
      double sum = 0;
      for (std::size_t i = 0; i < v; ++i) sum += std::exp(logits[r * v + i]);
      loss += std::log(sum) - logits[r * v + target];
    }
    return {loss / static_cast<double>(rows)};
  }
  return transformer(std::get<TransformerShape>(layer.shape), p, x, batch);
}

}  // namespace weir::reference
