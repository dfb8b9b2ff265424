// GPT-2's, Llama's, BERT's and ViT's forward in double precision, written straight from the
// definitions, layer by layer; no dropout. Gradients come from it by central differences, so it
// shares nothing with the kernels under test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
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

inline double activated(Activation activation, double x) {
  switch (activation) {
    case Activation::gelu:
      return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
    case Activation::gelu_tanh:
      return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Activation::relu:
      return std::max(x, 0.0);
    case Activation::silu:
      break;
  }
  return x / (1 + std::exp(-x));
}

struct Batch {
  std::size_t samples = 1, tokens = 1;
  const std::int32_t* ids = nullptr;  // [samples, words]: plan/model/sample
  std::size_t words = 0;              // of a sample
  bool masked = false;
  [[nodiscard]] const std::int32_t* sample(std::size_t b) const { return ids + b * words; }
  [[nodiscard]] std::size_t token(std::size_t b, std::size_t t) const {
    return static_cast<std::size_t>(sample(b)[t]);
  }
  [[nodiscard]] std::size_t type(std::size_t b, std::size_t t) const {
    return static_cast<std::size_t>(sample(b)[tokens + t]);
  }
  // Negative: none.
  [[nodiscard]] std::int32_t target(std::size_t b, std::size_t t) const {
    return sample(b)[masked ? 2 * tokens + t : t + 1];
  }
  [[nodiscard]] double number(std::size_t b, std::size_t i) const {
    return static_cast<double>(std::bit_cast<float>(sample(b)[i]));
  }
  [[nodiscard]] std::int32_t label(std::size_t b) const {
    return static_cast<std::int32_t>(number(b, words - 1));
  }
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
        const std::size_t seen = s.causal ? i + 1 : n;
        std::vector<double> weight(seen);
        double sum = 0;
        for (std::size_t j = 0; j < seen; ++j) {
          double score = 0;
          for (std::size_t e = 0; e < d; ++e) score += at(i, a, e) * at(j, heads + shared, e);
          sum += weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j < seen; ++j) {
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

// The block; parameters in the order of the pre-norm block's use, what it lacks left out.
// Post-norm: norms behind the sums.
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
  // A post-norm block's first norm stands in front of what its sum is made of.
  const std::size_t first_norm = next;
  if (!s.pre_norm) next += s.norm == NormKind::rms_norm ? 1 : 2;
  const auto normed_by = [&](std::size_t place, const Matrix& from) {
    const std::size_t after = std::exchange(next, place);
    Matrix y = normed(from);
    next = after;
    return y;
  };
  Matrix qkv = product(s.pre_norm ? normed(x) : x, h, width, s.qkv_bias);
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
  if (!s.pre_norm) y = normed_by(first_norm, y);
  const std::size_t second_norm = next;
  if (!s.pre_norm) next += s.norm == NormKind::rms_norm ? 1 : 2;
  const std::size_t up = (s.gated ? 2 : 1) * f;
  const Matrix u = product(s.pre_norm ? normed(y) : y, h, up, s.mlp_bias);
  Matrix g(rows * f);
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t i = 0; i < f; ++i) {
      g[r * f + i] = activated(s.activation, u[r * up + i]);
      if (s.gated) g[r * f + i] *= u[r * up + f + i];
    }
  }
  const Matrix down = product(g, f, h, s.mlp_bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += down[i];
  return s.pre_norm ? y : normed_by(second_norm, y);
}

