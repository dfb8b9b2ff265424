// The graphs are attention's formulas, operation by operation; cuDNN recognises the whole and runs
// it as one kernel a pass. With q [b, h, s, d] and so on, P = exp(q k' scale - L), below the
// diagonal where attention is causal:
//
//   forward   S = q k' scale   m = max S   l = sum exp(S - m)   P = exp(S - m) / l
//             context = P v    L = m + log l
//   backward  D = sum(context d_context)   dv = P' d_context   dS = P (d_context v' - D) scale
//             dk = dS' q   dq = dS k
//
// Which operations stand where, and that k' and v' are given as transposed views, is what the
// engines of cuDNN 9 look for; a graph that differs is simply not supported. Where several heads of
// queries share one of keys and values, these have fewer heads than what they are multiplied with,
// and dk and dv are sums of what the heads of queries give.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cudnn/cudnn_attention.hpp"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace weir::cuda {
namespace {

constexpr cudnnDataType_t kElement = CUDNN_DATA_BFLOAT16;

// Views of qkv, of the context, and of one number a row.
struct Views {
  CudnnDims heads, keys, scores, rows;
  CudnnDims qkv_strides, context_strides;
  explicit Views(const AttentionShape& z)
      : heads{z.batch, z.heads, z.s, z.d},
        keys{z.batch, z.kv_heads, z.s, z.d},
        scores{z.batch, z.heads, z.s, z.s},
        rows{z.batch, z.heads, z.s, 1},
        qkv_strides{z.s * z.qkv_width(), z.d, z.qkv_width(), 1},
        context_strides{z.s * z.width(), z.d, z.width(), 1} {}
};

CudnnDims transposed(const CudnnDims& dims) { return {dims[0], dims[1], dims[3], dims[2]}; }

// Scores of the keys that a query sees, minus infinity elsewhere: those up to its own place, and of
// a window those of which key + window is above it.
class Mask {
 public:
  Mask(CudnnGraph& g, const CudnnTensor& minus_infinity) : g_(g), minus_infinity_(minus_infinity) {}

  CudnnTensor causal(const CudnnTensor& scores) {
    const CudnnTensor row = index(2, scores), column = index(3, scores);
    return keep(CUDNN_POINTWISE_CMP_GE, row, column, scores);
  }
  CudnnTensor within(const CudnnTensor& window, const CudnnTensor& scores) {
    const CudnnTensor row = index(2, scores), column = index(3, scores);
    const CudnnTensor last =
        g_.pointwise(CUDNN_POINTWISE_ADD, column, window,
                     g_.intermediate(scores.dims, CUDNN_DATA_INT32), CUDNN_DATA_INT32);
    return keep(CUDNN_POINTWISE_CMP_GT, last, row, scores);
  }

 private:
  CudnnTensor index(std::int64_t axis, const CudnnTensor& scores) {
    return g_.index(axis, scores, g_.intermediate(scores.dims, CUDNN_DATA_INT32));
  }
  CudnnTensor keep(cudnnPointwiseMode_t compared, const CudnnTensor& a, const CudnnTensor& b,
                   const CudnnTensor& scores) {
    const CudnnTensor seen = g_.pointwise(
        compared, a, b, g_.intermediate(scores.dims, CUDNN_DATA_BOOLEAN), CUDNN_DATA_BOOLEAN);
    return g_.select(seen, scores, minus_infinity_, g_.intermediate(scores.dims));
  }

  CudnnGraph& g_;
  CudnnTensor minus_infinity_;
};

// `window` becomes the tensor of its number, where there is one. Without `minus_infinity` all are
// seen.
CudnnTensor seen_scores(const AttentionShape& shape, CudnnGraph& g, const CudnnTensor& scores,
                        const std::optional<CudnnTensor>& minus_infinity,
                        std::optional<CudnnTensor>& window) {
  if (!minus_infinity) return scores;
  Mask mask(g, *minus_infinity);
  const CudnnTensor seen = mask.causal(scores);
  if (shape.window == 0) return seen;
  window = g.scalar(CUDNN_DATA_INT32);
  return mask.within(*window, seen);
}

// Of qkv or its gradient, from a number of its rows on. A variant pack holds mutable pointers, of
// inputs too.
void* part(const void* qkv, const AttentionShape& z, std::int64_t at) {
  const auto* from = static_cast<const std::byte*>(qkv) + at * bytes_per_element(z.dtype);
  return const_cast<std::byte*>(from);
}
void* input(const void* data) { return const_cast<void*>(data); }

}  // namespace

bool CudnnAttention::suits(const AttentionShape& shape) {
  return shape.dtype == Dtype::bf16 && !shape.dropout && shape.d <= 128 && shape.d % 8 == 0;
}

