// Equal counts, and the block partition.
// SPDX-License-Identifier: Apache-2.0
#include "sim/partition/shipped.hpp"

#include <algorithm>

#include "plan/words/indexed.hpp"

namespace weir {

std::vector<int> uniform_boundaries(int layers, int stages) {
  std::vector<int> boundaries;
  // The first stages have what is left over, a layer each.
  const int each = layers / stages, more = layers % stages;
  for (int s = 1; s < stages; ++s) boundaries.push_back(each * s + std::min(s, more));
  return boundaries;
}

std::vector<int> block_boundaries(std::span<const std::int64_t> layer_ns, int stages) {
  const auto [least, most] = std::ranges::minmax(layer_ns);
  const double range = most > least ? static_cast<double>(most - least) : 1;
  std::vector<double> sizes;  // from 0 to 1
  for (const std::int64_t time : layer_ns)
    sizes.push_back(static_cast<double>(time - least) / range);
  const auto layers = static_cast<int>(sizes.size());
  std::vector<int> ends;
  for (int s = 1; s < stages; ++s) ends.push_back(layers / stages * s);
  ends.push_back(layers);
  const auto block = [&](int s) {
    double sum = 0;
    for (int l = s == 0 ? 0 : ends[at(s - 1)]; l < ends[at(s)]; ++l) sum += sizes[at(l)];
    return sum;
  };
  std::vector<double> blocks;
  for (int s = 0; s < stages; ++s) blocks.push_back(block(s));
  for (int largest = -1;;) {
    // The largest stays so until it gives a layer away.
    if (largest < 0) {
      const auto last = std::max_element(blocks.rbegin(), blocks.rend());
      largest = static_cast<int>(blocks.rend() - last) - 1;
    }
    const auto smallest = static_cast<int>(std::ranges::min_element(blocks) - blocks.begin());
    // Sizes are from 0 to 1, so closer than 1 a layer may be too large to even them out.
    if (blocks[at(largest)] <= blocks[at(smallest)] + 1) break;
    // The smallest takes a layer from its neighbour on the largest's side, which may not be the
    // largest.
    const int giver = largest < smallest ? smallest - 1 : smallest + 1;
    if (largest < smallest) {
      --ends[at(giver)];
    } else {
      ++ends[at(smallest)];
    }
    // Summed anew: a layer added or taken off would round otherwise than the sum of all.
    for (const int changed : {giver, smallest}) blocks[at(changed)] = block(changed);
    if (giver == largest) largest = -1;
  }
  ends.pop_back();
  return ends;
}

}  // namespace weir
