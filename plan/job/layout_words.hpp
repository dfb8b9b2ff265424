// What of a plan decides how long its step takes, a word each, so that two plans can be told apart
// by how much: what two runs of one job share of a forecast's error depends on that.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "plan/job/plan.hpp"

namespace weir {

struct LayoutWords {
  std::vector<std::string> job;      // what is trained on how many devices
  std::vector<std::string> choices;  // how: always as many words, in one order
  bool operator==(const LayoutWords&) const = default;
};

// `model`: what tells it from others, a hash or a name. Data parallelism and the number of
// micro-batches follow from devices, mini-batch and the other degrees, and are no words. Tensor and
// sequence parallelism are one word, as are stages and where they begin.
[[nodiscard]] LayoutWords layout_words(const Plan& plan, std::string_view model);

// How far two plans are apart, from nothing to all.
enum class PlanDistance : std::uint8_t {
  none,        // the same plan
  one_choice,  // of one job, and one word differs
  choices,     // of one job, and several do
  other_job,   // another model, number of devices or mini-batch
};
[[nodiscard]] PlanDistance distance(const LayoutWords& a, const LayoutWords& b);
[[nodiscard]] std::string_view to_string(PlanDistance distance);

}  // namespace weir
