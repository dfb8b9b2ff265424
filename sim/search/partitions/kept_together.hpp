// Layers that no boundary parts. The blocks that predict further tokens stand on one stage in the
// trainer that has them (Megatron-Core, core/transformer/pipeline_parallel_layer_layout.py); and
// where a stack says so no stage has the final norm alone (core/transformer/transformer_block.py,
// has_final_layernorm_in_this_stage).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/job/stack.hpp"
#include "plan/model/model.hpp"

namespace weir {

class KeptTogether {
 public:
  // Looks at the layers once, and keeps no reference.
  KeptTogether(const Model& model, const Stack& stack);

  // Whether there is anything to keep together.
  [[nodiscard]] bool any() const { return last_ > first_ || norm_ > 0; }
  // Precondition of both: the boundaries ascend.
  [[nodiscard]] bool keeps(std::span<const int> boundaries) const;
  // The boundaries, those that would part such layers moved ahead of them, and what then stands in
  // their way further ahead; as they are where there are too few layers before it.
  [[nodiscard]] std::vector<int> kept(std::vector<int> boundaries) const;
  // Why so many stages part such layers however they are cut; nullopt: they need not.
  [[nodiscard]] std::optional<std::string> too_many(int stages) const;

 private:
  [[nodiscard]] bool parts(int boundary) const { return boundary > first_ && boundary <= last_; }
  // Whether the stage from boundary b to the next one is the norm's.
  [[nodiscard]] bool leaves_norm(std::span<const int> boundaries, std::size_t b) const;

  int layers_;
  int first_ = 0, last_ = 0;  // of the blocks that predict; none: 0
  int norm_ = 0;              // the norm that no stage has alone; none: 0
};

}  // namespace weir
