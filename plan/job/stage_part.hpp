// What a stage has of a model: its layers, and what it sends and receives for each sample.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/job/recompute.hpp"
#include "plan/words/action.hpp"

namespace weir {

// A skip that goes directly, at one of its ends.
struct StageSkip {
  Stage other;             // at the other end
  std::int64_t bytes = 0;  // of a sample
  bool operator==(const StageSkip&) const = default;
};

// One device's part of a stage.
struct StagePart {
  LayerRange layers;
  std::int64_t parameters = 0;         // numbers; each use of a tied weight counts
  std::int64_t expert_parameters = 0;  // of them, of experts that expert parallelism shares
  // Of both, those that are trained.
  std::int64_t trained_parameters = 0;
  std::int64_t trained_expert_parameters = 0;
  std::int64_t trained_products = 0;  // and those of matrices that experts do not share
  // What crosses the boundary before and after it, a sample, skips included; before the first layer
  // nothing. Equal of a stage without layers, which hands it on.
  std::int64_t input_bytes = 0;
  std::int64_t output_bytes = 0;
  // Of these, what goes directly, past the neighbour: the nearest stage's first, as it lies behind
  // what goes to the neighbour (plan/job/direct_skips).
  std::vector<StageSkip> skips_in{}, skips_out{};

  // Of a sample, in a message that it sends or receives.
  [[nodiscard]] std::int64_t message_bytes(const Action& message) const;
};

}  // namespace weir
