// Which layers to rebuild: all sets worth a look, the cheapest first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace weir {

// A layer that may be rebuilt in its backward instead of kept.
struct RebuildItem {
  int layer = 0;
  std::int64_t time_ns = 0;      // of rebuilding it, a micro-batch
  std::int64_t saved_bytes = 0;  // of each micro-batch in flight
  bool operator==(const RebuildItem&) const = default;
};

struct RebuildChoice {
  std::int64_t time_ns = 0;
  std::int64_t saved_bytes = 0;
  std::vector<int> layers;  // ascending
};

struct RebuildChoices {
  std::vector<RebuildChoice> choices;  // ascending in time; of equal times what saves more first
  bool exact = true;                   // no other set could be better than all of these
};

// Every set of layers, where those that are alike count as so many of a kind, the first of them
// rebuilt first, as Megatron's method block does: what comes first is rebuilt last, when the
// others' activations are gone. More than `most` sets: the Pareto front of time and bytes alone (a
// knapsack's, kind by kind: Nemhauser and Ullmann, Management Science 15(9), 1969), thinned evenly
// where that is more than `most` too; no longer exact, for a peak is more than a sum of bytes.
[[nodiscard]] RebuildChoices rebuild_choices(std::span<const RebuildItem> items,
                                             std::size_t most = 20'000);

}  // namespace weir
