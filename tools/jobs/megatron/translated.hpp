// A job in words of a tool that starts Megatron, in Megatron's own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/model/model.hpp"
#include "plan/model/treatment.hpp"
#include "tools/jobs/job/job.hpp"

namespace weir {

struct TranslatedJob {
  std::string arguments;             // as Megatron's command line
  std::vector<Remark> remarks = {};  // what of the job a plan's step is, where not all
  // Whether values of the environment stand among the arguments: such lines are kept nowhere.
  bool filled_in = false;
  std::optional<Adapters> lora = {};        // which Megatron's arguments have no words for
  std::vector<LayerRange> frozen = {};      // nor for these
  bool own_program = true;                  // as the Job's
  std::vector<ShellRemark> of_script = {};  // what of it was not known, or taken from elsewhere
};

}  // namespace weir
