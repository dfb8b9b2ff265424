// SPDX-License-Identifier: Apache-2.0
#include "exec/training/gradient_copies.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace weir {
namespace {

// What makes two parameters one weight: the tie's name, or for an untied one its place in the
// model.
using Weight = std::tuple<std::string, int, int>;

Weight weight_of(const StageParameter& parameter) {
  const std::string& tie = parameter.description.tied_with;
  return tie.empty() ? Weight{"", parameter.layer, parameter.tensor} : Weight{tie, 0, 0};
}

std::size_t at(std::int32_t index) { return static_cast<std::size_t>(index); }

}  // namespace

std::vector<std::vector<StageParameter>> stage_parameters(const LoadedPlan& loaded) {
  const auto layers = static_cast<int>(loaded.model.layers.size());
  std::vector<std::vector<StageParameter>> stages(
      static_cast<std::size_t>(loaded.schedule.shape.total_stages()));
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const LayerRange range =
        layers_of_stage(loaded.plan, layers, Stage{static_cast<std::int32_t>(s)});
    for (int l = range.first; l < range.last; ++l) {
      const Layer& layer = loaded.model.layers[static_cast<std::size_t>(l)];
      const LayerTensors tensors = layer_tensors(layer, loaded.plan.seq_length, loaded.plan.dtype);
      for (std::size_t t = 0; t < tensors.parameters.size(); ++t) {
        stages[s].push_back({tensors.parameters[t], l, static_cast<int>(t)});
      }
    }
  }
  return stages;
}

GradientCopies gradient_copies(const LoadedPlan& loaded) {
  const auto stages = stage_parameters(loaded);
  std::map<Weight, std::vector<GradientUse>> uses;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (std::size_t i = 0; i < stages[s].size(); ++i) {
      const StageParameter& parameter = stages[s][i];
      uses[weight_of(parameter)].push_back(
          {parameter.layer, Stage{static_cast<std::int32_t>(s)}, static_cast<int>(i)});
    }
  }
  for (auto& [weight, all] : uses) {
    std::sort(all.begin(), all.end(), [](const GradientUse& a, const GradientUse& b) {
      return std::tie(a.layer, a.stage.value, a.parameter) <
             std::tie(b.layer, b.stage.value, b.parameter);
    });
  }
  GradientCopies copies(stages.size());
  for (std::size_t s = 0; s < stages.size(); ++s) {
    for (auto parameter = stages[s].begin(); parameter != stages[s].end(); ++parameter) {
      const bool used_before =
          std::any_of(stages[s].begin(), parameter, [&](const StageParameter& earlier) {
            return weight_of(earlier) == weight_of(*parameter);
          });
      copies[s].push_back(used_before ? std::vector<GradientUse>{} : uses[weight_of(*parameter)]);
    }
  }
  return copies;
}

std::vector<OperationId> last_gradients(const Program& program) {
  std::vector<OperationId> last(at(program.shape.total_stages()), -1);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Action& action = program.operations[i].action;
    if (action.kind == ActionKind::B || action.kind == ActionKind::W) {
      last[at(action.stage.value)] = static_cast<OperationId>(i);
    }
  }
  return last;
}

}  // namespace weir
