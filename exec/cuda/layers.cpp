// Embedding, norm and head; the transformer block has a file of its own.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/layers.hpp"

#include <algorithm>
#include <cassert>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/kernels/cross_entropy.hpp"
#include "exec/cuda/kernels/embedding.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/norms.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {
namespace {

Beta beta(const LayerCall& call) { return call.accumulate ? Beta::one : Beta::zero; }

// Of the vocabulary, what this device's table has.
TableRows table_rows(const EmbeddingShape& shape, const Workbench& on) {
  return {on.group.place * shape.vocabulary, shape.vocabulary};
}

// Of a micro-batch's rows those that the device has.
Rows norm_size(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  return {on.group.own_rows(call.batch * call.seq_length).count, shape.hidden};
}

// No head with a bias comes here (exec/training/trainable).
Linear head_of(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  return head_linear(shape, call.batch * call.seq_length, on.matmul->element());
}

}  // namespace

std::int64_t ScratchNeeds::bytes() const {
  return Matmul::kScratchBytes + aligned_bytes(sizeof(StepNumbers)) + aligned_bytes(tokens * 4) +
         aligned_bytes((row_losses + 1) * 8) + aligned_bytes(partials * 4) +
         aligned_bytes(row_sums * 4) + aligned_bytes(scores * 4) + aligned_bytes(masked_bytes) +
         aligned_bytes(fused_bytes) + aligned_bytes(table_bytes) + aligned_bytes(row_numbers * 4) +
         aligned_bytes(group_bytes);
}

void ScratchNeeds::cover(const ScratchNeeds& other) {
  for (const auto need :
       {&ScratchNeeds::tokens, &ScratchNeeds::row_losses, &ScratchNeeds::partials,
        &ScratchNeeds::row_sums, &ScratchNeeds::scores, &ScratchNeeds::masked_bytes,
        &ScratchNeeds::fused_bytes, &ScratchNeeds::table_bytes, &ScratchNeeds::row_numbers,
        &ScratchNeeds::group_bytes}) {
    this->*need = std::max(this->*need, other.*need);
  }
}

void Workbench::use(std::byte* scratch, const ScratchNeeds& needs) {
  const auto take = [&scratch](std::int64_t bytes) {
    std::byte* place = scratch;
    scratch += aligned_bytes(bytes);
    return static_cast<void*>(place);
  };
  // First what libraries get: they are used to memory as it is allocated, on 256 bytes.
  static_assert(Matmul::kScratchBytes % 256 == 0);
  gemm_scratch = take(Matmul::kScratchBytes);
  fused_scratch = take(needs.fused_bytes);
  numbers = static_cast<StepNumbers*>(take(sizeof(StepNumbers)));
  tokens = static_cast<std::int32_t*>(take(needs.tokens * 4));
  // One more than there are rows: the mean loss lies behind them.
  row_losses = static_cast<double*>(take((needs.row_losses + 1) * 8));
  partials = static_cast<float*>(take(needs.partials * 4));
  row_sums = static_cast<float*>(take(needs.row_sums * 4));
  scores = static_cast<float*>(take(needs.scores * 4));
  masked = take(needs.masked_bytes);
  row_numbers = static_cast<float*>(take(needs.row_numbers * 4));
  group.room = take(needs.group_bytes);
  rotary.use(static_cast<float*>(take(needs.table_bytes)),
             [this](float* to, const std::vector<float>& table) {
               CUDA_CHECK(cudaMemcpyAsync(to, table.data(), table.size() * sizeof(float),
                                          cudaMemcpyHostToDevice, stream));
               CUDA_CHECK(cudaStreamSynchronize(stream));  // the table ends with the call
             });
}

void Workbench::multiply(const Gemm& gemm, const Operands& operands) const {
  matmul->run(gemm, operands, gemm_scratch, stream);
}

Tokens Workbench::bring_tokens(const LayerCall& call) const {
  const std::int64_t count = call.batch * (call.seq_length + 1);
  CUDA_CHECK(cudaMemcpyAsync(tokens, call.tokens, static_cast<std::size_t>(count) * 4,
                             cudaMemcpyHostToDevice, stream));
  return {tokens, call.batch, call.seq_length};
}

StepMask Workbench::mask(const LayerCall& call, double probability, DropoutSite site,
                         std::int64_t first) const {
  const DropoutCounter& p = call.dropout;
  DropoutMask mask = dropout_mask(probability, p.seed, 0, p.microbatch, p.layer, site);
  assert((!mask.active() || first % 4 == 0) && "exec/training/trainable refuses such widths");
  mask.first_block = static_cast<std::uint64_t>(first / 4);
  return {mask, numbers};
}

