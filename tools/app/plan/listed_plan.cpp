// Reads a sweep's list, and resolves the plan that is asked for.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/plan/listed_plan.hpp"

#include <fmt/format.h>

#include "plan/text/schema.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir::app {

PlacedPlan listed_plan(const std::filesystem::path& sweep, int place, const Session& session) {
  session.guard(sweep);
  const Json json = Json::parse(read_text_file(sweep), nullptr, false);
  if (!has_schema(json, "weir.sweep/1") || !json.contains("plans"))
    throw InputError(sweep.string(), "schema", "expected weir.sweep/1");
  const auto& plans = json["plans"];
  if (!plans.is_array() || place < 1 || place > std::ssize(plans)) {
    throw InputError(sweep.string(), "plans",
                     fmt::format("has {} plans, none at place {}", plans.size(), place));
  }
  // Places count from 1, as the list is printed.
  const auto& row = plans[static_cast<std::size_t>(place) - 1];
  if (!row.is_object() || !row.contains("plan"))
    throw InputError(sweep.string(), fmt::format("plans[{}].plan", place - 1), "is missing");
  // Paths within the list start from where the list lies.
  const auto folder = std::filesystem::absolute(sweep).parent_path();
  PlacedPlan plan{resolve(parse_plan(row["plan"].dump(2), sweep.string()), folder), folder};
  guard_named(plan, session);
  return plan;
}

}  // namespace weir::app
