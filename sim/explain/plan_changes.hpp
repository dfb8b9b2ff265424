// What two plans have otherwise, key by key as their files have it: shown where a plan is compared,
// counted where it is to be edited.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/job/plan.hpp"
#include "plan/text/strict_json.hpp"

namespace weir {

enum class KeyRole : std::uint8_t {
  origin,   // of how a step is run it says nothing: model file, hash, note, job, seed
  follows,  // of the other keys, where nobody says it: boundaries, receive slots
  chosen
};

struct PlanChange {
  std::string key;
  Json before, after;  // null: that plan has no such key
  KeyRole role = KeyRole::chosen;
};

// In the order of the first plan's keys, then those of the second alone.
[[nodiscard]] std::vector<PlanChange> plan_changes(const Plan& from, const Plan& to);
// Those that change how a step is run.
[[nodiscard]] std::vector<PlanChange> step_changes(const Plan& from, const Plan& to);

}  // namespace weir
