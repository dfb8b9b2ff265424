// Finds the uses of each weight by its tie.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/gradient_copies.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace weir {

std::vector<std::vector<StageParameter>> stage_parameters(const ResolvedPlan& loaded) {
  std::vector<std::vector<StageParameter>> stages(loaded.stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const LayerRange range = loaded.stages[s].layers;
    for (int l = range.first; l < range.last; ++l) {
      int tensor = 0;
      for (const ParameterTensor& parameter : loaded.part->layer(l).tensors.parameters) {
        const ParameterId id{l, tensor++};
        stages[s].push_back({parameter, id, loaded.part->weight(id)});
      }
    }
  }
  return stages;
}

GradientCopies gradient_copies(const ResolvedPlan& loaded) {
  const auto stages = stage_parameters(loaded);
  std::map<ParameterId, std::vector<GradientUse>> uses;  // by weight
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t i = 0; i < stages[s].size(); ++i) {
      const StageParameter& parameter = stages[s][i];
      uses[parameter.weight].push_back(
          {parameter.id.layer, Stage{static_cast<std::int32_t>(s)}, static_cast<int>(i)});
    }
  }
  for (auto& [weight, all] : uses) {
    // In layer order, whatever the stages: so all copies of a tied weight are updated with the same
    // sum.
    std::sort(all.begin(), all.end(), [](const GradientUse& a, const GradientUse& b) {
      return std::tie(a.layer, a.stage.value, a.parameter) <
             std::tie(b.layer, b.stage.value, b.parameter);
    });
  }
  GradientCopies copies(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (auto parameter = stages[s].begin(); parameter != stages[s].end(); ++parameter) {
      // The first use on a stage updates the weight; a later one would update it twice.
      const bool used_before = std::any_of(
          stages[s].begin(), parameter,
          [&](const StageParameter& earlier) { return earlier.weight == parameter->weight; });
      copies[s].push_back(used_before ? std::vector<GradientUse>{} : uses[parameter->weight]);
    }
  }
  return copies;
}

std::vector<OperationId> last_gradients(const Program& program) {
  std::vector<OperationId> last(program.shape().total_stages(), kNoOperation);
  for (const OperationId id : program.ids()) {
    const Action& action = program.op(id).action;
    if (action.kind == ActionKind::B || action.kind == ActionKind::W)
      last[action.stage.position()] = id;
  }
  return last;
}

}  // namespace weir
