// A head's products, whole and in parts.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cuda/blas/head_products.hpp"

#include "plan/model/layer_tensors.hpp"

namespace weir::cuda {

std::int64_t HeadProducts::logits_step() const { return logits_row(vocabulary, bytes_of(element)); }

HeadPart HeadProducts::part(std::int64_t first, std::int64_t columns, bool accumulate) const {
  const std::int64_t v = columns, h = hidden, step = logits_step();
  return {
      .first = first,
      .forward = {.m = rows, .n = v, .k = h, .a_row = h, .b_row = 1, .b_column = h, .c_row = step},
      .input = {.m = rows, .n = h, .k = v, .a_row = step, .b_row = h, .c_row = h},
      .weight = {.m = v,
                 .n = h,
                 .k = rows,
                 .a_row = 1,
                 .a_column = step,
                 .b_row = h,
                 .c_row = h,
                 .accumulate = accumulate,
                 .fp32_result = true}};
}

HeadPart HeadProducts::whole(bool accumulate) const { return part(0, vocabulary, accumulate); }

std::vector<HeadPart> HeadProducts::parts(bool accumulate) const {
  constexpr std::int64_t kTile = 128;   // columns
  constexpr std::int64_t kAligned = 8;  // elements of 16 bytes
  const std::int64_t tiled = vocabulary / kTile * kTile;
  if (element != Element::bf16 || vocabulary % kAligned == 0 || tiled == 0)
    return {whole(accumulate)};
  HeadPart rest = part(tiled, vocabulary - tiled, accumulate), most = part(0, tiled, accumulate);
  most.input.accumulate = true;
  return {rest, most};
}

}  // namespace weir::cuda
