// Prepares a rank's kernels and makes its stages.
// SPDX-License-Identifier: Apache-2.0
#include "exec/rank/rank_device.hpp"

#include <fmt/format.h>

#include <new>

#include "exec/rank/tensor_shards.hpp"
#include "plan/words/error.hpp"

namespace weir {

void RankDevice::prepare(const ResolvedPlan& loaded, Rank rank, const StateSource& state,
                         Stages& stages, StagePeers peers) {
  const ScheduleShape& shape = loaded.schedule.shape;
  // Kernels are prepared for all stages at once: their scratch is one, as large as the largest
  // need.
  std::vector<Layer> layers;
  std::vector<Stage> own;
  for (std::int32_t stage = 0; stage < shape.total_stages(); ++stage) {
    if (shape.rank_of(Stage{stage}) != rank) continue;
    own.push_back(Stage{stage});
    const LayerRange range = loaded.stage(Stage{stage}).layers;
    for (Layer& layer : device_layers(loaded, range)) layers.push_back(std::move(layer));
  }
  const Plan& plan = loaded.plan;
  backend_->prepare(layers, plan.micro_batch_size, plan.seq_length);
  // Where samples do not divide evenly, some micro-batches have one sample less.
  if (plan.samples > 0) backend_->prepare(layers, plan.micro_batch_size - 1, plan.seq_length);
  const auto failed = [&](const std::string& what) {
    return RunFailed(fmt::format("rank {}, before the first step: {}", rank.value, what));
  };
  try {
    for (const Stage stage : own) {
      stages[static_cast<std::size_t>(stage.value)] =
          std::make_unique<StageWorker>(loaded, stage, state, *backend_, *arena_, peers);
    }
    backend_->use_scratch(arena_->allocate(backend_->scratch_bytes()));  // for the whole run
  } catch (const RunFailed& told) {
    throw failed(told.what());
  } catch (const std::bad_alloc& none) {
    throw failed(fmt::format("out of memory: {}", none.what()));
  }
}

}  // namespace weir
