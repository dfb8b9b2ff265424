// Sums and exchanges of gradients as work on a stream.
// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_gradients.hpp"

#include <utility>

namespace weir {

StreamGradients::StreamGradients(Setup setup, StreamTransport& transport)
    : setup_(std::move(setup)),
      transport_(transport),
      peers_(gradient_peers(setup_.program, setup_.copies, setup_.rank)) {}

const Tensor& StreamGradients::gradient(const GradientKey& key) const {
  return setup_.stages[key.first]->parameters()[key.second].gradient;
}

void StreamGradients::launch_sum(Stage stage) {
  launch_sum(stage, 0, static_cast<int>(setup_.stages[stage.position()]->parameters().size()));
}

void StreamGradients::launch_sum(Stage stage, int first_parameter, int count) {
  if (setup_.replicas == 1) return;
  std::vector<Tensor> gradients;
  for (int p = first_parameter; p < first_parameter + count; ++p) {
    const GradientKey key{stage.value, p};
    if (summed_.insert(key).second) gradients.push_back(gradient(key));
  }
  if (!gradients.empty()) transport_.sum_over_replicas(gradients);
}

void StreamGradients::whole(Stage stage, int first_parameter, int count) {
  if (count == 0) return;
  const auto [event, fresh] = made_.try_emplace({stage.value, first_parameter});
  if (fresh) event->second = setup_.stream->make_event();
  setup_.stream->record(event->second);
  transport_.gradient_stream().wait_for(event->second);
  launch_sum(stage, first_parameter, count);
}

void StreamGradients::launch_exchange() {
  std::vector<GradientTransfer> sends, receives;
  for (const auto& [key, rank] : peers_.outgoing) sends.push_back({rank, gradient(key)});
  for (const auto& [key, copy] : peers_.incoming) {
    Tensor& arrived = arrived_[key];
    arrived = setup_.arena->allocate_for(gradient(copy.own).bytes, transport_.gradient_stream());
    receives.push_back({copy.rank, arrived});
  }
  transport_.exchange(sends, receives);
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

void StreamGradients::end_step() {
  for (auto& [key, tensor] : arrived_) setup_.arena->release(tensor);
  arrived_.clear();
  summed_.clear();
}

}  // namespace weir
