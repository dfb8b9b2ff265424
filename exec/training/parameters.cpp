// Initial weights by counter, so that every partition draws the same.
// SPDX-License-Identifier: Apache-2.0
#include "exec/training/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <thread>

#include "exec/device/cores.hpp"
#include "exec/training/philox.hpp"

namespace weir {
namespace {

constexpr std::uint32_t kInitialStream = 0x696e6974;

std::int64_t blocks_of(const Model& model) {
  return std::count_if(model.layers.begin(), model.layers.end(), [](const Layer& layer) {
    return std::holds_alternative<TransformerShape>(layer.shape);
  });
}

// Which normal numbers: element i is counter i, or i - 1 where i is odd; its counter makes two.
struct NormalNumbers {
  double deviation = 1;
  std::uint32_t counter_of_tensor = 0;
  std::uint64_t seed = 0;
};

// The elements from `first`, an even one, on.
void fill(std::span<float> values, std::size_t first, const NormalNumbers& numbers) {
  for (std::size_t at = 0; at < values.size();
       at += 2) {  // Box-Muller: two uniforms make two normals
    const std::size_t i = first + at;
    const PhiloxBlock block = philox4x32_10(
        PhiloxBlock{{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                     numbers.counter_of_tensor, kInitialStream}},
        numbers.seed);
    const double radius = std::sqrt(-2 * std::log((block.word[0] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * (block.word[1] / 4294967296.0);
    values[at] = static_cast<float>(numbers.deviation * radius * std::cos(angle));
    if (at + 1 < values.size())
      values[at + 1] = static_cast<float>(numbers.deviation * radius * std::sin(angle));
  }
}

// Where several ranks are launched by one thread, the other cores help: GPT-2's 124 million take
// one core some seconds.
void fill_together(std::span<float> values, const NormalNumbers& numbers) {
  constexpr std::size_t kLeast = std::size_t{1}
                                 << 20;  // a thread's share, even; less is not worth a thread
  const std::size_t threads =
      std::min<std::size_t>(static_cast<std::size_t>(available_cores()), values.size() / kLeast);
  if (threads < 2) return fill(values, 0, numbers);
  const std::size_t share = (values.size() / threads + 1) / 2 * 2;
  std::vector<std::jthread> helpers;
  for (std::size_t first = 0; first < values.size(); first += share) {
    const std::span<float> part = values.subspan(first, std::min(share, values.size() - first));
    helpers.emplace_back([part, first, &numbers] { fill(part, first, numbers); });
  }
}

}  // namespace

std::vector<float> initial_values(const Model& model, const ParameterTensor& parameter,
                                  std::uint32_t layer, std::uint32_t tensor, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(parameter.elements());
  if (parameter.init == ParameterTensor::Init::zeros) return std::vector<float>(count, 0.0F);
  if (parameter.init == ParameterTensor::Init::ones) return std::vector<float>(count, 1.0F);
  if (parameter.init == ParameterTensor::Init::moments) {
    // A running mean of 0 and a variance of 1: as if no batch had been seen.
    std::vector<float> moments(count, 0.0F);
    std::fill(moments.begin() + static_cast<std::ptrdiff_t>(count / 2), moments.end(), 1.0F);
    return moments;
  }
  double deviation = model.initializer_range;
  if (parameter.init == ParameterTensor::Init::residual_normal) {
    // GPT-2: a projection into the residual stream is scaled by the number of sums in it, two a
    // block.
    deviation /= std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(blocks_of(model), 1)));
  }
  if (parameter.init == ParameterTensor::Init::he_normal) {
    // Products that one input number is part of: weights over input channels.
    const auto inputs = static_cast<double>(parameter.shape[1]);
    // He et al. 2015: deviation sqrt(2 / fan-in), which keeps variance through rectifiers.
    deviation = std::sqrt(2.0 * inputs / static_cast<double>(count));
  }
  std::vector<float> values(count);
  // Drawn by layer, tensor and element: the partition does not matter.
  fill_together(values, {deviation, layer * 64 + tensor, seed});
  return values;
}

}  // namespace weir
