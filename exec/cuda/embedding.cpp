// The embedding on CUDA: rows of tables summed, and normalised where there is a norm; their
// gradients scattered back. Images are exec/cuda/patch_embedding's.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/kernels/embedding.hpp"

#include <algorithm>

#include "exec/cuda/kernels/dropout.hpp"
#include "exec/cuda/kernels/norms.hpp"
#include "exec/cuda/kernels/sums.hpp"
#include "exec/cuda/layers.hpp"
#include "exec/cuda/patch_embedding.hpp"

namespace weir::cuda {
namespace {

// Weights in order: what there is of token, position, token type, norm's gain and shift.
struct TablePlaces {
  std::size_t position = 1, token_type, gain;
  explicit TablePlaces(const EmbeddingShape& shape)
      : token_type(position + (shape.positions > 0 ? 1 : 0)),
        gain(token_type + (shape.token_types > 0 ? 1 : 0)) {}
};

// Of the vocabulary, what this device's table has.
TableRows table_rows(const EmbeddingShape& shape, const Workbench& on) {
  return {on.group.place * shape.vocabulary, shape.vocabulary};
}

// A sample's tokens come first, and their types behind them.
Tokens bring_tokens(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t s = call.seq_length;
  Tokens tokens{on.bring(call, 0, s), call.batch, s};
  if (shape.token_types > 0) tokens.types = on.bring(call, s, s, tokens.rows());
  return tokens;
}

template <class E>
EmbeddingTables<E> tables_of(const EmbeddingShape& shape, const LayerCall& call) {
  const TablePlaces at(shape);
  return {elements<E>(call.weights[0]),
          shape.positions > 0 ? elements<E>(call.weights[at.position]) : nullptr,
          shape.token_types > 0 ? elements<E>(call.weights[at.token_type]) : nullptr};
}

StepMask mask_of_sums(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on,
                      std::int64_t first = 0) {
  return on.mask(call, shape.dropout, DropoutSite::embedding, first);
}

// Devices that divide the vocabulary each look up the tokens they have, and add up; where they
// divide rows too, each keeps its rows of the sum.
template <class E>
void divided_embedding(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length, h = shape.hidden;
  const RowRun own = on.group.own_rows(rows);
  E* const sums = elements<E>(call.output);
  E* const found = on.group.divides_rows ? elements<E>(call.workspace) : sums;
  embed<E>(bring_tokens(shape, call, on), table_rows(shape, on), {elements<E>(call.weights[0])}, h,
           {}, found, on.stream);
  on.group.sum_parts(found, rows * h, sums);
  const E* position = shape.positions > 0 ? elements<E>(call.weights[1]) : nullptr;
  const StepMask mask = mask_of_sums(shape, call, on, own.first * h);
  if (position == nullptr && !mask.mask.active()) return;
  add_positions<E>(position, own.first, call.seq_length, mask, {own.count, h}, sums, on.stream);
}

// The sums are kept, and dropout lies on what their norm gives.
template <class E>
void normed_embedding(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const std::int64_t rows = call.batch * call.seq_length, h = shape.hidden;
  E *sums = elements<E>(call.saved[0]), *out = elements<E>(call.output);
  const std::size_t gain = TablePlaces(shape).gain;
  embed<E>(bring_tokens(shape, call, on), table_rows(shape, on), tables_of<E>(shape, call), h, {},
           sums, on.stream);
  layer_norm<E>(sums,
                {elements<E>(call.weights[gain]), elements<E>(call.weights[gain + 1]),
                 static_cast<float>(shape.norm_epsilon), out, call.saved[1].floats()},
                {rows, h}, on.stream);
  const StepMask mask = mask_of_sums(shape, call, on);
  if (mask.mask.active()) dropout<E>(mask, 0, out, rows * h, out, on.stream);
}

// embed_gradient only ever adds, so the first micro-batch begins from zeros.
void clear_tables(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const auto clear = [&](std::size_t table, std::int64_t rows) {
    CUDA_CHECK(cudaMemsetAsync(call.gradients[table].data, 0,
                               static_cast<std::size_t>(rows * shape.hidden) * 4, on.stream));
  };
  clear(0, shape.vocabulary);
  if (shape.positions > 0) clear(TablePlaces(shape).position, shape.positions);
}

// From the gradient of the sums, masked by `mask`, of all rows.
template <class E>
void scatter(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on, const E* dy,
             const StepMask& mask) {
  const TablePlaces at(shape);
  const Tokens tokens = bring_tokens(shape, call, on);
  embed_gradient<E>(
      tokens, table_rows(shape, on), dy, shape.hidden, mask, call.gradients[0].floats(),
      shape.positions > 0 ? call.gradients[at.position].floats() : nullptr, on.stream);
  if (shape.token_types == 0) return;
  type_gradient<E>(tokens, dy, {shape.token_types, shape.hidden}, mask, beta(call), on.partials,
                   call.gradients[at.token_type].floats(), on.stream);
}

}  // namespace

ScratchNeeds prepare(const EmbeddingShape& shape, std::int64_t batch, std::int64_t seq_length,
                     const Workbench& on) {
  if (shape.patch > 0) return prepare_patches(shape, batch, seq_length, on);
  const std::int64_t rows = batch * seq_length;
  const std::int64_t sums = std::max<std::int64_t>(shape.token_types, shape.norm ? 2 : 0);
  return {.words = shape.token_types > 0 ? 2 * rows : rows,
          .partials = sums * shape.hidden * partials_of(rows),
          .group_bytes = on.group.room_bytes(rows * shape.hidden, bytes_of(on.matmul->element()))};
}

void forward(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  if (shape.patch > 0) return embed_patches(shape, call, on);
  on.in_elements([&](auto element) {
    using E = decltype(element);
    if (on.group.divided()) return divided_embedding<E>(shape, call, on);
    if (shape.norm) return normed_embedding<E>(shape, call, on);
    embed<E>(bring_tokens(shape, call, on), table_rows(shape, on), tables_of<E>(shape, call),
             shape.hidden, mask_of_sums(shape, call, on), elements<E>(call.output), on.stream);
  });
}

// Tokens have no gradient; through a norm the sums' is made here.
void backward_input(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  if (!shape.norm) return;
  const std::int64_t rows = call.batch * call.seq_length, h = shape.hidden;
  float* gains = call.carried[1].floats();
  on.in_elements([&](auto element) {
    using E = decltype(element);
    // Nobody reads the output's gradient after this pass, so it is masked where it lies.
    E* dy = elements<E>(call.output_gradient);
    const StepMask mask = mask_of_sums(shape, call, on);
    if (mask.mask.active()) dropout<E>(mask, 0, dy, rows * h, dy, on.stream);
    layer_norm_gradient<E>({.x = elements<E>(call.saved[0]),
                            .statistics = call.saved[1].floats(),
                            .weight = elements<E>(call.weights[TablePlaces(shape).gain]),
                            .dy = dy,
                            .dx = elements<E>(call.carried[0]),
                            .weight_gradient = gains,
                            .bias_gradient = gains + h,
                            .partials = on.partials},
                           {rows, h}, on.stream);
  });
}

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  if (shape.patch > 0) return embed_patches_backward_weight(shape, call, on);
  if (!call.accumulate) clear_tables(shape, call, on);
  on.in_elements([&](auto element) {
    using E = decltype(element);
    if (shape.norm) return scatter<E>(shape, call, on, elements<E>(call.carried[0]), {});
    // Of all rows on every device: each adds to what it has of the table.
    const E* dy = on.group.all_rows<E>(elements<E>(call.output_gradient),
                                       call.batch * call.seq_length * shape.hidden,
                                       elements<E>(call.workspace));
    scatter<E>(shape, call, on, dy, mask_of_sums(shape, call, on));
  });
  if (!shape.norm) return;
  const std::size_t gain = TablePlaces(shape).gain;
  const float* gains = call.carried[1].floats();
  const std::int64_t h = shape.hidden;
  accumulate({{{gains, call.gradients[gain].floats(), h},
               {gains + h, call.gradients[gain + 1].floats(), h}},
              2},
             beta(call), on.stream);
}

}  // namespace weir::cuda