// A class token and the patches of images, row by row from the upper left, each projected:
// w [hidden, channels, side, side]; and positions.
inline Matrix patches(const EmbeddingShape& e, const std::vector<Matrix>& p, const Batch& batch) {
  const auto h = static_cast<std::size_t>(e.hidden), side = static_cast<std::size_t>(e.patch_side);
  const auto channels = static_cast<std::size_t>(e.image.channels);
  const auto width = static_cast<std::size_t>(e.image.width);
  const std::size_t across = width / side;
  Matrix y(batch.samples * batch.tokens * h);
  for (std::size_t r = 0; r < batch.samples * batch.tokens; ++r) {
    const std::size_t b = r / batch.tokens, t = r % batch.tokens;
    for (std::size_t o = 0; o < h; ++o) {
      double sum = p[3][t * h + o] + (t == 0 ? p[0][o] : p[2][o]);
      for (std::size_t i = 0; t > 0 && i < channels * side * side; ++i) {
        const std::size_t c = i / (side * side), dy = i / side % side, dx = i % side;
        const std::size_t row = (t - 1) / across * side + dy, column = (t - 1) % across * side + dx;
        sum += batch.number(b, (row * width + column) * channels + c) *
               p[1][o * channels * side * side + i];
      }
      y[r * h + o] = sum;
    }
  }
  return y;
}

// Sums of rows of the tables, and their norm.
inline Matrix embedding(const EmbeddingShape& e, const std::vector<Matrix>& p, const Batch& batch) {
  if (e.patch > 0) return patches(e, p, batch);
  const auto h = static_cast<std::size_t>(e.hidden);
  const std::size_t rows = batch.samples * batch.tokens;
  const std::size_t types = e.positions > 0 ? 2 : 1, gain = types + (e.token_types > 0 ? 1 : 0);
  Matrix y(rows * h);
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t b = r / batch.tokens, t = r % batch.tokens;
    for (std::size_t i = 0; i < h; ++i) {
      y[r * h + i] = p[0][batch.token(b, t) * h + i];
      if (e.positions > 0) y[r * h + i] += p[1][t * h + i];
      if (e.token_types > 0) y[r * h + i] += p[types][batch.type(b, t) * h + i];
    }
  }
  return e.norm ? norm(y, p[gain], p[gain + 1], rows, h, e.norm_epsilon) : y;
}

// The mean over the places that have a label; in front of the projection a transform, if any.
inline Matrix head_loss(const HeadShape& head, const std::vector<Matrix>& p, Matrix x,
                        const Batch& batch) {
  const auto h = static_cast<std::size_t>(head.hidden),
             v = static_cast<std::size_t>(head.vocabulary);
  const std::size_t rows = batch.samples * batch.tokens;
  const std::size_t weight = head.dense == HeadDense::transform ? 4 : 0;
  if (head.dense == HeadDense::transform) {
    x = linear(x, p[0], p[1], rows, h, h);
    for (double& value : x) value = activated(head.activation, value);
    x = norm(x, p[2], p[3], rows, h, head.norm_epsilon);
  }
  const Matrix logits = linear(x, p[weight], head.bias ? p[weight + 1] : Matrix{}, rows, h, v);
  double loss = 0, labels = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::size_t b = r / batch.tokens, t = r % batch.tokens;
    if (head.first_token && t > 0) continue;
    const std::int32_t target = head.first_token ? batch.label(b) : batch.target(b, t);
    if (target < 0) continue;
    double sum = 0;
    for (std::size_t i = 0; i < v; ++i) sum += std::exp(logits[r * v + i]);
    loss += std::log(sum) - logits[r * v + static_cast<std::size_t>(target)];
    labels += 1;
  }
  return {loss / labels};
}

// Any layer; a head gives its mean loss over the batch's tokens as a matrix of one element.
inline Matrix forward(const Layer& layer, const std::vector<Matrix>& p, const Matrix& x,
                      const Batch& batch) {
  const std::size_t rows = batch.samples * batch.tokens;
  if (const auto* e = std::get_if<EmbeddingShape>(&layer.shape)) return embedding(*e, p, batch);
  if (const auto* n = std::get_if<NormShape>(&layer.shape)) {
    if (n->kind == NormKind::rms_norm) return rms_norm(x, p[0], n->epsilon);
    return norm(x, p[0], p[1], rows, static_cast<std::size_t>(n->hidden), n->epsilon);
  }
  if (const auto* head = std::get_if<HeadShape>(&layer.shape)) return head_loss(*head, p, x, batch);
  return transformer(std::get<TransformerShape>(layer.shape), p, x, batch);
}

}  // namespace weir::reference
