// Sums and exchanges of gradients as work on a stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_gradients.hpp"

#include <algorithm>
#include <utility>

#include "exec/training/replica_share.hpp"

namespace weir {
namespace {

// Numbers of a piece: 4 MB from each other replica, which links carry at their full rate.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
constexpr std::int64_t kFloat = sizeof(float);

}  // namespace

StreamGradients::StreamGradients(Setup setup, StreamTransport& transport)
    : setup_(std::move(setup)),
      transport_(transport),
      peers_(gradient_peers(setup_.program, setup_.copies, setup_.rank)) {
  if (setup_.plan.zero > 0) {
    updated_ = setup_.backend->stream()->make_event();
    gathered_ = transport_.gradient_stream().make_event();
  }
  if (setup_.plan.dp == 1) return;
  for (const Stage stage : setup_.program.shape().all_stages()) {
    if (setup_.program.shape().rank_of(stage) != setup_.rank) continue;
    std::int64_t numbers = 0;
    // The first replica's slice is the largest: room for it is room for each.
    for (const Parameter& held : setup_.stages[stage.position()]->parameters())
      numbers += slice(held.description.elements(), 0).count;
    stride_ = std::max(stride_, std::min(kPiece, numbers));
  }
  room_ = setup_.arena->allocate(room_of(setup_.plan.dp) * kFloat);
}

Parameter& StreamGradients::parameter(const GradientKey& key) const {
  return setup_.stages[key.first]->parameters()[key.second];
}

bool StreamGradients::divided(const GradientKey& key) const {
  return dividing_replicas(setup_.plan, parameter(key).description, ParameterPart::gradient) > 1;
}

Slice StreamGradients::slice(std::int64_t elements, int replica) const {
  return replica_slice(elements, replica, setup_.plan.dp);
}

// The replica's own part is in its place in the gradient.
std::int64_t StreamGradients::room_of(int replica) const {
  return (replica - (replica > setup_.replica ? 1 : 0)) * stride_;
}

Tensor StreamGradients::gradient(const GradientKey& key) const {
  return slice_of(parameter(key).gradient, parameter(key).updated);
}

Tensor StreamGradients::part(const Chunk& chunk, int replica) const {
  const Parameter& held = parameter(chunk.key);
  const Slice all = slice(held.description.elements(), replica);
  const std::int64_t count = std::clamp(all.count - chunk.offset, std::int64_t{0}, chunk.count);
  if (count == 0) return {};
  return slice_of(held.gradient, {all.first + chunk.offset, count});
}

void StreamGradients::launch_sum(Stage stage) {
  launch_sum(stage, 0, static_cast<int>(setup_.stages[stage.position()]->parameters().size()));
}

void StreamGradients::launch_sum(Stage stage, int first_parameter, int count) {
  if (setup_.plan.dp == 1) return;
  std::vector<GradientKey> keys;
  for (int p = first_parameter; p < first_parameter + count; ++p) {
    const GradientKey key{stage.value, p};
    // A layer whose sum overlapped the backward has been launched already.
    if (summed_.insert(key).second) keys.push_back(key);
  }
  if (keys.empty()) return;
  for (const Piece& piece : pieces_of(keys)) launch_piece(piece);
  std::vector<Divided> sums;
  for (const GradientKey& key : keys) {
    // A divided weight's sum stays with the replica that updates it.
    const Parameter& held = parameter(key);
    if (!divided(key)) sums.push_back({held.gradient, held.description.elements()});
  }
  gather(sums);
}

// By the slices of the first replica, which no other's exceed: so all cut alike.
std::vector<StreamGradients::Piece> StreamGradients::pieces_of(
    const std::vector<GradientKey>& keys) const {
  std::vector<Piece> pieces;
  std::int64_t taken = stride_;  // of the last piece's room
  for (const GradientKey& key : keys) {
    const std::int64_t numbers = slice(parameter(key).description.elements(), 0).count;
    for (std::int64_t offset = 0; offset < numbers;) {
      if (taken == stride_) {
        pieces.emplace_back();
        taken = 0;
      }
      const std::int64_t count = std::min(numbers - offset, stride_ - taken);
      pieces.back().push_back({key, offset, count, taken});
      offset += count;
      taken += count;
    }
  }
  return pieces;
}

void StreamGradients::launch_piece(const Piece& piece) {
  std::vector<StreamTransfer> sends, receives;
  std::vector<OrderedSums::One> sums;
  for (const Chunk& chunk : piece) {
    const Tensor own = part(chunk, setup_.replica);
    for (int replica = 0; replica < setup_.plan.dp; ++replica) {
      if (replica == setup_.replica) continue;
      // Empty where a short tensor leaves a replica without a slice.
      if (const Tensor theirs = part(chunk, replica)) sends.push_back({replica, theirs});
      const std::int64_t place = (room_of(replica) + chunk.place) * kFloat;
      if (own) receives.push_back({replica, {room_.data + place, own.bytes}});
    }
    if (own) sums.push_back({own.floats(), room_.floats() + chunk.place, own.bytes / kFloat});
  }
  // Sends and receives of a piece go as one exchange, or two replicas could wait for each other.
  transport_.exchange(Among::replicas, sends, receives);
  if (sums.empty()) return;
  setup_.backend->launch_sums({sums, setup_.plan.dp, setup_.replica, stride_},
                              transport_.gradient_stream());
}

void StreamGradients::gather(const std::vector<Divided>& tensors) {
  std::vector<StreamTransfer> sends, receives;
  for (const Divided& tensor : tensors) {
    const auto of = [&](int replica) {
      return slice_of(tensor.whole, slice(tensor.elements, replica), tensor.element_bytes);
    };
    for (int replica = 0; replica < setup_.plan.dp; ++replica) {
      if (replica == setup_.replica) continue;
      if (of(setup_.replica).bytes > 0) sends.push_back({replica, of(setup_.replica)});
      if (of(replica).bytes > 0) receives.push_back({replica, of(replica)});
    }
  }
  if (!sends.empty() || !receives.empty()) transport_.exchange(Among::replicas, sends, receives);
}

void StreamGradients::whole(Stage stage, int first_parameter, int count) {
  if (count == 0) return;
  Stream& stream = *setup_.backend->stream();
  const auto [event, fresh] = made_.try_emplace({stage.value, first_parameter});
  if (fresh) event->second = stream.make_event();
  stream.record(event->second);
  transport_.gradient_stream().wait_for(event->second);
  launch_sum(stage, first_parameter, count);
}

void StreamGradients::launch_exchange() {
  std::vector<StreamTransfer> sends, receives;
  for (const auto& [key, rank] : peers_.outgoing) {
    if (const Tensor own = gradient(key); own.bytes > 0) sends.push_back({rank, own});
  }
  for (const auto& [key, copy] : peers_.incoming) {
    const std::int64_t bytes = gradient(copy.own).bytes;
    Tensor& arrived = arrived_[key];
    if (bytes == 0) continue;  // a slice behind the end
    arrived = setup_.arena->allocate_for(bytes, transport_.gradient_stream());
    receives.push_back({copy.rank, {arrived.data, bytes}});
  }
  if (!sends.empty() || !receives.empty()) transport_.exchange(Among::sharers, sends, receives);
}

std::vector<Tensor> StreamGradients::copies(Stage stage, std::size_t parameter) {
  std::vector<Tensor> gradients;
  for (const GradientUse& use : setup_.copies[stage.position()][parameter]) {
    const GradientKey key{use.stage.value, use.parameter};
    const auto arrived = arrived_.find(key);
    gradients.push_back(arrived != arrived_.end() ? arrived->second : gradient(key));
  }
  return gradients;
}

void StreamGradients::updated(Stage stage) {
  const auto& uses = setup_.copies[stage.position()];
  std::vector<Divided> weights;
  for (std::size_t p = 0; p < uses.size(); ++p) {
    const GradientKey key{stage.value, static_cast<int>(p)};
    // A second use of a weight is updated with the first.
    if (uses[p].empty() || !divided(key)) continue;
    const Parameter& held = parameter(key);
    weights.push_back(
        {held.weight, held.description.elements(), bytes_per_element(setup_.plan.dtype)});
  }
  if (weights.empty()) return;
  Stream& stream = *setup_.backend->stream();
  Stream& messages = transport_.gradient_stream();
  stream.record(updated_);
  messages.wait_for(updated_);
  gather(weights);
  messages.record(gathered_);
  stream.wait_for(gathered_);  // the action ends behind it
}

void StreamGradients::end_step() {
  for (auto& [key, tensor] : arrived_) setup_.arena->release(tensor);
  arrived_.clear();
  summed_.clear();
}

}  // namespace weir
