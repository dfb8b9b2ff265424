// How long a GPU takes for one kernel: products by tile and wave quantisation, everything else by
// the bytes it moves, never less than a small kernel's floor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/job/cluster.hpp"
#include "plan/words/attention_library.hpp"
#include "plan/words/dtype.hpp"
#include "plan/words/units.hpp"

namespace weir {

// The rate of a device's matrix units in a number format; what it lacks runs in fp32.
[[nodiscard]] FlopsPerSecond peak_rate(const Device& device, Dtype dtype);

// batch products of [m, k] and [k, n].
struct MatmulShape {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
};

// In which format a product's factors are multiplied: the plan's, or 8 bits where the device has
// such units (elsewhere the plan's). What comes out is in the plan's format either way.
enum class ProductPrecision : std::uint8_t { plan, fp8 };
// Where a product goes: written anew in the plan's format (y = x w, dx = dy w'), or added to
// gradients that are kept in fp32 (dw += x' dy).
enum class ProductTarget : std::uint8_t { fresh, accumulated };
struct ProductForm {
  ProductPrecision precision = ProductPrecision::plan;
  ProductTarget target = ProductTarget::fresh;
};

// The rate of a device's matrix units for a product of this form.
[[nodiscard]] FlopsPerSecond peak_rate(const Device& device, Dtype dtype,
                                       ProductPrecision precision);

// NVIDIA, "Matrix Multiplication Background User's Guide" (docs.nvidia.com, Deep Learning
// Performance), sections on tile and wave quantisation: tiles = batch ceil(m / tm) ceil(n / tn) are
// computed a wave of one tile a multiprocessor at a time, each whole even where the matrix ends
// within it, so
//   t = ceil(tiles / multiprocessors) 2 tm tn k multiprocessors / (efficiency x peak).
// Libraries have the tile lying and standing, and one of half its columns at a share of the
// efficiency: the fastest counts. A tile is written when its products are done: `exposed_output` of
// the time that writing all of them takes comes on top. Heads whose rows do not fill words of 16
// bytes run at the share `unaligned` of the efficiency (the same guide's section on alignment).
// Roofline (Williams et al., CACM 2009): no
// less than its bytes at their efficiency; and no less than the floor.
[[nodiscard]] Seconds matmul_time(const MatmulShape& shape, const Device& device, Dtype dtype,
                                  ProductForm form = {});

// A fused attention core: `products` of rows x keys x d a head, of one kernel that works through
// the keys a tile of rows at a time, and past a causal mask's diagonal not at all.
struct FusedCore {
  std::int64_t rows = 0, keys = 0, d = 0;
  std::int64_t heads = 0;  // of all samples
  bool causal = true;
  int products = 2;        // 2 in F; 5 in the backward, which makes the scores again
  std::int64_t moved = 0;  // numbers read and written
  AttentionLibrary library = AttentionLibrary::flash2;
};
// Tiles of tm rows are handed out to multiprocessors as these become free. A tile visits ceil(keys
// / tm) tiles of keys, of which a causal mask leaves (1 + 1 / tiles) / 2 on average, and the
// longest all of them; so the work is done when its mean is, and about half of the longest tile
// later (Graham's bound for list scheduling, SIAM J. Appl. Math. 17, 1969, has all of it), but no
// sooner than the longest. At the library's rates; of one that was not measured here at another's;
// where none was, at the products' efficiency.
[[nodiscard]] Seconds fused_core_time(const FusedCore& core, const Device& device, Dtype dtype);

// start + bytes / (efficiency x bandwidth), no less than the floor.
[[nodiscard]] Seconds stream_time(Bytes bytes, const Device& device);

}  // namespace weir
