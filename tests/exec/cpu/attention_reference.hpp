// Attention of one micro-batch in double precision, straight from its definition, with
// dropout of the probabilities and with the gradients written out by the chain rule. What every
// fused implementation is held against.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "exec/training/philox.hpp"

namespace weir::reference {

struct AttentionCase {
  std::int64_t batch = 1, s = 1, heads = 1, d = 1;
  DropoutMask mask;  // of the probabilities, row-major in [batch, heads, s, s]
  bool causal = true;
  std::int64_t kv_heads = heads;  // head h of queries reads keys and values h / (heads / kv_heads)
  std::int64_t window = 0;        // keys that a query sees, itself the last; 0: all
  [[nodiscard]] std::int64_t qkv_width() const { return (heads + 2 * kv_heads) * d; }
};

struct AttentionResult {
  std::vector<double> context;     // [batch, s, heads, d]
  std::vector<double> statistics;  // [batch, heads, s]: log sum exp of the scaled scores
  std::vector<double> d_qkv;       // as qkv
};

// qkv: [batch, s, (heads + 2 kv_heads) d], the queries' heads, the keys', the values'; d_context:
// [batch, s, heads, d].
template <class Values>
AttentionResult attention(const AttentionCase& a, const Values& qkv, const Values& d_context) {
  AttentionResult r;
  r.context.assign(static_cast<std::size_t>(a.batch * a.s * a.heads * a.d), 0);
  r.statistics.assign(static_cast<std::size_t>(a.batch * a.heads * a.s), 0);
  r.d_qkv.assign(static_cast<std::size_t>(a.batch * a.s * a.qkv_width()), 0);
  const double scale = 1 / std::sqrt(static_cast<double>(a.d));
  for (std::int64_t b = 0; b < a.batch; ++b) {
    for (std::int64_t head = 0; head < a.heads; ++head) {
      const auto at = [&](std::int64_t token, int part, std::int64_t e) {
        const std::int64_t shared = head / (a.heads / a.kv_heads),
                           before = a.heads + (part - 1) * a.kv_heads;
        return static_cast<std::size_t>((b * a.s + token) * a.qkv_width() +
                                        (part == 0 ? head : before + shared) * a.d + e);
      };
      const auto out = [&](std::int64_t token, std::int64_t e) {
        return static_cast<std::size_t>(((b * a.s + token) * a.heads + head) * a.d + e);
      };
      for (std::int64_t i = 0; i < a.s; ++i) {
        const std::int64_t keys = a.causal ? i + 1 : a.s;
        const std::int64_t first = a.window > 0 && keys > a.window ? keys - a.window : 0;
        const auto seen = static_cast<std::size_t>(keys);
        std::vector<double> p(seen), factor(seen, 1.0), dp(seen);
        double sum = 0, dot = 0;
        for (std::int64_t j = first; j < keys; ++j) {
          double score = 0;
          for (std::int64_t e = 0; e < a.d; ++e)
            score += double{qkv[at(i, 0, e)]} * double{qkv[at(j, 1, e)]};
          sum += p[static_cast<std::size_t>(j)] = std::exp(score * scale);
        }
        const std::int64_t row = (b * a.heads + head) * a.s + i;
        r.statistics[static_cast<std::size_t>(row)] = std::log(sum);
        for (std::int64_t j = first; j < keys; ++j) {
          const auto k = static_cast<std::size_t>(j);
          p[k] /= sum;
          if (a.mask.active()) factor[k] = a.mask.factor(static_cast<std::uint64_t>(row * a.s + j));
          for (std::int64_t e = 0; e < a.d; ++e) {
            r.context[out(i, e)] += p[k] * factor[k] * qkv[at(j, 2, e)];
            dp[k] += factor[k] * d_context[out(i, e)] * qkv[at(j, 2, e)];
            r.d_qkv[at(j, 2, e)] += p[k] * factor[k] * d_context[out(i, e)];
          }
          dot += p[k] * dp[k];
        }
        for (std::int64_t j = first; j < keys; ++j) {
          const auto k = static_cast<std::size_t>(j);
          const double ds = p[k] * (dp[k] - dot) * scale;
          for (std::int64_t e = 0; e < a.d; ++e) {
            r.d_qkv[at(i, 0, e)] += ds * qkv[at(j, 1, e)];
            r.d_qkv[at(j, 1, e)] += ds * qkv[at(i, 0, e)];
          }
        }
      }
    }
  }
  return r;
}

}  // namespace weir::reference
