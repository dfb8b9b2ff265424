// Counts of what each micro-batch has behind it.
// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule/shard_passes.hpp"

namespace weir {

ShardPasses::ShardPasses(const ScheduleShape& shape) : shape_(shape) {
  if (shape.shards() == 0) return;
  outputs_.assign(shape.units(), 0);
  forwards_ = backwards_ = outputs_;
}

bool ShardPasses::ready(const Action& action) const {
  if (shape_.shards() == 0) return true;
  const Microbatch m = action.microbatch;
  if (shape_.is_shard(action.stage)) {
    if (action.kind == ActionKind::F) return outputs_[m] > 0;
    return !is_backward(action.kind) || forwards_[m] == shape_.shards();
  }
  if (!is_backward(action.kind) || !shape_.is_last(action.stage)) return true;
  const bool forwards = waits_for_forwards(shape_.vocabulary);
  return (forwards ? forwards_ : backwards_)[m] == shape_.shards();
}

bool ShardPasses::note(const Action& action) {
  if (shape_.shards() == 0 || !shape_.is_last(action.stage)) return false;
  const Microbatch m = action.microbatch;
  const bool forward = action.kind == ActionKind::F;
  if (shape_.is_shard(action.stage)) {
    if (!forward && !is_backward(action.kind)) return false;
    return ++(forward ? forwards_ : backwards_)[m] == shape_.shards();
  }
  if (forward) ++outputs_[m];
  return forward;
}

}  // namespace weir
