// What the trainer of a search's stack says of the best plan. Its abilities hold what is searched;
// the words that all candidates share (optimizer, prediction, format) its table alone knows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/job/resolve.hpp"

namespace weir::app {

// "the best plan is not run as it stands: optimizer: torchtitan's DistMuon wants ... (row
// torchtitan/muon)"; nullopt: it is run, or no table of this stack's trainer is kept, or the
// `baseline`, where there is one, has what is refused.
[[nodiscard]] std::optional<std::string> trainer_refuses(const std::string& stack,
                                                         const ResolvedPlan& best,
                                                         const ResolvedPlan* baseline);

}  // namespace weir::app
