// The embedding on the CPU: rows of tables summed, and normalised where there is a norm; their
// gradients scattered back. Images are exec/cpu/patch_embedding's. Devices that divide the
// vocabulary each look up the tokens they have, and add up; where they divide rows too, each keeps
// its rows of the sum.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "exec/cpu/kernels/divided_vocabulary.hpp"
#include "exec/cpu/kernels/kernels.hpp"
#include "exec/cpu/layers.hpp"
#include "exec/cpu/patch_embedding.hpp"

namespace weir::cpu {
namespace {

// Weights in order: what there is of token, position, token type, norm's gain and shift.
struct Tables {
  int position, token_type, gain;
  explicit Tables(const EmbeddingShape& shape)
      : position(1),
        token_type(position + (shape.positions > 0 ? 1 : 0)),
        gain(token_type + (shape.token_types > 0 ? 1 : 0)) {}
};

// Of a sample's place t: its token's type, which follows the tokens.
std::int32_t type_of(const LayerCall& call, std::int64_t sample, std::int64_t t) {
  return sample_tokens(call, sample)[call.seq_length + t];
}

// visit(sample, place, row) for each of these rows of the micro-batch.
template <class Visit>
void for_rows(const LayerCall& call, const RowRun& run, Visit visit) {
  for (std::int64_t r = run.first; r < run.first + run.count; ++r)
    visit(r / call.seq_length, r % call.seq_length, r);
}
RowRun every_row(const LayerCall& call) { return {0, call.batch * call.seq_length}; }

// `sums`: the device's rows.
void sum_tables(const EmbeddingShape& shape, const LayerCall& call, float* sums,
                const Workbench& on) {
  const std::int64_t h = shape.hidden;
  float* found = on.divides_rows ? call.workspace.floats() : sums;
  const VocabularyPart part(shape.vocabulary, on.group);
  for_rows(call, every_row(call), [&](std::int64_t b, std::int64_t t, std::int64_t r) {
    const std::int64_t token = sample_tokens(call, b)[t];
    // A token is looked up by the one device whose rows have it; the others add zeros.
    if (part.has(token)) {
      std::memcpy(found + r * h, call.weights[0].floats() + (token - part.first) * h,
                  static_cast<std::size_t>(h) * 4);
    } else {
      std::fill_n(found + r * h, h, 0.0F);
    }
  });
  on.sum_parts(found, every_row(call).count * h, sums);
  const Tables at(shape);
  // Positions and types are whole on each device: added to its own rows after the sum, they count
  // once.
  const RowRun own = on.own_rows(every_row(call).count);
  for_rows(call, own, [&](std::int64_t b, std::int64_t t, std::int64_t r) {
    float* row = sums + (r - own.first) * h;
    if (shape.positions > 0) add(call.weights[at.position].floats() + t * h, h, row);
    if (shape.token_types > 0)
      add(call.weights[at.token_type].floats() + type_of(call, b, t) * h, h, row);
  });
}

// One row's gradient to the rows of the tables that it was made of.
void scatter(const EmbeddingShape& shape, const LayerCall& call, std::int64_t b, std::int64_t t,
             const float* gradient, const Workbench& on) {
  const std::int64_t h = shape.hidden;
  const VocabularyPart part(shape.vocabulary, on.group);
  const Tables at(shape);
  const std::int64_t token = sample_tokens(call, b)[t];
  if (part.has(token)) add(gradient, h, call.gradients[0].floats() + (token - part.first) * h);
  if (shape.positions > 0) add(gradient, h, call.gradients[at.position].floats() + t * h);
  if (shape.token_types > 0)
    add(gradient, h, call.gradients[at.token_type].floats() + type_of(call, b, t) * h);
}

void clear_tables(const EmbeddingShape& shape, const LayerCall& call) {
  const Tables at(shape);
  const auto clear = [&](int table, std::int64_t rows) {
    std::fill_n(call.gradients[table].floats(), rows * shape.hidden, 0.0F);
  };
  clear(0, shape.vocabulary);
  if (shape.positions > 0) clear(at.position, shape.positions);
  if (shape.token_types > 0) clear(at.token_type, shape.token_types);
}

// Masks are drawn by the place of a number among all rows'.
std::uint64_t first_number(const EmbeddingShape& shape, const RowRun& own) {
  return static_cast<std::uint64_t>(own.first * shape.hidden);
}

// Of the sum, or of what its norm gave. Nobody reads the output's gradient after the pass that
// masks it, so it is masked where it lies.
float* masked_gradient(const EmbeddingShape& shape, const LayerCall& call, const Workbench& on) {
  const RowRun own = on.own_rows(every_row(call).count);
  float* dy = call.output_gradient.floats();
  dropout(mask_of(call, shape.dropout, DropoutSite::embedding), first_number(shape, own), dy,
          own.count * shape.hidden, dy);
  return dy;
}

}  // namespace

void prepare(const EmbeddingShape& shape, std::int64_t, std::int64_t, Workbench& on) {
  if (shape.patch > 0) prepare_patches(shape, on);
}

void forward(const EmbeddingShape& shape, const LayerCall& call, Workbench& on) {
  if (shape.patch > 0) return embed_patches(shape, call, on);
  const RowRun own = on.own_rows(every_row(call).count);
  float* out = call.output.floats();
  float* sums = shape.norm ? call.saved[0].floats() : out;
  sum_tables(shape, call, sums, on);
  if (shape.norm) {
    const int gain = Tables(shape).gain;
    layer_norm(sums, call.weights[gain].floats(), call.weights[gain + 1].floats(), own.count,
               shape.hidden, static_cast<float>(shape.norm_epsilon), out, call.saved[1].floats());
  }
  const DropoutMask mask = mask_of(call, shape.dropout, DropoutSite::embedding);
  if (!mask.active()) return;
  dropout(mask, first_number(shape, own), out, own.count * shape.hidden, out);
}

// Tokens have no gradient; through a norm the sum's is made here.
void backward_input(const EmbeddingShape& shape, const LayerCall& call, Workbench& on) {
  if (!shape.norm) return;
  const std::int64_t rows = on.own_rows(every_row(call).count).count, h = shape.hidden;
  const float* dy = masked_gradient(shape, call, on);
  float* gains = call.carried[1].floats();
  layer_norm_gradient(call.saved[0].floats(), call.saved[1].floats(),
                      call.weights[Tables(shape).gain].floats(), dy, rows, h, Beta::zero,
                      call.carried[0].floats(), gains, gains + h);
}

void backward_weight(const EmbeddingShape& shape, const LayerCall& call, Workbench& on) {
  if (shape.patch > 0) return embed_patches_backward_weight(shape, call, on);
  const std::int64_t h = shape.hidden;
  if (!call.accumulate) clear_tables(shape, call);
  const float* own = shape.norm ? call.carried[0].floats() : masked_gradient(shape, call, on);
  const float* sums = on.all_rows(own, every_row(call).count * h, call.workspace.floats());
  for_rows(call, every_row(call), [&](std::int64_t b, std::int64_t t, std::int64_t r) {
    scatter(shape, call, b, t, sums + r * h, on);
  });
  if (!shape.norm) return;
  const Beta beta = call.accumulate ? Beta::one : Beta::zero;
  const int gain = Tables(shape).gain;
  const float* gains = call.carried[1].floats();
  column_sum(gains, 1, h, beta, call.gradients[gain].floats());
  column_sum(gains + h, 1, h, beta, call.gradients[gain + 1].floats());
}

}  // namespace weir::cpu
