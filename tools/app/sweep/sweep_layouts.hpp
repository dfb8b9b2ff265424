// A search over K and the layouts inside its stages together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "plan/model/model.hpp"
#include "sim/search/space/space.hpp"
#include "tools/app/plan/plan_layout.hpp"
#include "tools/app/shared/session.hpp"
#include "tools/app/sweep/sweep_request.hpp"

namespace weir::app {

// What the request says of layouts. Sets what these decide (tokens of a sample, context parallelism
// and, of a file, the degrees that it has), where no option says it. Throws UsageError for an
// option with a value that no layout has, InputError for a file that is of another model or has no
// layout for a stage.
[[nodiscard]] std::optional<FileLayouts> taken_layouts(SweepRequest& request, const Model& model,
                                                       const Session& session);

// The layouts that the search chooses from, its degrees known: the file's, or all. Those that were
// asked for and that no candidate has are noted, each with its cause; throws UsageError where no
// layout is left.
void set_layouts(weir::SweepRequest& search, const SweepRequest& request, const Model& model,
                 const std::optional<FileLayouts>& of_file, const Session& session);

// The layout inside the stages of each plan.
[[nodiscard]] std::vector<NamedLayout> listed_layouts(const weir::SweepRequest& search,
                                                      const Model& model,
                                                      const std::vector<Ranked>& plans);
[[nodiscard]] std::string to_text(const NamedLayout& layout);
[[nodiscard]] nlohmann::ordered_json to_json(const NamedLayout& layout);

}  // namespace weir::app
