// What training reads of a sample, and what its loss is a mean over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/model.hpp"

namespace weir {

// The first layer's images; null where samples are tokens.
[[nodiscard]] const FeatureMap* images_of(const Model& model);

// Words of 4 bytes: seq_length tokens and, one further on, the last one's target; or an image,
// [height, width, channels] in fp32, and its targets, in fp32 too.
[[nodiscard]] std::int64_t sample_words(const Model& model, std::int64_t seq_length);

// Targets of a sample: a head of tokens has one for each, a pooled one has
// one, one of maps has one for each place.
[[nodiscard]] std::int64_t sample_targets(const Model& model, std::int64_t seq_length);

}  // namespace weir
