// The kinds of attention by name.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/layer_shape.hpp"

#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<AttentionKind, 2> kAttentionKinds{
    {{AttentionKind::unfused, "unfused"}, {AttentionKind::fused, "fused"}}};

}  // namespace

std::string_view to_string(AttentionKind kind) { return name_of(kAttentionKinds, kind); }

std::optional<AttentionKind> parse_attention_kind(std::string_view text) {
  return text == "flash" ? AttentionKind::fused : named(kAttentionKinds, text);
}

}  // namespace weir
