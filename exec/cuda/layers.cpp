// Embedding, norm and head; the transformer block has a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/layers.hpp"

#include <algorithm>
#include <stdexcept>

#include "plan/layer_tensors.hpp"

namespace weir::cuda {
namespace {

[[noreturn]] void no_kernels() { throw std::logic_error("a timed or sized layer has no kernels"); }

Into into(const LayerCall& call) { return call.accumulate ? Into::add : Into::overwrite; }

// logits[T, V] = x[T, h] w[V, h]'; dx = dlogits w; dw = dlogits' x.
struct HeadProducts {
  Product forward, input, weight;
};
HeadProducts head_products(const HeadShape& s, std::int64_t rows, bool accumulate) {
  const std::int64_t v = s.vocabulary, h = s.hidden;
  return {{.m = rows, .n = v, .k = h, .a_row = h, .b_row = 1, .b_column = h, .c_row = v, .bias = s.bias},
          {.m = rows, .n = h, .k = v, .a_row = v, .b_row = h, .c_row = h},
          {.m = v, .n = h, .k = rows, .a_row = 1, .a_column = v, .b_row = h, .c_row = h, .accumulate = accumulate}};
}

}  // namespace

std::int64_t ScratchNeeds::bytes() const {
  return Matmul::kScratchBytes + aligned_bytes(tokens * 4) + aligned_bytes((row_losses + 1) * 8) +
         aligned_bytes(partials * 4) + aligned_bytes(attention * 4);
}

void ScratchNeeds::cover(const ScratchNeeds& other) {
  tokens = std::max(tokens, other.tokens);
  row_losses = std::max(row_losses, other.row_losses);
  partials = std::max(partials, other.partials);
  attention = std::max(attention, other.attention);
}

void Workbench::use(std::byte* scratch, const ScratchNeeds& needs) {
  const auto take = [&scratch](std::int64_t bytes) {
    std::byte* place = scratch;
    scratch += aligned_bytes(bytes);
    return static_cast<void*>(place);
  };
  products = take(Matmul::kScratchBytes);
  tokens = static_cast<std::int32_t*>(take(needs.tokens * 4));
  row_losses = static_cast<double*>(take((needs.row_losses + 1) * 8));
  partials = static_cast<float*>(take(needs.partials * 4));
  attention = static_cast<float*>(take(needs.attention * 4));
}

void Workbench::multiply(const Product& product, const float* a, const float* b, const float* bias, float* c) const {
  matmul->run(product, a, b, bias, c, products, stream);
}

Tokens Workbench::bring_tokens(const LayerCall& call) const {
  const std::int64_t count = call.batch * (call.seq_length + 1);
  CUDA_CHECK(cudaMemcpyAsync(tokens, call.tokens, static_cast<std::size_t>(count) * 4, cudaMemcpyHostToDevice, stream));
  return {tokens, call.batch, call.seq_length};
}

ScratchNeeds prepare(const EmbeddingShape&, std::int64_t batch, std::int64_t seq_length, Matmul&) {
  return {.tokens = batch * (seq_length + 1)};
}

void forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  embed(on.bring_tokens(call), call.weights[0].floats(), shape.positions > 0 ? call.weights[1].floats() : nullptr,
        shape.hidden, mask_of(call, shape.dropout, DropoutSite::embedding), call.output.floats(), on.stream);
}

void backward_input(const EmbeddingShape&, const LayerCall&, const Workbench&) {}  // tokens have no gradient

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const auto clear = [&](const Tensor& gradient, std::int64_t rows) {
    CUDA_CHECK(cudaMemsetAsync(gradient.data, 0, static_cast<std::size_t>(rows * shape.hidden) * 4, on.stream));
  };
  if (!call.accumulate) {
    clear(call.gradients[0], shape.vocabulary);
    if (shape.positions > 0) clear(call.gradients[1], shape.positions);
  }
  embed_gradient(on.bring_tokens(call), call.output_gradient.floats(), shape.hidden,
                 mask_of(call, shape.dropout, DropoutSite::embedding), call.gradients[0].floats(),
                 shape.positions > 0 ? call.gradients[1].floats() : nullptr, on.stream);
}

