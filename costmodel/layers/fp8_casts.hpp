// Products in 8 bits: what is moved to make their factors, by recipe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/job/cluster.hpp"
#include "plan/job/stack.hpp"
#include "plan/model/model.hpp"

namespace weir {

// That of a block's products: the plan's, or Transformer Engine's own default (delayed) where the
// stack multiplies in 8 bits and the plan does not say how. A stack's are in 16 bits on a device
// without units for 8 (peak_fp8 is 0), for which a plan that asks is refused where it is priced.
[[nodiscard]] Fp8Recipe products_recipe(const Layer& layer, const Stack& stack,
                                        const Device& device);

// NVIDIA/TransformerEngine@d0067d0da6cb: a factor of two products is needed by rows in one and by
// columns in the other (x in y = x w and dw = x' dy, dy in dx = dy w' and dw). One cast makes both
// copies (common/transpose/cast_transpose.cu), reading 16 bits and writing 8 twice. Matrix units
// that take either order (Device::fp8_any_layout) need but one copy where one scale is that of the
// whole tensor (pytorch/csrc/quantizer.cpp:361-375, 544-547); scales of rows and of columns are
// others, so MXFP8 and blocks of 128 have two copies everywhere, each with 1/32 of a byte of them.
struct Fp8Casts {
  Fp8Recipe recipe = Fp8Recipe::none;
  int copies = 2;
};
[[nodiscard]] Fp8Casts fp8_casts(Fp8Recipe recipe, const Device& device);

// Whether a factor comes out of a norm, which writes 8 bits itself (delayed) or finds the largest
// number on its way (tensorwise: pytorch/csrc/extensions/normalization.cpp:94-116).
enum class CastOf : std::uint8_t { norm, other };

// Bytes moved for a number of 16 bits, beside what is moved where products are in 16 bits: by the
// cast of what a device holds, into `copies`. A norm that writes 8 bits saves one byte, and columns
// of what it wrote are turned by a pass that reads and writes 1.
[[nodiscard]] double cast_bytes(const Fp8Casts& casts, CastOf from, int copies);

// Whether a gathered factor has its columns of its rows, so that each device casts but those: one
// scale for all, and units that need columns (pytorch/distributed.py, _all_gather_fp8). Else what
// each device has cast by columns is gathered.
[[nodiscard]] bool columns_of_gathered_rows(const Fp8Casts& casts);
// Bytes moved for a number of a gathered factor to have its columns: of rows they are turned on
// each device, 1 + 1; gathered columns of blocks of 128, which lie one device's behind another's,
// are put in order (pytorch/distributed.py:1248-1253), as much; MXFP8's are used as they come.
[[nodiscard]] double turn_bytes(const Fp8Casts& casts);

// Bytes moved for a weight in each step's first micro-batch: cast from 16 bits once for all of them
// (pytorch/module/base.py, quantize_weight, update_workspace); or, kept in 8 bits, its columns
// turned; MXFP8 is gathered in 16 bits and cast.
[[nodiscard]] double weight_cast_bytes(const Fp8Casts& casts, bool kept_in_8_bits);

}  // namespace weir
