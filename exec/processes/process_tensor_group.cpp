// Each device makes the result of its slice, in the order of places; in an all-reduce it sends it
// round.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_tensor_group.hpp"

#include <algorithm>
#include <utility>

#include "exec/training/replica_share.hpp"

namespace weir {
namespace {

constexpr int kTensorTag = 7;  // process_run has those below

}  // namespace

ProcessTensorGroup::ProcessTensorGroup(std::vector<int> members, Processes& processes)
    : members_(std::move(members)), processes_(processes) {
  const auto own = std::ranges::find(members_, processes.index());
  place_ = static_cast<int>(own - members_.begin());
}

void ProcessTensorGroup::sum(std::span<float> values) {
  all_reduce(values, [](float a, float b) { return a + b; });
}

void ProcessTensorGroup::maximum(std::span<float> values) {
  all_reduce(values, [](float a, float b) { return a > b ? a : b; });
}

void ProcessTensorGroup::sum_own(std::span<const float> values, std::span<float> own) {
  staged_.assign(values.begin(), values.end());
  combine_own_slice([](float a, float b) { return a + b; });
  std::ranges::copy(slice(place_), own.begin());
}

void ProcessTensorGroup::gather(std::span<const float> own, std::span<float> values) {
  staged_.resize(values.size());
  std::ranges::copy(own, slice(place_).begin());
  exchange_slices();
  std::copy_n(staged_.data(), values.size(), values.data());
}

std::span<float> ProcessTensorGroup::slice(int place) {
  const Slice part = replica_slice(static_cast<std::int64_t>(staged_.size()), place, count());
  return std::span(staged_).subspan(static_cast<std::size_t>(part.first),
                                    static_cast<std::size_t>(part.count));
}

void ProcessTensorGroup::send(int place, std::span<const float> values) {
  if (values.empty()) return;
  tickets_.push_back(processes_.start_send(members_[static_cast<std::size_t>(place)], kTensorTag,
                                           std::as_bytes(values)));
}

void ProcessTensorGroup::receive(int place, std::span<float> values) {
  if (values.empty()) return;
  tickets_.push_back(processes_.start_receive(members_[static_cast<std::size_t>(place)], kTensorTag,
                                              std::as_writable_bytes(values)));
}

void ProcessTensorGroup::wait() {
  for (const Processes::Ticket ticket : tickets_) processes_.wait(ticket);
  tickets_.clear();
}

template <class Combine>
void ProcessTensorGroup::all_reduce(std::span<float> values, Combine combine) {
  staged_.assign(values.begin(), values.end());
  combine_own_slice(combine);
  exchange_slices();
  std::copy_n(staged_.data(), values.size(), values.data());
}

template <class Combine>
void ProcessTensorGroup::combine_own_slice(Combine combine) {
  const std::span<float> own = slice(place_);
  partials_.resize(own.size() * members_.size());
  const auto partial = [&](int place) {
    return std::span(partials_).subspan(static_cast<std::size_t>(place) * own.size(), own.size());
  };
  // A reduce-scatter: every device sends each other one that one's slice.
  for (int place = 0; place < count(); ++place) {
    if (place == place_) continue;
    receive(place, partial(place));
    send(place, slice(place));
  }
  std::copy_n(own.data(), own.size(), partial(place_).data());
  wait();
  // Place 0's part first, then 1's, 2's...: this one's own may stand anywhere in that order.
  std::copy_n(partial(0).data(), own.size(), own.data());
  for (int place = 1; place < count(); ++place) {
    const float* terms = partial(place).data();
    for (std::size_t i = 0; i < own.size(); ++i) own[i] = combine(own[i], terms[i]);
  }
}

void ProcessTensorGroup::exchange_slices() {
  for (int place = 0; place < count(); ++place) {
    if (place == place_) continue;
    receive(place, slice(place));
    send(place, slice(place_));
  }
  wait();
}

}  // namespace weir
