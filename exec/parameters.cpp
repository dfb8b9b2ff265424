// SPDX-License-Identifier: Apache-2.0
#include "exec/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "exec/philox.hpp"

namespace weir {
namespace {

constexpr std::uint32_t kInitialStream = 0x696e6974;

std::int64_t blocks_of(const Model& model) {
  return std::count_if(model.layers.begin(), model.layers.end(),
                       [](const Layer& layer) { return std::holds_alternative<TransformerShape>(layer.shape); });
}

}  // namespace

std::vector<float> initial_values(const Model& model, const ParameterTensor& parameter, std::uint32_t layer,
                                  std::uint32_t tensor, std::uint64_t seed) {
  const auto count = static_cast<std::size_t>(parameter.elements());
  if (parameter.init == ParameterTensor::Init::zeros) return std::vector<float>(count, 0.0F);
  if (parameter.init == ParameterTensor::Init::ones) return std::vector<float>(count, 1.0F);
  double deviation = model.initializer_range;
  if (parameter.init == ParameterTensor::Init::residual_normal) {
    deviation /= std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(blocks_of(model), 1)));
  }
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; i += 2) {  // Box-Muller: two uniforms make two normals
    const PhiloxBlock block =
        philox4x32_10(PhiloxBlock{{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32),
                                   layer * 64 + tensor, kInitialStream}},
                      seed);
    const double radius = std::sqrt(-2 * std::log((block.word[0] + 1.0) / 4294967296.0));
    const double angle = 2 * std::numbers::pi * (block.word[1] / 4294967296.0);
    values[i] = static_cast<float>(deviation * radius * std::cos(angle));
    if (i + 1 < count) values[i + 1] = static_cast<float>(deviation * radius * std::sin(angle));
  }
  return values;
}

}  // namespace weir
