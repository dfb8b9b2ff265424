// A model's weights one after the other, in layer order and each tied one once, whoever holds them:
// how they are hashed and written.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "plan/job/resolve.hpp"

namespace weir {

enum class ParameterPart : std::uint8_t { values, gradient, state1, state2 };

// Running statistics have values alone: nothing is learned of them, so no gradient and no state.
[[nodiscard]] bool has_part(const ParameterTensor& parameter, ParameterPart part);

// Those that have the part.
void each_weight(const ResolvedPlan& loaded, ParameterPart part,
                 const std::function<void(ParameterId, const ParameterTensor&)>& visit);

// A part of a parameter (its index among the stage's). Where this process collects, fills `values`
// in; where another does, sends it there if it is this one's to give.
using FetchParameter = std::function<void(Stage stage, std::size_t parameter, ParameterPart part,
                                          std::span<float> values)>;

// A gradient is the sum of those of all uses of a weight, in layer order, as the optimizer sums
// them.
void gather_weights(const ResolvedPlan& loaded, ParameterPart part, const FetchParameter& fetch,
                    const std::function<void(ParameterId, const ParameterTensor&,
                                             std::span<const float> values)>& visit);
// The same at the processes that do not collect.
void give_weights(const ResolvedPlan& loaded, ParameterPart part, const FetchParameter& fetch);

// SHA-256 in hex of the values, little-endian fp32.
[[nodiscard]] std::string hash_weights(const ResolvedPlan& loaded, const FetchParameter& fetch);

}  // namespace weir
