// The loss in three rounds: each device's part of a number, then all devices'.
// SPDX-License-Identifier: Apache-2.0
#include "exec/cpu/kernels/divided_vocabulary.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "exec/cpu/kernels/vector_math.hpp"

namespace weir::cpu {
namespace {

WEIR_MULTIVERSION float largest_of(const float* x, std::int64_t n) {
  float largest = std::numeric_limits<float>::lowest();
  for (std::int64_t i = 0; i < n; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// x = exp(x - largest); their sum.
WEIR_MULTIVERSION float exponentials(float* x, std::int64_t n, float largest) {
  for (std::int64_t i = 0; i < n; ++i) x[i] = fast_exp(x[i] - largest);
  return lane_sum(n, [x](std::int64_t i) { return x[i]; });
}

WEIR_MULTIVERSION void scale_row(float* x, std::int64_t n, float factor) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= factor;
}

}  // namespace

double divided_cross_entropy(const DividedLoss& loss, std::span<const std::int32_t> targets,
                             float* logits, TensorGroup& group) {
  const VocabularyPart& part = loss.part;
  const std::int64_t n = loss.classes;
  const auto row = [&](std::size_t i) { return logits + static_cast<std::int64_t>(i) * part.rows; };
  std::vector<float> largest(targets.size()), sums(targets.size()), at_target(targets.size(), 0.0F);
  // Round 1: the row's largest logit over all devices.
  for (std::size_t i = 0; i < targets.size(); ++i) largest[i] = largest_of(row(i), n);
  group.maximum(largest);
  // Round 2: the sum of exponentials, and the target's logit from the device that has it.
  for (std::size_t i = 0; i < targets.size(); ++i) {
    float* x = row(i);
    // Read before the logits are overwritten; the others have zeros to add to it.
    if (part.has(targets[i])) at_target[i] = x[targets[i] - part.first] - largest[i];
    sums[i] = exponentials(x, n, largest[i]);
  }
  group.sum(sums);
  group.sum(at_target);
  // Round 3: each device turns its part of the row into gradients.
  double total = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    float* x = row(i);
    // log(sum exp(x - largest)) - (x_target - largest): the largest cancels.
    total += std::log(static_cast<double>(sums[i])) - static_cast<double>(at_target[i]);
    scale_row(x, n, loss.scale / sums[i]);
    // Rows that only pad the vocabulary have no gradient.
    std::fill(x + n, x + part.rows, 0.0F);
    if (part.has(targets[i])) x[targets[i] - part.first] -= loss.scale;
  }
  return total;
}

}  // namespace weir::cpu
