// Sums and exchanges of gradients as work on a stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_gradients.hpp"

#include <algorithm>
#include <utility>

#include "exec/rank/tensor_shards.hpp"
#include "exec/training/replica_share.hpp"

namespace weir {

StreamGradients::StreamGradients(Setup setup, StreamTransport& transport)
    : setup_(std::move(setup)),
      transport_(transport),
      peers_(gradient_peers(setup_.program, setup_.copies, setup_.rank)) {
  if (setup_.plan.zero > 0) {
    updated_ = setup_.backend->stream()->make_event();
    gathered_ = transport_.gradient_stream().make_event();
  }
  std::int64_t longest = 0, partial = 0;
  for (const Stage stage : setup_.program.shape().all_stages()) {
    if (setup_.program.shape().rank_of(stage) != setup_.rank) continue;
    std::int64_t numbers = 0;
    const std::vector<Parameter>& held = setup_.stages[stage.position()]->parameters();
    for (std::size_t p = 0; p < held.size(); ++p) {
      if (!keeps_gradient_slice(setup_.plan, held[p].description))
        numbers += SliceSums::longest_slice(held[p].description.elements(), setup_.plan.dp);
      if (!partial_here(held[p])) continue;
      partial_.emplace_back(stage.value, static_cast<int>(p));
      partial += SliceSums::longest_slice(held[p].updated.count, setup_.plan.tp);
    }
    longest = std::max(longest, numbers);
  }
  if (setup_.plan.dp > 1) {
    replicas_.emplace(SliceSums::Setup{transport_, setup_.backend, Among::replicas, setup_.plan.dp,
                                       setup_.replica},
                      *setup_.arena, longest);
  }
  if (partial_.empty()) return;
  places_.emplace(
      SliceSums::Setup{transport_, setup_.backend, Among::places, setup_.plan.tp, setup_.place},
      *setup_.arena, partial);
  found_ = setup_.backend->stream()->make_event();
  whole_ = transport_.gradient_stream().make_event();
}

bool StreamGradients::partial_here(const Parameter& held) const {
  const Layer& layer = setup_.model.layers[static_cast<std::size_t>(held.id.layer)];
  return setup_.plan.tp > 1 && held.updated.count > 0 &&
         is_partial(layer, held.id.tensor, setup_.plan.sequence_parallel);
}

Parameter& StreamGradients::parameter(const GradientKey& key) const {
  return setup_.stages[key.first]->parameters()[key.second];
}

bool StreamGradients::divided(const GradientKey& key) const {
  return dividing_replicas(setup_.plan, parameter(key).description, ParameterPart::gradient) > 1;
}

bool StreamGradients::keeps_slice(const GradientKey& key) const {
  return keeps_gradient_slice(setup_.plan, parameter(key).description);
}

Tensor StreamGradients::gradient(const GradientKey& key) const {
  const Parameter& held = parameter(key);
  const std::int64_t first = keeps_slice(key) ? 0 : held.updated.first;
  return slice_of(held.gradient, {first, held.updated.count});
}

void StreamGradients::launch_sum(Stage stage) {
  launch_sum(stage, 0, static_cast<int>(setup_.stages[stage.position()]->parameters().size()));
}

void StreamGradients::launch_sum(Stage stage, int first_parameter, int count) {
  if (setup_.plan.dp == 1) return;
  std::vector<SliceSums::Divided> gradients, sums;
  for (int p = first_parameter; p < first_parameter + count; ++p) {
    const GradientKey key{stage.value, p};
    if (keeps_slice(key) || !summed_.insert(key).second) continue;
    const Parameter& held = parameter(key);
    gradients.push_back({held.gradient, held.description.elements()});
    if (!divided(key)) sums.push_back(gradients.back());
  }
  if (gradients.empty()) return;
  replicas_->launch_sums(gradients);
  replicas_->gather(sums);
}

void StreamGradients::launch_partials() {
  if (partial_.empty() || std::exchange(partials_summed_, true)) return;
  Stream& stream = *setup_.backend->stream();
  Stream& messages = transport_.gradient_stream();
  stream.record(found_);
  messages.wait_for(found_);
  std::vector<SliceSums::Divided> gradients;
  for (const GradientKey& key : partial_)
    gradients.push_back({gradient(key), parameter(key).updated.count});
  places_->launch_sums(gradients);
  places_->gather(gradients);
  messages.record(whole_);
  stream.wait_for(whole_);
}

void StreamGradients::whole(Stage stage, int first_parameter, int count) {
  bool sums = false;
  for (int p = first_parameter; p < first_parameter + count; ++p)
    sums = sums || !keeps_slice({stage.value, p});
  if (!sums) return;
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
  std::vector<SliceSums::Divided> weights;
  for (std::size_t p = 0; p < uses.size(); ++p) {
    const GradientKey key{stage.value, static_cast<int>(p)};
    // A second use of a weight is updated with the first.
    if (uses[p].empty() || !divided(key)) continue;
    const Parameter& held = parameter(key);
    if (keeps_weight_slice(setup_.plan, held.description)) continue;
    weights.push_back(
        {held.weight, held.description.elements(), bytes_per_element(setup_.plan.dtype)});
  }
  if (weights.empty()) return;
  Stream& stream = *setup_.backend->stream();
  Stream& messages = transport_.gradient_stream();
  stream.record(updated_);
  messages.wait_for(updated_);
  replicas_->gather(weights);
  messages.record(gathered_);
  stream.wait_for(gathered_);  // the action ends behind it
}

void StreamGradients::end_step() {
  for (auto& [key, tensor] : arrived_) setup_.arena->release(tensor);
  arrived_.clear();
  summed_.clear();
  partials_summed_ = false;
}

}  // namespace weir
