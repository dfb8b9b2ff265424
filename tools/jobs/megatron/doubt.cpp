// By the names that the plan keeps of what it leaves out.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/job/doubt.hpp"

#include <algorithm>

#include "tools/jobs/job/unmodelled.hpp"
#include "tools/jobs/megatron/import.hpp"

namespace weir {

std::vector<std::string> doubts_of(const SourceJob& job) {
  std::vector<std::string> doubts;
  if (job.tool != "megatron" && job.tool != "nemo") return doubts;
  for (const std::string& left_out : job.left_out) {
    std::string name = left_out.substr(left_out.rfind('.') + 1);
    std::ranges::replace(name, '_', '-');
    const bool rebuilds = name == "recompute-modules" || name == "activations-checkpoint-layers";
    const bool size = names_a_size(name) && unread_argument(name).fate == Fate::unknown;
    if (rebuilds || size) doubts.push_back(left_out);
  }
  return doubts;
}

}  // namespace weir