ScratchNeeds prepare(const Layer& layer, std::int64_t batch, std::int64_t seq_length,
                     Workbench& on) {
  ScratchNeeds needs = visit_kernels(
      layer, [&](const auto& shape) { return prepare(shape, batch, seq_length, on); });
  const auto* block = std::get_if<TransformerShape>(&layer.shape);
  if (block == nullptr) return needs;
  // Only fused attention needs scratch of its own here; unfused has it in the products' needs.
  if (block->attention == AttentionKind::fused) {
    on.fused->prepare(attention_shape(*block, batch, seq_length, on), on.stream);
    needs.fused_bytes = on.fused->scratch_bytes();
  }
  if (block->rotary) {
    on.rotary.prepare(block->angles, block->head_dim, seq_length);
    needs.table_bytes = on.rotary.bytes();
  }
  return needs;
}

ScratchNeeds prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on) {
  return {.tokens = batch * (seq_length + 1),
          .group_bytes = on.group.room_bytes(batch * seq_length * shape.hidden,
                                             bytes_of(on.matmul->element()))};
}

namespace {

// Devices that divide the vocabulary each look up the tokens they have, and add up; where they
// divide rows too, each keeps its rows of the sum.
template <class E>
void divided_forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length, h = shape.hidden;
  const RowRun own = on.group.own_rows(rows);
  E* const sums = elements<E>(call.output);
  E* const found = on.group.divides_rows ? elements<E>(call.workspace) : sums;
  embed<E>(on.bring_tokens(call), table_rows(shape, on), elements<E>(call.weights[0]), nullptr, h,
           {}, found, on.stream);
  on.group.sum_parts(found, rows * h, sums);
  const E* position = shape.positions > 0 ? elements<E>(call.weights[1]) : nullptr;
  const StepMask mask = on.mask(call, shape.dropout, DropoutSite::embedding, own.first * h);
  if (position == nullptr && !mask.mask.active()) return;
  add_positions<E>(position, own.first, call.seq_length, mask, {own.count, h}, sums, on.stream);
}

}  // namespace

void forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    using E = decltype(element);
    if (on.group.divided()) return divided_forward<E>(shape, call, on);
    const E* position = shape.positions > 0 ? elements<E>(call.weights[1]) : nullptr;
    embed<E>(on.bring_tokens(call), table_rows(shape, on), elements<E>(call.weights[0]), position,
             shape.hidden, on.mask(call, shape.dropout, DropoutSite::embedding),
             elements<E>(call.output), on.stream);
  });
}

void backward_input(const EmbeddingShape&, const LayerCall&, const Workbench&) {
}  // tokens have no gradient

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const auto clear = [&](const Tensor& gradient, std::int64_t rows) {
    CUDA_CHECK(cudaMemsetAsync(gradient.data, 0, static_cast<std::size_t>(rows * shape.hidden) * 4,
                               on.stream));
  };
  // embed_gradient only ever adds, so the first micro-batch begins from zeros.
  if (!call.accumulate) {
    clear(call.gradients[0], shape.vocabulary);
    if (shape.positions > 0) clear(call.gradients[1], shape.positions);
  }
  on.in_elements([&](auto element) {
    using E = decltype(element);
    // Of all rows on every device: each adds to what it has of the table.
    const E* dy = on.group.all_rows<E>(elements<E>(call.output_gradient),
                                       call.batch * call.seq_length * shape.hidden,
                                       elements<E>(call.workspace));
    embed_gradient<E>(on.bring_tokens(call), table_rows(shape, on), dy, shape.hidden,
                      on.mask(call, shape.dropout, DropoutSite::embedding),
                      call.gradients[0].floats(),
                      shape.positions > 0 ? call.gradients[1].floats() : nullptr, on.stream);
  });
}

ScratchNeeds prepare(const NormShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench&) {
  return {.partials = 2 * shape.hidden * partials_of(batch * seq_length)};
}

void forward(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  on.in_elements([&](auto element) {
    using E = decltype(element);
    const bool shifts = shape.kind == NormKind::layer_norm;
    const Norm<E> norm{
        elements<E>(call.weights[0]), shifts ? elements<E>(call.weights[1]) : nullptr,
        static_cast<float>(shape.epsilon), elements<E>(call.output), call.saved[0].floats()};
    norm_rows<E>(shape.kind, elements<E>(call.input), norm, norm_size(shape, call, on), on.stream);
  });
}

void backward_input(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  float* carried = call.carried[0].floats();
  on.in_elements([&](auto element) {
    using E = decltype(element);
    // The same walk over the rows gives dx and the gains' gradients: these wait in `carried` for W.
    const NormGradient<E> gradient{.x = elements<E>(call.input),
                                   .statistics = call.saved[0].floats(),
                                   .weight = elements<E>(call.weights[0]),
                                   .dy = elements<E>(call.output_gradient),
                                   .dx = elements<E>(call.input_gradient),
                                   .weight_gradient = carried,
                                   .bias_gradient = carried + shape.hidden,
                                   .partials = on.partials};
    norm_rows_gradient<E>(shape.kind, gradient, norm_size(shape, call, on), on.stream);
  });
}