ScratchNeeds prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul&) {
  return {.partials = 2 * shape.hidden * partials_of(batch * seq_length)};
}

void forward(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  layer_norm(call.input.floats(), call.weights[0].floats(), call.weights[1].floats(),
             {call.batch * call.seq_length, shape.hidden}, static_cast<float>(shape.epsilon), call.output.floats(),
             call.saved[0].floats(), on.stream);
}

void backward_input(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  float* carried = call.carried[0].floats();
  layer_norm_gradient(
      {call.input.floats(), call.saved[0].floats(), call.weights[0].floats(), call.output_gradient.floats(),
       call.input_gradient.floats(), carried, carried + shape.hidden, on.partials},
      {call.batch * call.seq_length, shape.hidden}, Into::overwrite, on.stream);
}

void backward_weight(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  const float* carried = call.carried[0].floats();
  for (std::size_t i = 0; i < 2; ++i) {
    column_sum(carried + static_cast<std::int64_t>(i) * shape.hidden, {1, shape.hidden}, into(call), on.partials,
               call.gradients[i].floats(), on.stream);
  }
}

ScratchNeeds prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length, Matmul& matmul) {
  const std::int64_t rows = batch * seq_length;
  for (const bool accumulate : {false, true}) {
    const HeadProducts p = head_products(shape, rows, accumulate);
    for (const Product& product : {p.forward, p.input, p.weight}) matmul.prepare(product);
  }
  return {.tokens = batch * (seq_length + 1),
          .row_losses = rows,
          .partials = shape.bias ? shape.vocabulary * partials_of(rows) : 0};
}

void forward(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length;
  float* logits = call.saved[0].floats();
  on.multiply(head_products(shape, rows, true).forward, call.input.floats(), call.weights[0].floats(),
              shape.bias ? call.weights[1].floats() : nullptr, logits);
  double* loss = on.row_losses + rows;
  cross_entropy(logits, on.bring_tokens(call), shape.vocabulary, static_cast<float>(call.loss_scale), on.row_losses,
                loss, on.stream);
  // Read by the host when the step has ended (Backend::host_memory).
  if (call.loss != nullptr) {
    CUDA_CHECK(cudaMemcpyAsync(call.loss, loss, sizeof(double), cudaMemcpyDeviceToHost, on.stream));
  }
}

void backward_input(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  on.multiply(head_products(shape, call.batch * call.seq_length, true).input, call.saved[0].floats(),
              call.weights[0].floats(), nullptr, call.input_gradient.floats());
}

void backward_weight(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length;
  on.multiply(head_products(shape, rows, call.accumulate).weight, call.saved[0].floats(), call.input.floats(), nullptr,
              call.gradients[0].floats());
  if (shape.bias) {
    column_sum(call.saved[0].floats(), {rows, shape.vocabulary}, into(call), on.partials, call.gradients[1].floats(),
               on.stream);
  }
}

ScratchNeeds prepare(const TimedShape&, std::int64_t, std::int64_t, Matmul&) { no_kernels(); }
void forward(const TimedShape&, const LayerCall&, const Workbench&) { no_kernels(); }
void backward_input(const TimedShape&, const LayerCall&, const Workbench&) { no_kernels(); }
void backward_weight(const TimedShape&, const LayerCall&, const Workbench&) { no_kernels(); }
ScratchNeeds prepare(const SizedShape&, std::int64_t, std::int64_t, Matmul&) { no_kernels(); }
void forward(const SizedShape&, const LayerCall&, const Workbench&) { no_kernels(); }
void backward_input(const SizedShape&, const LayerCall&, const Workbench&) { no_kernels(); }
void backward_weight(const SizedShape&, const LayerCall&, const Workbench&) { no_kernels(); }

}  // namespace weir::cuda
