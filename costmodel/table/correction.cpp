// The factor of a micro-batch size, interpolated between those that were run.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/table/correction.hpp"

#include <cmath>
#include <iterator>

namespace weir {

double factor_at(const SizeCorrection& correction, int micro_batch_size) {
  if (correction.empty()) return 1;
  const auto above = correction.lower_bound(micro_batch_size);
  if (above == correction.end()) return correction.rbegin()->second;
  if (above->first == micro_batch_size || above == correction.begin()) return above->second;
  const auto below = std::prev(above);
  const double share = std::log(static_cast<double>(micro_batch_size) / below->first) /
                       std::log(static_cast<double>(above->first) / below->first);
  return std::exp((1 - share) * std::log(below->second) + share * std::log(above->second));
}

}  // namespace weir