AttentionForwardTensors build_forward(const AttentionShape& shape, CudnnGraph& g) {
  const Views views(shape);
  AttentionForwardTensors t;
  t.q = g.in_memory(views.heads, views.qkv_strides, kElement);
  t.k = g.in_memory(transposed(views.keys), transposed(views.qkv_strides), kElement);
  t.v = g.in_memory(views.keys, views.qkv_strides, kElement);
  t.scale = g.scalar();
  if (shape.causal) t.minus_infinity = g.scalar();
  t.context = g.in_memory(views.heads, views.context_strides, kElement);
  t.statistics = g.in_memory(views.rows, packed(views.rows), CUDNN_DATA_FLOAT);
  const auto scores = [&] { return g.intermediate(views.scores); };
  const auto rows = [&] { return g.intermediate(views.rows); };
  // S: what a query does not see is set to minus infinity.
  const CudnnTensor products = g.matmul(t.q, t.k, scores());
  const CudnnTensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, products, t.scale, scores());
  const CudnnTensor seen = seen_scores(shape, g, scaled, t.minus_infinity, t.window);
  // m and exp(S - m), which never overflows.
  const CudnnTensor largest = g.reduce(CUDNN_REDUCE_TENSOR_MAX, seen, rows());
  const CudnnTensor below = g.pointwise(CUDNN_POINTWISE_SUB, seen, largest, scores());
  const CudnnTensor powers = g.pointwise(CUDNN_POINTWISE_EXP, below, scores());
  const CudnnTensor sum = g.reduce(CUDNN_REDUCE_TENSOR_ADD, powers, rows());
  const CudnnTensor log = g.pointwise(CUDNN_POINTWISE_LOG, sum, rows());
  // L is all that the backward needs of m and l.
  g.pointwise(CUDNN_POINTWISE_ADD, largest, log, t.statistics);
  // P is rounded to the elements of v, with which it is multiplied.
  const CudnnTensor p =
      g.pointwise(CUDNN_POINTWISE_DIV, powers, sum, g.intermediate(views.scores, kElement));
  g.matmul(p, t.v, t.context);
  return t;
}

AttentionBackwardTensors build_backward(const AttentionShape& shape, CudnnGraph& g) {
  const Views views(shape);
  AttentionBackwardTensors t;
  t.q = g.in_memory(views.heads, views.qkv_strides, kElement);
  t.k = g.in_memory(transposed(views.keys), transposed(views.qkv_strides), kElement);
  t.v = g.in_memory(transposed(views.keys), transposed(views.qkv_strides), kElement);
  t.scale = g.scalar();
  if (shape.causal) t.minus_infinity = g.scalar();
  t.one = g.scalar();
  for (CudnnTensor* c : {&t.context, &t.d_context})
    *c = g.in_memory(views.heads, views.context_strides, kElement);
  for (CudnnTensor* r : {&t.statistics, &t.row_sums}) {
    *r = g.in_memory(views.rows, packed(views.rows), CUDNN_DATA_FLOAT);
  }
  t.dq = g.in_memory(views.heads, views.qkv_strides, kElement);
  for (CudnnTensor* d : {&t.dk, &t.dv}) *d = g.in_memory(views.keys, views.qkv_strides, kElement);
  const auto scores = [&] { return g.intermediate(views.scores); };
  const auto transpose = [&](const CudnnTensor& x) {
    return g.reshape(
        x, g.intermediate(transposed(views.scores), transposed(packed(views.scores)), kElement));
  };
  // x y, of all heads of queries, into one of keys or values.
  const auto multiply_shared = [&](const CudnnTensor& x, const CudnnTensor& y,
                                   const CudnnTensor& to) {
    // Each head of queries gives a product of its own; reducing to fewer heads adds those of a
    // group.
    if (shape.group() == 1) return g.matmul(x, y, to);
    return g.reduce(CUDNN_REDUCE_TENSOR_ADD, g.matmul(x, y, g.intermediate(views.heads)), to);
  };

  // D, one number a row.
  const CudnnTensor both =
      g.pointwise(CUDNN_POINTWISE_MUL, t.d_context, t.context, g.intermediate(views.heads));
  const CudnnTensor sums = g.reduce(CUDNN_REDUCE_TENSOR_ADD, both, g.intermediate(views.rows));
  g.pointwise(CUDNN_POINTWISE_MUL, sums, t.one,
              t.row_sums);  // where a graph with dropout has its scale

  // P once more, from q, k and L: nothing of s by s was kept.
  const CudnnTensor products = g.matmul(t.q, t.k, scores());
  const CudnnTensor scaled = g.pointwise(CUDNN_POINTWISE_MUL, products, t.scale, scores());
  const CudnnTensor below = g.pointwise(CUDNN_POINTWISE_SUB, scaled, t.statistics, scores());
  const CudnnTensor p = g.pointwise(
      CUDNN_POINTWISE_EXP, seen_scores(shape, g, below, t.minus_infinity, t.window), scores());
  multiply_shared(transpose(p), t.d_context, t.dv);

  // dS, and with it dk and dq.
  const CudnnTensor dp = g.matmul(t.d_context, t.v, scores());
  const CudnnTensor centred = g.pointwise(CUDNN_POINTWISE_SUB, dp, t.row_sums, scores());
  const CudnnTensor weighed = g.pointwise(CUDNN_POINTWISE_MUL, centred, p, scores());
  const CudnnTensor ds = g.pointwise(CUDNN_POINTWISE_MUL, weighed, t.scale, scores());
  multiply_shared(transpose(ds), t.q, t.dk);
  // For the scores k was described transposed; dq takes it as it lies in memory.
  const CudnnTensor k = g.reshape(t.k, g.intermediate(views.keys, views.qkv_strides, kElement));
  g.matmul(ds, k, t.dq);
  return t;
}

