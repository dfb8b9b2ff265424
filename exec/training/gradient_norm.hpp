// The norm of all weights' gradients together, by which they are clipped: one sum of squares a
// weight, in double, made by one stage that holds it; then the sum of those in model order. So the
// norm is bitwise the same however the model is cut, and a tied weight counts once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "exec/training/gradient_copies.hpp"
#include "plan/job/resolve.hpp"
#include "plan/program/program.hpp"

namespace weir {

class GradientNorm {
 public:
  GradientNorm() = default;  // nothing is clipped
  explicit GradientNorm(const ResolvedPlan& loaded);

  [[nodiscard]] bool clips() const { return most() > 0; }
  [[nodiscard]] double most() const { return optimizer_.clip_norm; }

  // Sets the squares of those weights that are this stage's to give; `sum` makes one of its
  // parameters'. Different stages' may be set at once.
  void set(Stage stage, const std::function<double(int parameter)>& sum);
  // They, for another process, which sets them by the same span; and whose they are, each by its
  // index among the stage's parameters.
  [[nodiscard]] std::span<double> squares_of(Stage stage);
  [[nodiscard]] std::span<const int> parameters_of(Stage stage) const;
  // The squares of all weights, and where a stage's begin among them.
  [[nodiscard]] std::span<double> squares() { return squares_; }
  [[nodiscard]] std::size_t weights() const { return parameters_.size(); }
  [[nodiscard]] std::size_t first_weight(Stage stage) const { return first_[stage.position()]; }

  // Of the gradients as they are, when all stages' are set; absent where nothing is clipped.
  [[nodiscard]] std::optional<double> norm() const;
  // Throws RunFailed where the norm is not finite, which every weight would be after it.
  [[nodiscard]] double factor() const;

 private:
  Optimizer optimizer_;
  std::vector<int> parameters_;     // by weight in model order: its first use, among the stage's
  std::vector<std::size_t> first_;  // by stage: its first weight; all of them behind the last
  std::vector<double> squares_;     // by weight
};

}  // namespace weir
