// Pairs of times, or of events, and their sums by action.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/rebuild_clock.hpp"

#include <chrono>

namespace weir {
namespace {

std::int64_t host_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

void RebuildClock::begin_action(OperationId id) {
  now_ = &actions_[id];
  now_->host_ns = 0;
  now_->used = 0;
}

void RebuildClock::begin() {
  Stream* stream = backend_.stream();
  if (stream == nullptr) {
    began_ns_ = host_now();
    return;
  }
  if (now_->used == now_->layers.size())
    now_->layers.emplace_back(stream->make_event(), stream->make_event());
  stream->record(now_->layers[now_->used].first);
}

void RebuildClock::end() {
  Stream* stream = backend_.stream();
  if (stream == nullptr) {
    now_->host_ns += host_now() - began_ns_;
    return;
  }
  stream->record(now_->layers[now_->used].second);
  ++now_->used;
}

void RebuildClock::read(StepClock& clock) const {
  if (clock.rebuild_ns.empty()) return;
  for (const auto& [id, action] : actions_) {
    std::int64_t sum = action.host_ns;
    for (const auto& [first, last] : action.layers) sum += first.of->ns_between(first, last);
    clock.rebuild_ns[id.position()] = sum;
  }
}

}  // namespace weir
