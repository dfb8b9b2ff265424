// The name of a layer's work in files of costs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "plan/model/model.hpp"
#include "plan/model/split.hpp"
#include "plan/words/dtype.hpp"

namespace weir {

// A text that holds everything that decides a layer's work: kind, shape, sequence length, number
// format, and how it is split among devices where it is.
[[nodiscard]] std::string layer_key(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                                    const Split& split = {});

}  // namespace weir
