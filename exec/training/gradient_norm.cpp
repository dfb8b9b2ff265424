// Squares by weight, and what follows from their sum.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/gradient_norm.hpp"

#include <fmt/format.h>

#include <cmath>

#include "exec/training/each_weight.hpp"
#include "plan/words/error.hpp"

namespace weir {

GradientNorm::GradientNorm(const ResolvedPlan& loaded) : optimizer_(loaded.plan.optimizer) {
  if (!clips()) return;
  const auto stages = stage_parameters(loaded);
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    first_.push_back(parameters_.size());
    // The first replica's stages ascend with layers, so a weight's first use comes first; others'
    // have copies.
    if (stage >= static_cast<std::size_t>(loaded.schedule.shape.stages)) continue;
    for (std::size_t i = 0; i < stages[stage].size(); ++i) {
      const StageParameter& parameter = stages[stage][i];
      if (parameter.id == parameter.weight &&
          has_part(parameter.description, ParameterPart::gradient))
        parameters_.push_back(static_cast<int>(i));
    }
  }
  first_.push_back(parameters_.size());
  squares_.resize(parameters_.size());
}

void GradientNorm::set(Stage stage, const std::function<double(int)>& sum) {
  for (std::size_t w = first_[stage.position()]; w < first_[stage.position() + 1]; ++w)
    squares_[w] = sum(parameters_[w]);
}

std::span<double> GradientNorm::squares_of(Stage stage) {
  const std::size_t first = first_[stage.position()];
  return std::span(squares_).subspan(first, first_[stage.position() + 1] - first);
}

std::span<const int> GradientNorm::parameters_of(Stage stage) const {
  const std::size_t first = first_[stage.position()];
  return std::span(parameters_).subspan(first, first_[stage.position() + 1] - first);
}

std::optional<double> GradientNorm::norm() const {
  if (!clips()) return std::nullopt;
  double sum = 0;
  for (const double squares : squares_) sum += squares;
  return std::sqrt(sum);
}

double GradientNorm::factor() const {
  const std::optional<double> found = norm();
  if (!found) return 1;
  if (!std::isfinite(*found))
    throw RunFailed(fmt::format("the norm of the gradients is {}", *found));
  return clip_factor(optimizer_, *found);
}

}  // namespace weir
