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

}  // namespace

ProcessReplicaGroup::ProcessReplicaGroup(std::vector<int> members, Processes& processes,
                                         Backend& backend)
    : members_(std::move(members)), processes_(processes), backend_(backend) {
  const auto own = std::ranges::find(members_, processes.index());
  own_ = static_cast<int>(own - members_.begin());
}

std::byte* ProcessReplicaGroup::Started::whole(std::size_t tensor) {
  return copies.empty() ? tensors[tensor].whole.data : copies[tensor].data();
}

void ProcessReplicaGroup::begin(std::span<const DividedTensor> tensors, Started& started) const {
  started.tensors.assign(tensors.begin(), tensors.end());
  started.copies.clear();
  if (backend_.in_host_memory()) return;
  for (const DividedTensor& tensor : tensors)
    started.copies.emplace_back(static_cast<std::size_t>(tensor.elements * tensor.element_bytes));
}

Slice ProcessReplicaGroup::slice(const DividedTensor& tensor, int replica) const {
  return replica_slice(tensor.elements, replica, static_cast<int>(members_.size()));
}

std::span<std::byte> ProcessReplicaGroup::part(Started& of, std::size_t tensor, int replica) const {
  const std::int64_t each = of.tensors[tensor].element_bytes;
  const Slice its = slice(of.tensors[tensor], replica);
  return {of.whole(tensor) + its.first * each, static_cast<std::size_t>(its.count * each)};
}

void ProcessReplicaGroup::send(int replica, int tag, std::span<const std::byte> values,
                               Tickets& tickets) {
  if (values.empty()) return;  // a slice behind the end
  tickets.push_back(
      processes_.start_send(members_[static_cast<std::size_t>(replica)], tag, values));
}

void ProcessReplicaGroup::receive(int replica, int tag, std::span<std::byte> values,
                                  Tickets& tickets) {
  if (values.empty()) return;
  tickets.push_back(
      processes_.start_receive(members_[static_cast<std::size_t>(replica)], tag, values));
}

void ProcessReplicaGroup::wait(Tickets& tickets) {
  for (const Processes::Ticket ticket : tickets) processes_.wait(ticket);
  tickets.clear();
}

void ProcessReplicaGroup::start_gather(std::span<const DividedTensor> tensors) {
  begin(tensors, gather_);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::span<std::byte> own = part(gather_, t, own_);
    backend_.to_host(own.data(), tensors[t].own, static_cast<std::int64_t>(own.size()));
    for (int replica = 0; replica < static_cast<int>(members_.size()); ++replica) {
      if (replica == own_) continue;
      receive(replica, kGatherTag, part(gather_, t, replica), gather_.tickets);
      send(replica, kGatherTag, own, gather_.tickets);
    }
  }
}

void ProcessReplicaGroup::finish_gather() {
  wait(gather_.tickets);
  for (std::size_t t = 0; t < gather_.tensors.size(); ++t) {
    const DividedTensor& tensor = gather_.tensors[t];
    const std::int64_t bytes = tensor.elements * tensor.element_bytes;
    if (!backend_.in_host_memory())
      backend_.to_device(tensor.whole, gather_.copies[t].data(), bytes);
    if (tensor.padding > 0)
      backend_.put_zeros({tensor.whole.data + bytes, tensor.padding * tensor.element_bytes});
  }
}

void ProcessReplicaGroup::start_sum(std::span<const DividedTensor> tensors, Into own) {
  begin(tensors, sum_);
  into_ = own;
  std::size_t terms = 0;
  for (const DividedTensor& tensor : tensors)
    terms += static_cast<std::size_t>(slice(tensor, own_).count) * members_.size();
  terms_.resize(terms);
  float* room = terms_.data();
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (!backend_.in_host_memory()) {
      backend_.to_host(sum_.copies[t].data(), tensors[t].whole,
                       static_cast<std::int64_t>(sum_.copies[t].size()));
    }
    const auto count = static_cast<std::size_t>(slice(tensors[t], own_).count);
    for (int replica = 0; replica < static_cast<int>(members_.size()); ++replica) {
      const std::span<std::byte> term = std::as_writable_bytes(std::span(room, count));
      room += count;
      if (replica == own_) {
        std::ranges::copy(part(sum_, t, own_), term.begin());
        continue;
      }
      receive(replica, kSumTag, term, sum_.tickets);
      send(replica, kSumTag, part(sum_, t, replica), sum_.tickets);
    }
  }
}

void ProcessReplicaGroup::finish_sum() {
  wait(sum_.tickets);
  float* room = terms_.data();
  for (const DividedTensor& tensor : sum_.tensors) {
    const auto count = static_cast<std::size_t>(slice(tensor, own_).count);
    // Replica 0's term first, then 1's, 2's..., whichever came first and whosever this one's is.
    float* sum = room;
    for (std::size_t replica = 1; replica < members_.size(); ++replica) {
      const float* term = room + replica * count;
      for (std::size_t i = 0; i < count; ++i) sum[i] += term[i];
    }
    keep(tensor, {sum, count});
    room += members_.size() * count;
  }
}

void ProcessReplicaGroup::keep(const DividedTensor& tensor, std::span<const float> sum) {
  std::vector<float> copy;
  float* own = tensor.own.floats();
  const auto bytes = static_cast<std::int64_t>(sum.size_bytes());
  if (!backend_.in_host_memory()) {
    copy.resize(sum.size());
    if (into_ == Into::added) backend_.to_host(copy.data(), tensor.own, bytes);
    own = copy.data();
  }
  for (std::size_t i = 0; i < sum.size(); ++i)
    own[i] = into_ == Into::added ? own[i] + sum[i] : sum[i];
  if (!backend_.in_host_memory()) backend_.to_device(tensor.own, own, bytes);
}

}  // namespace weir
