// A user's Megatron script, edited where it stands: "TP=8" becomes "TP=4" on its own line, and all
// that no change is about stays as it is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "tools/jobs/megatron/patch/changes.hpp"
#include "tools/jobs/trainers/row.hpp"

namespace weir {

struct EditedScript {
  std::string text;
  std::vector<Remark> not_edited;  // changes that no edit of its text makes
};

// With the changes, the number of devices and the environment that the plan needs. Each edit is
// tried and kept where the script, followed again, starts what it should.
[[nodiscard]] EditedScript edited_script(const PatchedScript& script,
                                         const std::vector<ArgumentChange>& changes,
                                         const DeviceChange& devices, const TrainerFacts& facts);

}  // namespace weir
