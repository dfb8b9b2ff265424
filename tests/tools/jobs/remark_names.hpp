// What an importer remarked on, by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "tools/jobs/job/job.hpp"

namespace weir {

// The names of a job's remarks in their order, a blank after each.
inline std::string names(const Job& job) {
  std::string all;
  for (const Remark& remark : job.remarks) all += remark.name + " ";
  return all;
}

}  // namespace weir