void backward_weight(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  const float* carried = call.carried[0].floats();
  const std::int64_t h = shape.hidden;
  Additions additions{{{carried, call.gradients[0].floats(), h}}, 1};
  if (shape.kind == NormKind::layer_norm)
    additions.of[additions.count++] = {carried + h, call.gradients[1].floats(), h};
  accumulate(additions, beta(call), on.stream);
}

ScratchNeeds prepare(const HeadShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on) {
  Matmul& matmul = *on.matmul;
  const std::int64_t rows = batch * seq_length;
  const Linear head = head_linear(shape, rows, matmul.element());
  matmul.prepare(head.forward(Epilogue::none));
  matmul.prepare(head.input(Epilogue::none));
  for (const bool accumulate : {false, true})
    matmul.prepare(head.weight(accumulate, Epilogue::none));
  ScratchNeeds needs{.tokens = batch * (seq_length + 1), .row_losses = rows};
  if (on.group.divided()) {
    needs.row_numbers = 3 * whole_lines(rows);
    needs.group_bytes =
        std::max(on.group.room_bytes(rows * shape.hidden, bytes_of(matmul.element())),
                 on.group.room_bytes(rows, sizeof(float)));
  }
  return needs;
}

namespace {

// What the product reads, of all rows: where devices divide them, gathered in the workspace.
const void* states(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  const void* all = nullptr;
  on.in_elements([&](auto element) {
    using E = decltype(element);
    all = on.group.all_rows<E>(elements<E>(call.input), call.batch * call.seq_length * shape.hidden,
                               elements<E>(call.workspace));
  });
  return all;
}

// Of a vocabulary that devices divide: three all-reduces of a number a row.
template <class E>
void divided_loss(const HeadShape& shape, const LayerCall& call, const Workbench& on,
                  double* loss) {
  const std::int64_t rows = call.batch * call.seq_length, first = on.group.place * shape.vocabulary;
  const std::int64_t line = whole_lines(rows);
  const RowNumbers numbers{on.row_numbers, on.row_numbers + line, on.row_numbers + 2 * line};
  const DividedLogits<E> logits{
      {elements<E>(call.saved[0]),
       std::clamp(call.classes - first, std::int64_t{0}, shape.vocabulary),
       head_of(shape, call, on).out},
      first,
      shape.vocabulary};
  const Tokens tokens = on.bring_tokens(call);
  largest_logits<E>(logits, tokens, numbers, on.stream);
  on.group.largest(numbers.largest, rows);
  sum_powers<E>(logits, tokens, numbers, on.stream);
  on.group.sum(numbers.powers, rows);
  on.group.sum(numbers.at_target, rows);
  divided_cross_entropy<E>(logits, tokens, static_cast<float>(call.loss_scale), numbers,
                           on.row_losses, loss, on.stream);
}

}  // namespace

void forward(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length;
  const Linear head = head_of(shape, call, on);
  // The logits are overwritten by their own gradient: a vocabulary wide, they are too large to hold
  // twice.
  on.multiply(head.forward(Epilogue::none),
              {states(shape, call, on), call.weights[0].data, call.saved[0].data});
  double* loss = on.row_losses + rows;
  on.in_elements([&](auto element) {
    using E = decltype(element);
    if (on.group.divided()) return divided_loss<E>(shape, call, on, loss);
    cross_entropy<E>({elements<E>(call.saved[0]), shape.vocabulary, head.out},
                     on.bring_tokens(call), static_cast<float>(call.loss_scale), on.row_losses,
                     loss, on.stream);
  });
  // Read by the host when the step has ended (Backend::host_memory).
  if (call.loss != nullptr) {
    CUDA_CHECK(cudaMemcpyAsync(call.loss, loss, sizeof(double), cudaMemcpyDeviceToHost, on.stream));
  }
}

void backward_input(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  const Gemm gemm = head_of(shape, call, on).input(Epilogue::none);
  on.in_elements([&](auto element) {
    using E = decltype(element);
    E* const dx = elements<E>(call.input_gradient);
    E* const part = on.group.divides_rows ? elements<E>(call.workspace) : dx;
    on.multiply(gemm, {call.saved[0].data, call.weights[0].data, part});
    on.group.sum_parts(part, call.batch * call.seq_length * shape.hidden, dx);
  });
}

void backward_weight(const HeadShape& shape, const LayerCall& call, const Workbench& on) {
  on.multiply(head_of(shape, call, on).weight(call.accumulate, Epilogue::none),
              {call.saved[0].data, states(shape, call, on), call.gradients[0].floats()});
}

}  // namespace weir::cuda
