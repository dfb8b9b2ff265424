// Attention head by head on strided views of qkv.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/unfused_attention.hpp"

#include <cmath>

#include "exec/cpu/kernels/kernels.hpp"

namespace weir::cpu {
namespace {

// One head's gemms on views of qkv and of the context.
struct HeadGemms {
  Gemm scores, mix, d_probabilities, d_value, d_query, d_key;
  HeadGemms(const AttentionSize& z, bool first_of_group) {
    const std::int64_t s = z.s, d = z.d, q = z.qkv_width(), c = z.width();
    scores = {.m = s, .n = s, .k = d, .a_row = q, .b_row = 1, .b_column = q, .c_row = s};  // q k'
    mix = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = c};                    // p v
    d_probabilities = {
        .m = s, .n = s, .k = d, .a_row = c, .b_row = 1, .b_column = q, .c_row = s};         // dc v'
    d_value = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = c, .c_row = q};  // p' dc
    d_query = {.m = s, .n = d, .k = s, .a_row = s, .b_row = q, .c_row = q};                 // ds k
    d_key = {.m = s, .n = d, .k = s, .a_row = 1, .a_column = s, .b_row = q, .c_row = q};    // ds' q
    d_value.accumulate = d_key.accumulate = !first_of_group;
  }
};

float score_scale(const AttentionSize& z) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(z.d)));
}

// One head's, into its matrix.
float* head_probabilities(const UnfusedAttention& a, const AttentionHead& head, const Gemm& scores,
                          Matmul& matmul) {
  float* p = a.probabilities + head.matrix * a.size.s * a.size.s;
  matmul.run(scores, a.qkv + head.query, a.qkv + head.key, nullptr, p);
  attention_softmax(score_scale(a.size), a.size.mask, a.size.s, p);
  return p;
}

}  // namespace

void prepare_unfused(const AttentionSize& size, Matmul& matmul) {
  for (const bool first : {true, false}) {
    const HeadGemms p(size, first);
    for (const Gemm& gemm : {p.scores, p.mix, p.d_probabilities, p.d_value, p.d_query, p.d_key}) {
      matmul.prepare(gemm);
    }
    if (size.group() == 1) break;
  }
}

void unfused_forward(const UnfusedAttention& a, Matmul& matmul) {
  const AttentionSize& z = a.size;
  const std::int64_t square = z.s * z.s;
  for_heads(z, [&](const AttentionHead& head) {
    const HeadGemms gemms(z, head.first_of_group);
    const float* p = head_probabilities(a, head, gemms.scores, matmul);
    const float* mixed = p;
    if (a.mask.active()) {
      dropout(a.mask, static_cast<std::uint64_t>(head.drawn * square), p, square, a.scratch);
      mixed = a.scratch;
    }
    matmul.run(gemms.mix, mixed, a.qkv + head.value, nullptr, a.context + head.context);
  });
}

void unfused_probabilities(const UnfusedAttention& a, Matmul& matmul) {
  for_heads(a.size, [&](const AttentionHead& head) {
    head_probabilities(a, head, HeadGemms(a.size, head.first_of_group).scores, matmul);
  });
}

void unfused_backward(const UnfusedAttention& a, const float* d_context, float* d_qkv,
                      Matmul& matmul) {
  const AttentionSize& z = a.size;
  const std::int64_t square = z.s * z.s;
  const float scale = score_scale(z);
  float* ds = a.scratch;
  float* masked = a.scratch + square;
  for_heads(z, [&](const AttentionHead& head) {
    const HeadGemms gemms(z, head.first_of_group);
    const float* p = a.probabilities + head.matrix * square;
    const float* dc = d_context + head.context;
    // Masks are numbered by head, so the backward draws what the forward drew.
    const auto first = static_cast<std::uint64_t>(head.drawn * square);
    const float* mixed = p;
    if (a.mask.active()) {
      dropout(a.mask, first, p, square, masked);
      mixed = masked;
    }
    // dv takes the masked probabilities, ds below the unmasked.
    matmul.run(gemms.d_value, mixed, dc, nullptr, d_qkv + head.value);
    matmul.run(gemms.d_probabilities, dc, a.qkv + head.value, nullptr, ds);
    // dp goes back through the mask before the softmax sees it.
    if (a.mask.active()) dropout(a.mask, first, ds, square, ds);
    softmax_gradient(p, z.mask, z.s, ds);
    for (std::int64_t i = 0; i < square; ++i) ds[i] *= scale;
    matmul.run(gemms.d_query, ds, a.qkv + head.key, nullptr, d_qkv + head.query);
    matmul.run(gemms.d_key, ds, a.qkv + head.query, nullptr, d_qkv + head.key);
  });
}

}  // namespace weir::cpu
