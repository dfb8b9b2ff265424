// What training reads of a sample, and what its loss is a mean over.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "plan/model/model.hpp"

namespace weir {

// Tokens, each the target of the one before; tokens of which some are hidden and to be guessed from
// both sides (BERT: Devlin et al., NAACL 2019, section 3.1), with a type and a label each; or an
// image with its labels.
enum class SampleKind : std::uint8_t { next_tokens, masked_tokens, image };
[[nodiscard]] SampleKind sample_kind(const Model& model);

// A label that is none: the place has no loss (transformers' word for it).
inline constexpr std::int32_t kNoLabel = -100;

// The first layer's images; null where samples are tokens.
[[nodiscard]] const FeatureMap* images_of(const Model& model);

// Words of 4 bytes. Next tokens: seq_length tokens and, one further on, the last one's target.
// Masked tokens: seq_length tokens, as many token types and as many labels. An image: [height,
// width, channels] in fp32, and its targets, in fp32 too.
[[nodiscard]] std::int64_t sample_words(const Model& model, std::int64_t seq_length);

// Targets of a sample: a head of tokens has one for each, of which masked ones may be none; a
// pooled one has one, one of maps has one for each place.
[[nodiscard]] std::int64_t sample_targets(const Model& model, std::int64_t seq_length);

}  // namespace weir
