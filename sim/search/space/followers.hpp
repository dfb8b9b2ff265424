// Of a search's plans those whose devices follow each sequence's length (plan/words/lengths).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <set>
#include <string>

#include "plan/job/plan.hpp"

namespace weir {

class Followers {
 public:
  // `most`: tokens of a sequence on a device; 0: no plan follows.
  explicit Followers(int most) : most_(most) {}

  // The plan, following. None where it cannot, and where one came before that differs from it in
  // nothing but how rows would be shared: a step's sequences are dealt to all replicas.
  [[nodiscard]] std::optional<Plan> of(const Plan& plan);

 private:
  int most_;
  std::set<std::string> met_;
};

}  // namespace weir
