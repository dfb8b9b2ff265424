// SPDX-License-Identifier: Apache-2.0
#include "exec/streams/stream_gradients.hpp"

#include <utility>

namespace weir {
namespace {
std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }
}  // namespace

LaunchedGradients::LaunchedGradients(Setup setup, LaunchedTransport& transport)
    : setup_(std::move(setup)),
      transport_(transport),
      peers_(gradient_peers(setup_.program, setup_.copies, setup_.rank)) {}

const Tensor& LaunchedGradients::gradient(const GradientPlace& place) const {
  return setup_.stages[at(place.first)]->parameters()[at(place.second)].gradient;
}

void LaunchedGradients::launch_sum(Stage stage) {
  launch_sum(stage, 0, static_cast<int>(setup_.stages[at(stage.value)]->parameters().size()));
}

void LaunchedGradients::launch_sum(Stage stage, int first_parameter, int count) {
  if (setup_.replicas == 1) return;
  std::vector<Tensor> gradients;
  for (int p = first_parameter; p < first_parameter + count; ++p) {
    const GradientPlace place{stage.value, p};
    if (summed_.insert(place).second) gradients.push_back(gradient(place));
  }
  if (!gradients.empty()) transport_.sum_over_replicas(gradients);
}

void LaunchedGradients::whole(Stage stage, int first_parameter, int count) {
  if (count == 0) return;
  const auto [mark, fresh] = made_.try_emplace({stage.value, first_parameter});
  if (fresh) mark->second = setup_.queue->make_mark();
  setup_.queue->record(mark->second);
  transport_.gradient_queue().wait_for(mark->second);
  launch_sum(stage, first_parameter, count);
}

void LaunchedGradients::launch_exchange() {
  std::vector<GradientTransfer> sends, receives;
  for (const auto& [place, rank] : peers_.outgoing) sends.push_back({rank, gradient(place)});
  for (const auto& [place, copy] : peers_.incoming) {
    Tensor& arrived = arrived_[place];
    arrived = setup_.arena->allocate_for(gradient(copy.own).bytes, transport_.gradient_queue());
    receives.push_back({copy.rank, arrived});
  }
  transport_.exchange(sends, receives);
}

std::vector<Tensor> LaunchedGradients::copies(Stage stage, std::size_t parameter) {
  std::vector<Tensor> gradients;
  for (const GradientUse& use : setup_.copies[at(stage.value)][parameter]) {
    const GradientPlace place{use.stage.value, use.parameter};
    const auto arrived = arrived_.find(place);
    gradients.push_back(arrived != arrived_.end() ? arrived->second : gradient(place));
  }
  return gradients;
}

void LaunchedGradients::end_step() {
  for (auto& [place, tensor] : arrived_) setup_.arena->release(tensor);
  arrived_.clear();
  summed_.clear();
}

}  // namespace weir
