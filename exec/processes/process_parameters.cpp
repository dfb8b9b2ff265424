// Fetches a parameter: whole from one process, or piece by piece from all that divide it.
// SPDX-License-Identifier: Apache-2.0
#include "exec/processes/process_parameters.hpp"

#include <algorithm>

#include "exec/processes/leader.hpp"
#include "exec/processes/shared_gradients.hpp"
#include "exec/rank/tensor_shards.hpp"

namespace weir {

ProcessParameters::ProcessParameters(const ResolvedPlan& loaded, const Training& training,
                                     Backend& backend, Processes& processes, int tag)
    : loaded_(loaded),
      training_(training),
      backend_(backend),
      processes_(processes),
      grid_(loaded.plan, loaded.program.shape().ranks),
      tag_(tag),
      all_(stage_parameters(loaded)),
      summed_with_first_(summed_with_first(loaded.program, gradient_copies(loaded))) {}

FetchParameter ProcessParameters::fetch() {
  return [this](Stage stage, std::size_t parameter, ParameterPart part, std::span<float> values) {
    const GradientKey key{stage.value, static_cast<int>(parameter)};
    if (part == ParameterPart::gradient && summed_with_first_.contains(key)) {
      std::ranges::fill(values, 0.0F);
      return;
    }
    const StageParameter& own = all_[stage.position()][parameter];
    fetch_whole(own, {stage, parameter, part, own.description}, values);
  };
}

void ProcessParameters::fetch_whole(const StageParameter& own, const Part& part,
                                    std::span<float> values) {
  const Layer& layer = loaded_.model.layers[static_cast<std::size_t>(own.id.layer)];
  if (grid_.places == 1 || !is_divided(layer, own.id.tensor)) {
    fetch_part(part, 0, values);
    return;
  }
  for (int place = 0; place < grid_.places; ++place) {
    shard_.resize(static_cast<std::size_t>(own.description.elements()));
    fetch_part(part, place, shard_);
    const TensorPlace at{place, grid_.places};
    put_shard(shard_pieces(layer, own.id.tensor, at), shard_, values);
  }
}

void ProcessParameters::fetch_part(const Part& part, int place, std::span<float> values) {
  const int replicas = dividing_replicas(loaded_.plan, part.description, part.part);
  const Rank rank = loaded_.program.shape().rank_of(part.stage);
  for (int replica = 0; replica < replicas; ++replica) {
    const Slice slice = replica_slice(part.description.elements(), replica, replicas);
    const auto into = values.subspan(static_cast<std::size_t>(slice.first),
                                     static_cast<std::size_t>(slice.count));
    const int process = grid_.process(replica, place, rank);
    const bool own = process == processes_.index();
    if (own) read_slice(part, slice, into);
    if (own != leads(processes_)) collect(processes_, process, tag_, std::as_writable_bytes(into));
  }
}

void ProcessParameters::read_slice(const Part& part, const Slice& slice, std::span<float> into) {
  const auto& held = training_.stages[part.stage.position()]->parameters();
  const Tensor& tensor = held[part.parameter].part(part.part);
  // Before ZeRO-2 gradients are there whole; what the optimizer keeps begins with the slice.
  const bool inside =
      part.part == ParameterPart::gradient && !keeps_gradient_slice(loaded_.plan, part.description);
  backend_.to_host(into.data(), inside ? slice_of(tensor, slice) : tensor,
                   static_cast<std::int64_t>(into.size_bytes()));
}

}  // namespace weir