std::optional<CudnnAttention> CudnnAttention::make(const AttentionShape& shape,
                                                   const CudnnTarget& target) {
  CudnnGraph forward, backward;
  const AttentionForwardTensors f = build_forward(shape, forward);
  const AttentionBackwardTensors b = build_backward(shape, backward);
  std::optional<CudnnPlan> forward_plan =
      CudnnPlan::choose(forward.finish(target.handle()), target);
  if (!forward_plan) return std::nullopt;
  std::optional<CudnnPlan> backward_plan =
      CudnnPlan::choose(backward.finish(target.handle()), target);
  if (!backward_plan) return std::nullopt;
  return CudnnAttention(shape, f, std::move(*forward_plan), b, std::move(*backward_plan));
}

CudnnAttention::CudnnAttention(const AttentionShape& shape, const AttentionForwardTensors& f,
                               CudnnPlan fp, const AttentionBackwardTensors& b, CudnnPlan bp)
    : shape_(shape),
      forward_(f),
      forward_plan_(std::move(fp)),
      backward_(b),
      backward_plan_(std::move(bp)) {}

std::int64_t CudnnAttention::workspace_bytes() const {
  return std::max(forward_plan_.workspace_bytes(), backward_plan_.workspace_bytes());
}

void CudnnAttention::forward(cudnnHandle_t handle, const AttentionForward& call,
                             void* workspace) const {
  float scale = shape_.scale(), minus_infinity = -std::numeric_limits<float>::infinity();
  auto window = static_cast<std::int32_t>(shape_.window);
  std::vector bindings{CudnnBinding{forward_.q.id, part(call.qkv, shape_, 0)},
                       CudnnBinding{forward_.k.id, part(call.qkv, shape_, shape_.keys_at())},
                       CudnnBinding{forward_.v.id, part(call.qkv, shape_, shape_.values_at())},
                       CudnnBinding{forward_.scale.id, &scale},
                       CudnnBinding{forward_.context.id, call.context},
                       CudnnBinding{forward_.statistics.id, call.statistics}};
  if (forward_.minus_infinity) bindings.push_back({forward_.minus_infinity->id, &minus_infinity});
  if (forward_.window) bindings.push_back({forward_.window->id, &window});
  forward_plan_.execute(handle, bindings, workspace);
}

void CudnnAttention::backward(cudnnHandle_t handle, const AttentionBackward& call,
                              void* workspace) const {
  float scale = shape_.scale(), minus_infinity = -std::numeric_limits<float>::infinity(), one = 1;
  auto window = static_cast<std::int32_t>(shape_.window);
  std::vector bindings{CudnnBinding{backward_.q.id, part(call.qkv, shape_, 0)},
                       CudnnBinding{backward_.k.id, part(call.qkv, shape_, shape_.keys_at())},
                       CudnnBinding{backward_.v.id, part(call.qkv, shape_, shape_.values_at())},
                       CudnnBinding{backward_.scale.id, &scale},
                       CudnnBinding{backward_.one.id, &one},
                       CudnnBinding{backward_.context.id, input(call.context)},
                       CudnnBinding{backward_.statistics.id, input(call.statistics)},
                       CudnnBinding{backward_.d_context.id, input(call.d_context)},
                       CudnnBinding{backward_.row_sums.id, call.row_sums},
                       CudnnBinding{backward_.dq.id, part(call.d_qkv, shape_, 0)},
                       CudnnBinding{backward_.dk.id, part(call.d_qkv, shape_, shape_.keys_at())},
                       CudnnBinding{backward_.dv.id, part(call.d_qkv, shape_, shape_.values_at())}};
  if (backward_.minus_infinity) bindings.push_back({backward_.minus_infinity->id, &minus_infinity});
  if (backward_.window) bindings.push_back({backward_.window->id, &window});
  backward_plan_.execute(handle, bindings, workspace);
}

}  // namespace weir::cuda
