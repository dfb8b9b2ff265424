// Measured beside predicted: every layout of a file on every mesh shape that the workers make,
// steps interleaved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "costmodel/layers/layout_math.hpp"
#include "plan/layout/layout.hpp"
#include "plan/layout/read.hpp"

namespace weir {

struct LayoutRunRequest {
  std::string file;  // for complaints
  int workers = 1;
  int rounds = 15;
  std::uint64_t seed = 1;
  std::function<void(int done, int of)> progress;
};

struct LayoutRunRow {
  layout::Layout layout;  // with the mesh it ran on
  LayoutNumbers formula, counted;
  LayoutTime predicted;
  LayoutTime measured;  // medians of each part by the workers' core clocks; waiting: what is left
                        // of the step
  std::optional<double> spread;  // interquartile range of the step over its median
  double difference = 0;         // from the unsplit computation; 0: the same bits
};

struct LayoutRunResult {
  bool rounds_nowhere = false;  // then `difference` has to be 0
  bool oversubscribed = false;  // more workers than cores: never compared
  LayoutRates rates;
  double preemptions = 0;  // how often a worker lost its core to other work, a step
  std::vector<LayoutRunRow> rows;
};

// The layout on each mesh of `workers` processors with the same mesh dimensions: 2 x 1 and 1 x 2
// for two of them.
[[nodiscard]] std::vector<layout::Layout> on_workers(const layout::Layout& layout, int workers);

// Throws InputError where a layout cannot be on such a mesh or an einsum is no matrix product,
// RunFailed where they need more memory than there is, before anything is allocated, or where a
// result or a count is not as it has to be, MissingComponent in a build without
// the CPU backend.
[[nodiscard]] LayoutRunResult run_layouts(const layout::LayoutFile& file,
                                          const LayoutRunRequest& request);

}  // namespace weir
