// Each replica gets the others' terms of its slices, and they its slices.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_replica_group.hpp"

#include <algorithm>
#include <utility>

namespace weir {
namespace {

// process_tensor_group has the one below. Messages of a tag come in the order of calls.
constexpr int kGatherTag = 8;
constexpr int kSumTag = 9;

std::span<float> part(float* whole, const Slice& slice) {
  return {whole + slice.first, static_cast<std::size_t>(slice.count)};
}

}  // namespace

ProcessReplicaGroup::ProcessReplicaGroup(std::vector<int> members, Processes& processes)
    : members_(std::move(members)), processes_(processes) {
  const auto own = std::ranges::find(members_, processes.index());
  own_ = static_cast<int>(own - members_.begin());
}

Slice ProcessReplicaGroup::slice(const DividedTensor& tensor, int replica) const {
  return replica_slice(tensor.elements, replica, static_cast<int>(members_.size()));
}

void ProcessReplicaGroup::send(int replica, int tag, std::span<const float> values,
                               Tickets& tickets) {
  if (values.empty()) return;  // a slice behind the end
  tickets.push_back(processes_.start_send(members_[static_cast<std::size_t>(replica)], tag,
                                          std::as_bytes(values)));
}

void ProcessReplicaGroup::receive(int replica, int tag, std::span<float> values, Tickets& tickets) {
  if (values.empty()) return;
  tickets.push_back(processes_.start_receive(members_[static_cast<std::size_t>(replica)], tag,
                                             std::as_writable_bytes(values)));
}

void ProcessReplicaGroup::wait(Tickets& tickets) {
  for (const Processes::Ticket ticket : tickets) processes_.wait(ticket);
  tickets.clear();
}

void ProcessReplicaGroup::start_gather(std::span<const DividedTensor> tensors) {
  for (const DividedTensor& tensor : tensors) {
    const Slice mine = slice(tensor, own_);
    const std::span<const float> own(tensor.own, static_cast<std::size_t>(mine.count));
    for (int replica = 0; replica < static_cast<int>(members_.size()); ++replica) {
      if (replica == own_) continue;
      receive(replica, kGatherTag, part(tensor.whole, slice(tensor, replica)), gathers_);
      send(replica, kGatherTag, own, gathers_);
    }
    std::ranges::copy(own, part(tensor.whole, mine).begin());
  }
}

void ProcessReplicaGroup::finish_gather() { wait(gathers_); }

void ProcessReplicaGroup::start_sum(std::span<const DividedTensor> tensors) {
  summed_.assign(tensors.begin(), tensors.end());
  std::size_t terms = 0;
  for (const DividedTensor& tensor : tensors)
    terms += static_cast<std::size_t>(slice(tensor, own_).count) * members_.size();
  terms_.resize(terms);
  float* room = terms_.data();
  for (const DividedTensor& tensor : tensors) {
    const auto count = static_cast<std::size_t>(slice(tensor, own_).count);
    for (int replica = 0; replica < static_cast<int>(members_.size()); ++replica) {
      const std::span<float> term(room, count);
      room += count;
      if (replica == own_) {
        std::ranges::copy(part(tensor.whole, slice(tensor, own_)), term.begin());
        continue;
      }
      receive(replica, kSumTag, term, sums_);
      send(replica, kSumTag, part(tensor.whole, slice(tensor, replica)), sums_);
    }
  }
}

void ProcessReplicaGroup::finish_sum(Into own) {
  wait(sums_);
  float* room = terms_.data();
  for (const DividedTensor& tensor : summed_) {
    const auto count = static_cast<std::size_t>(slice(tensor, own_).count);
    // Replica 0's term first, then 1's, 2's..., whichever came first and whosever this one's is.
    float* sum = room;
    for (std::size_t replica = 1; replica < members_.size(); ++replica) {
      const float* term = room + replica * count;
      for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
    }
    for (std::size_t i = 0; i < count; ++i)
      tensor.own[i] = own == Into::added ? tensor.own[i] + sum[i] : sum[i];
    room += members_.size() * count;
  }
  summed_.clear();
}

}  // namespace weir
