// What groups of experts must be.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/expert_groups.hpp"

namespace weir {

std::optional<std::string> cannot_group(const TransformerShape& block) {
  const std::int64_t groups = block.expert_groups, drawn = block.groups_per_token;
  if (groups == 0 && drawn == 0) return std::nullopt;
  if (groups < 2 || block.experts % groups != 0)
    return "expected two or more groups, as many as divide the experts";
  if (drawn < 1 || drawn > groups || block.experts_per_token > block.experts / groups * drawn)
    return "expected a token to visit some of the groups, which have its experts";
  return std::nullopt;
}

}  // namespace weir
