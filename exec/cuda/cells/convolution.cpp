// Products of windows and weights, group by group.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/cells/convolution.hpp"

#include <algorithm>
#include <numeric>

#include "exec/cuda/blas/linear.hpp"
#include "exec/cuda/cells/windows.hpp"
#include "exec/cuda/kernels/sums.hpp"

namespace weir::cuda {

Convolution::Convolution(const FeatureMap& input, const CellOperation& operation,
                         std::int64_t batch, const UnfoldingLimits& limits)
    : rows_(unfolding(input, operation, batch, limits)),
      filter_{windows_of(input, operation, batch), static_cast<std::int32_t>(operation.groups),
              static_cast<std::int32_t>(operation.output.channels),
              static_cast<std::int32_t>(rows_.group_row)},
      bias_(operation.bias) {}

Gemm Convolution::forward_product(std::int64_t rows) const {
  Gemm gemm = Linear{rows, rows_.group_row, rows_.outputs, bias_}.forward();
  gemm.a_row = rows_.row();
  gemm.c_row = filter_.outputs;
  gemm.begins = begins();
  return gemm;
}

Gemm Convolution::input_product(std::int64_t rows) const {
  Gemm gemm = Linear{rows, rows_.group_row, rows_.outputs}.input(Epilogue::none);
  gemm.a_row = filter_.outputs;
  gemm.c_row = rows_.row();
  // Terms of the sums that folding makes are not rounded to 16 bits.
  gemm.fp32_result = rows_.unfolds;
  gemm.begins = begins();
  return gemm;
}

Gemm Convolution::weight_product(std::int64_t rows, bool accumulate) const {
  Gemm gemm = Linear{rows, rows_.group_row, rows_.outputs}.weight(accumulate, Epilogue::none);
  gemm.a_column = filter_.outputs;
  gemm.b_row = rows_.row();
  gemm.begins = begins();
  return gemm;
}

Gemm Convolution::weight_parts(const RowParts& parts) const {
  Gemm gemm = weight_product(parts.rows, false);
  gemm.batch = parts.count;
  gemm.a_step = parts.rows * gemm.a_column;
  gemm.b_step = parts.rows * gemm.b_row;
  gemm.c_step = numbers();
  return gemm;
}

// Where matrices of groups begin beside each other.
std::int64_t Convolution::begins() const {
  return rows_.groups == 1 ? 0 : std::gcd(rows_.outputs, rows_.group_row);
}

ScratchNeeds Convolution::prepare(Matmul& matmul) const {
  const std::int64_t element = bytes_of(matmul.element()), row = rows_.row();
  ScratchNeeds needs;
  for (const PlaceRun& run : rows_.runs(element)) {
    matmul.prepare(forward_product(run.count));
    const RowParts parts = rows_.parts(run);
    if (parts.count > 1) {
      matmul.prepare(weight_parts(parts));
      if (parts.rest > 0) matmul.prepare(weight_product(parts.rest, false));
      needs.partials = std::max(needs.partials, parts.sums() * numbers());
    } else {
      // The first run of ordered weights overwrites scratch memory.
      if (run.first > 0 || !rows_.orders) matmul.prepare(weight_product(run.count, true));
      if (run.first == 0) matmul.prepare(weight_product(run.count, false));
    }
    if (rows_.unfolds)
      needs.unfolded_bytes = std::max(needs.unfolded_bytes, run.count * row * element);
  }
  if (!rows_.unfolds) matmul.prepare(input_product(rows_.places));
  for (const LineBand& band : rows_.bands) {
    const std::int64_t rows = rows_.rows_of(band);
    if (rows == 0) continue;
    matmul.prepare(input_product(rows));
    needs.unfolded_bytes = std::max(needs.unfolded_bytes, rows * row * std::int64_t{sizeof(float)});
  }
  // Of the gradient, which is in fp32, in any format.
  if (rows_.orders) {
    needs.filter_bytes =
        rows_.groups * rows_.outputs * rows_.group_row * std::int64_t{sizeof(float)};
  }
  return needs;
}

template <class E>
const E* Convolution::ordered(const Workbench& on, const E* w) const {
  if (!rows_.orders) return w;
  auto* to = static_cast<E*>(on.filter);
  order_weights<E>(w, filter_, to, on.stream);
  return to;
}

template <class E>
const E* Convolution::unfolded(const Workbench& on, const E* x, const PlaceRun& run) const {
  if (!rows_.unfolds) return x;
  auto* rows = static_cast<E*>(on.unfolded);
  unfold_windows<E>(x, filter_, run, rows, on.stream);
  return rows;
}

template <class E>
void Convolution::forward(const Workbench& on, const E* x, const E* w, const E* bias, E* y) const {
  const E* weights = ordered(on, w);
  const std::int64_t each = rows_.outputs, part = rows_.group_row;
  for (const PlaceRun& run : rows_.runs(sizeof(E))) {
    const E* rows = unfolded(on, x, run);
    const Gemm product = forward_product(run.count);
    E* to = y + run.first * filter_.outputs;
    for (std::int64_t g = 0; g < rows_.groups; ++g) {
      E* const own_bias = bias_ ? const_cast<E*>(bias) + g * each : nullptr;
      on.multiply(product, {rows + g * part, weights + g * each * part, to + g * each, own_bias});
    }
  }
}

template <class E>
void Convolution::input_gradient(const Workbench& on, const E* w, const E* dy, E* dx) const {
  const E* weights = ordered(on, w);
  const std::int64_t each = rows_.outputs, part = rows_.group_row;
  const auto multiply = [&](std::int64_t rows, const E* from, auto* to) {
    const Gemm product = input_product(rows);
    for (std::int64_t g = 0; g < rows_.groups; ++g)
      on.multiply(product, {from + g * each, weights + g * each * part, to + g * part});
  };
  if (!rows_.unfolds) return multiply(rows_.places, dy, dx);
  auto* const terms = static_cast<float*>(on.unfolded);
  for (const LineBand& band : rows_.bands) {
    const std::int64_t line =
        std::int64_t{band.image} * filter_.windows.out_height + band.first_output;
    const std::int64_t rows = rows_.rows_of(band);
    if (rows > 0) multiply(rows, dy + line * rows_.width * filter_.outputs, terms);
    fold_windows<E>(terms, filter_, band, dx, on.stream);
  }
}

template <class E>
void Convolution::sum_in_parts(const Workbench& on, const RowParts& parts, const E* rows,
                               const E* dy, Beta beta, float* to) const {
  on.multiply(weight_parts(parts), {dy, rows, on.partials});
  if (parts.rest > 0) {
    const std::int64_t before = parts.count * parts.rows;
    on.multiply(weight_product(parts.rest, false),
                {dy + before * filter_.outputs, rows + before * rows_.row(),
                 on.partials + parts.count * numbers()});
  }
  sum_partials(on.partials, {parts.sums(), numbers()}, beta, {{to}, 1}, on.stream);
}

template <class E>
void Convolution::weight_gradient(const Workbench& on, const E* x, const E* dy, Beta beta,
                                  float* dw) const {
  float* const to = rows_.orders ? static_cast<float*>(on.filter) : dw;
  const std::int64_t each = rows_.outputs, part = rows_.group_row;
  bool adds = !rows_.orders && beta == Beta::one;
  // Runs in ascending order.
  for (const PlaceRun& run : rows_.runs(sizeof(E))) {
    const E* rows = unfolded(on, x, run);
    const RowParts parts = rows_.parts(run);
    const E* from = dy + run.first * filter_.outputs;
    if (parts.count > 1) {
      sum_in_parts(on, parts, rows, from, adds ? Beta::one : Beta::zero, to);
    } else {
      const Gemm product = weight_product(run.count, adds);
      for (std::int64_t g = 0; g < rows_.groups; ++g)
        on.multiply(product, {from + g * each, rows + g * part, to + g * each * part});
    }
    adds = true;
  }
  if (rows_.orders) add_ordered(to, filter_, beta, dw, on.stream);
}

template void Convolution::forward(const Workbench&, const float*, const float*, const float*,
                                   float*) const;
template void Convolution::forward(const Workbench&, const Bf16*, const Bf16*, const Bf16*,
                                   Bf16*) const;
template void Convolution::input_gradient(const Workbench&, const float*, const float*,
                                          float*) const;
template void Convolution::input_gradient(const Workbench&, const Bf16*, const Bf16*, Bf16*) const;
template void Convolution::weight_gradient(const Workbench&, const float*, const float*, Beta,
                                           float*) const;
template void Convolution::weight_gradient(const Workbench&, const Bf16*, const Bf16*, Beta,
                                           float*) const;

}  // namespace weir::cuda
