// Both plans are written, and their keys compared.
// SPDX-License-Identifier: Apache-2.0
#include "sim/explain/plan_changes.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/job/plan_json.hpp"

namespace weir {
namespace {

constexpr std::array<std::string_view, 6> kOrigin{"schema", "model", "model_sha256",
                                                  "note",   "job",   "seed"};
constexpr std::array<std::string_view, 2> kFollows{"slots", "boundaries"};

KeyRole role_of(const std::string& key) {
  if (std::ranges::find(kOrigin, key) != kOrigin.end()) return KeyRole::origin;
  if (std::ranges::find(kFollows, key) != kFollows.end()) return KeyRole::follows;
  return KeyRole::chosen;
}

}  // namespace

std::vector<PlanChange> plan_changes(const Plan& from, const Plan& to) {
  const Json before = plan_json(from), after = plan_json(to);
  std::vector<PlanChange> changes;
  for (const auto& [key, value] : before.items()) {
    Json other = after.value(key, Json());
    if (value != other) changes.push_back({key, value, std::move(other), role_of(key)});
  }
  for (const auto& [key, value] : after.items()) {
    if (!before.contains(key)) changes.push_back({key, Json(), value, role_of(key)});
  }
  return changes;
}

std::vector<PlanChange> step_changes(const Plan& from, const Plan& to) {
  std::vector<PlanChange> changes = plan_changes(from, to);
  std::erase_if(changes, [](const PlanChange& one) { return one.role == KeyRole::origin; });
  return changes;
}

}  // namespace weir
