// What the passes work with, and the norm; embedding, transformer block and head have files of
// their own.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/layers.hpp"

#include <algorithm>
#include <cassert>

#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/norms.hpp"
#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {
namespace {

// Of a micro-batch's rows those that the device has.
Rows norm_size(const NormShape& shape, const LayerCall& call, const Workbench& on) {
  return {on.group.own_rows(call.batch * call.seq_length).count, shape.hidden};
}

}  // namespace

std::int64_t ScratchNeeds::bytes() const {
  return Matmul::kScratchBytes + aligned_bytes(sizeof(StepNumbers)) + aligned_bytes(words * 4) +
         aligned_bytes((row_losses + 1) * 8) + aligned_bytes(partials * 4) +
         aligned_bytes(row_sums * 4) + aligned_bytes(scores * 4) + aligned_bytes(masked_bytes) +
         aligned_bytes(fused_bytes) + aligned_bytes(table_bytes) + aligned_bytes(row_numbers * 4) +
         aligned_bytes(group_bytes) + aligned_bytes(unfolded_bytes) + aligned_bytes(filter_bytes);
}

void ScratchNeeds::cover(const ScratchNeeds& other) {
  for (const auto need :
       {&ScratchNeeds::words, &ScratchNeeds::row_losses, &ScratchNeeds::partials,
        &ScratchNeeds::row_sums, &ScratchNeeds::scores, &ScratchNeeds::masked_bytes,
        &ScratchNeeds::fused_bytes, &ScratchNeeds::table_bytes, &ScratchNeeds::row_numbers,
        &ScratchNeeds::group_bytes, &ScratchNeeds::unfolded_bytes, &ScratchNeeds::filter_bytes}) {
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
  words = static_cast<std::int32_t*>(take(needs.words * 4));
  // One more than there are rows: the mean loss lies behind them.
  row_losses = static_cast<double*>(take((needs.row_losses + 1) * 8));
  partials = static_cast<float*>(take(needs.partials * 4));
  row_sums = static_cast<float*>(take(needs.row_sums * 4));
  scores = static_cast<float*>(take(needs.scores * 4));
  masked = take(needs.masked_bytes);
  row_numbers = static_cast<float*>(take(needs.row_numbers * 4));
  group.room = take(needs.group_bytes);
  unfolded = take(needs.unfolded_bytes);
  filter = take(needs.filter_bytes);
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

const std::int32_t* Workbench::bring(const LayerCall& call, std::int64_t first, std::int64_t count,
                                     std::int64_t place) const {
  const auto bytes = [](std::int64_t numbers) { return static_cast<std::size_t>(numbers) * 4; };
  CUDA_CHECK(cudaMemcpy2DAsync(
      words + place, bytes(count), call.tokens + first, bytes(call.sample_words), bytes(count),
      static_cast<std::size_t>(call.batch), cudaMemcpyHostToDevice, stream));
  return words + place;
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

}  // namespace weir::cuda
