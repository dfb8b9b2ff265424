// The walk over the stages' parameters.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/each_weight.hpp"

#include <vector>

#include "exec/training/gradient_copies.hpp"
#include "plan/text/sha256.hpp"

namespace weir {
namespace {

// visit(stage of the first copy, index among its parameters, the parameter) for each weight that
// has the part.
template <class Visit>
void walk(const ResolvedPlan& loaded, ParameterPart part, Visit visit) {
  const auto stages = stage_parameters(loaded);
  for (std::int32_t stage = 0; stage < loaded.schedule.shape.stages; ++stage) {
    const auto& parameters = stages[static_cast<std::size_t>(stage)];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // Layers ascend with stages: the first use of a weight comes before its others.
      const bool first = parameters[i].id == parameters[i].weight;
      if (first && has_part(parameters[i].description, part)) visit(Stage{stage}, i, parameters[i]);
    }
  }
}

}  // namespace

bool has_part(const ParameterTensor& parameter, ParameterPart part) {
  return part == ParameterPart::values || !parameter.running;
}

void each_weight(const ResolvedPlan& loaded, ParameterPart part,
                 const std::function<void(ParameterId, const ParameterTensor&)>& visit) {
  walk(loaded, part, [&](Stage, std::size_t, const StageParameter& parameter) {
    visit(parameter.weight, parameter.description);
  });
}

void gather_weights(
    const ResolvedPlan& loaded, ParameterPart part, const FetchParameter& fetch,
    const std::function<void(ParameterId, const ParameterTensor&, std::span<const float>)>& visit) {
  // Only gradients have copies: each use of a tied weight has its own, and the weight's is their
  // sum.
  const GradientCopies copies =
      part == ParameterPart::gradient ? gradient_copies(loaded) : GradientCopies{};
  std::vector<float> values, other;
  walk(loaded, part, [&](Stage stage, std::size_t index, const StageParameter& parameter) {
    values.resize(static_cast<std::size_t>(parameter.description.elements()));
    if (copies.empty()) {
      fetch(stage, index, part, values);
    } else {
      const auto& uses = copies[stage.position()][index];
      other.resize(values.size());
      for (const GradientUse& use : uses) {
        // Added in the order of uses, as the optimizer adds them: the same bits.
        const bool first = &use == &uses.front();
        fetch(use.stage, static_cast<std::size_t>(use.parameter), part, first ? values : other);
        for (std::size_t i = 0; !first && i < values.size(); ++i) values[i] += other[i];
      }
    }
    visit(parameter.weight, parameter.description, values);
  });
}

void give_weights(const ResolvedPlan& loaded, ParameterPart part, const FetchParameter& fetch) {
  gather_weights(loaded, part, fetch,
                 [](ParameterId, const ParameterTensor&, std::span<const float>) {});
}

std::string hash_weights(const ResolvedPlan& loaded, const FetchParameter& fetch) {
  Sha256 digest;
  gather_weights(loaded, ParameterPart::values, fetch,
                 [&](ParameterId, const ParameterTensor&, std::span<const float> values) {
                   digest.update(std::as_bytes(values));
                 });
  return digest.hex();
}

}  // namespace weir
