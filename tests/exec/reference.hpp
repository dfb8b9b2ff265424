// GPT-2's forward in double precision, written straight from its definition, layer by layer; no
// dropout. Gradients come from it by central differences, so it shares nothing with the kernels
// under test.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

struct Batch {
  std::size_t samples = 1, tokens = 1;
  const std::int32_t* ids = nullptr;  // [samples, tokens + 1]
};

// The block, in the order of its twelve parameters.
inline Matrix transformer(const TransformerShape& s, const std::vector<Matrix>& p, const Matrix& x,
                          const Batch& batch) {
  const auto h = static_cast<std::size_t>(s.hidden), f = static_cast<std::size_t>(s.ffn);
  const auto heads = static_cast<std::size_t>(s.heads), d = static_cast<std::size_t>(s.head_dim);
  const std::size_t rows = batch.samples * batch.tokens, n = batch.tokens;
  const Matrix qkv =
      linear(norm(x, p[0], p[1], rows, h, s.norm_epsilon), p[2], p[3], rows, h, 3 * h);
  Matrix context(rows * h);
  for (std::size_t b = 0; b < batch.samples; ++b) {
    for (std::size_t a = 0; a < heads; ++a) {
      for (std::size_t i = 0; i < n; ++i) {
        const auto at = [&](std::size_t token, std::size_t part, std::size_t e) {
          return qkv[(b * n + token) * 3 * h + part * h + a * d + e];
        };
        std::vector<double> weight(i + 1);
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t e = 0; e < d; ++e) score += at(i, 0, e) * at(j, 1, e);
          sum += weight[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j <= i; ++j) {
          for (std::size_t e = 0; e < d; ++e)
            context[(b * n + i) * h + a * d + e] += weight[j] / sum * at(j, 2, e);
        }
      }
    }
  }
  Matrix y = linear(context, p[4], p[5], rows, h, h);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  Matrix u = linear(norm(y, p[6], p[7], rows, h, s.norm_epsilon), p[8], p[9], rows, h, f);
  for (double& value : u) value = gelu(value);
  const Matrix down = linear(u, p[10], p[11], rows, f, h);
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
      for (std::size_t i = 0; i < h; ++i) y[r * h + i] = p[0][id * h + i] + p[1][t * h + i];
    }
    return y;
  }
  if (const auto* n = std::get_if<NormShape>(&layer.shape)) {
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
