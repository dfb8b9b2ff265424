// Gathers and sums between two events.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_replica_group.hpp"

#include <vector>

#include "exec/training/replica_share.hpp"

namespace weir {

void StreamReplicaGroup::connect(StreamTransport& transport, Arena& arena,
                                 std::int64_t most_summed) {
  transport_ = &transport;
  sums_.emplace(SliceSums::Setup{transport, &backend_, Among::replicas, replicas_, own_}, arena,
                most_summed);
  before_ = backend_.stream()->make_event();
  made_ = backend_.stream()->make_event();
  gathered_ = transport.gradient_stream().make_event();
  summed_ = transport.gradient_stream().make_event();
}

Tensor StreamReplicaGroup::own_part(const DividedTensor& tensor) const {
  return slice_of(tensor.whole, replica_slice(tensor.elements, own_, replicas_),
                  tensor.element_bytes);
}

void StreamReplicaGroup::start_gather(std::span<const DividedTensor> tensors) {
  Stream& messages = transport_->gradient_stream();
  // Behind the last kernel that reads what the window had, and the update of the slices.
  backend_.stream()->record(before_);
  messages.wait_for(before_);
  std::vector<SliceSums::Divided> weights;
  for (const DividedTensor& tensor : tensors) {
    if (const Tensor own = own_part(tensor); own.bytes > 0)
      messages.copy({tensor.own.data, own.bytes}, own, *backend_.stream());
    const std::int64_t bytes = tensor.elements * tensor.element_bytes;
    // What products read beside the last row: the window had another layer there.
    if (tensor.padding > 0)
      messages.zero({tensor.whole.data + bytes, tensor.padding * tensor.element_bytes});
    weights.push_back({tensor.whole, tensor.elements, tensor.element_bytes});
  }
  sums_->gather(weights);
  messages.record(gathered_);
}

void StreamReplicaGroup::finish_gather() { backend_.stream()->wait_for(gathered_); }

void StreamReplicaGroup::start_sum(std::span<const DividedTensor> tensors, Into own) {
  Stream& messages = transport_->gradient_stream();
  backend_.stream()->record(made_);
  messages.wait_for(made_);
  std::vector<SliceSums::Divided> gradients;
  for (const DividedTensor& tensor : tensors)
    gradients.push_back({tensor.whole, tensor.elements, tensor.element_bytes});
  sums_->launch_sums(gradients);
  keep(tensors, own);
  messages.record(summed_);
}

// The sums are in their places in the whole tensors, whose memory goes.
void StreamReplicaGroup::keep(std::span<const DividedTensor> tensors, Into own) {
  Stream& messages = transport_->gradient_stream();
  std::vector<OrderedSums::One> added;
  for (const DividedTensor& tensor : tensors) {
    const Tensor sum = own_part(tensor);
    if (sum.bytes == 0) continue;  // a slice behind the end
    if (own == Into::overwritten) {
      messages.copy(sum, {tensor.own.data, sum.bytes}, *backend_.stream());
    } else {
      added.push_back({tensor.own.floats(), sum.floats(), sum.bytes / tensor.element_bytes});
    }
  }
  if (added.empty()) return;
  constexpr int kTerms = 2;  // what was kept, and this sum
  backend_.launch_sums({.of = added, .terms = kTerms, .own = 0, .stride = 0}, messages);
}

void StreamReplicaGroup::finish_sum() { backend_.stream()->wait_for(summed_); }

}  // namespace weir
