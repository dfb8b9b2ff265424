// The words of a layer's kind, and what else decides its work.
// SPDX-License-Identifier: Apache-2.0
#include "costmodel/layers/layer_key.hpp"

#include <fmt/format.h>

#include <variant>

#include "plan/model/layer_kinds.hpp"

namespace weir {

std::string layer_key(const Layer& layer, std::int64_t seq_length, Dtype dtype,
                      const Split& split) {
  const std::string work =
      std::visit([](const auto& shape) { return kinds::work_key(shape); }, layer.shape);
  std::string key = fmt::format("{}{} tokens={} {}", work, treatment_key(layer.treated), seq_length,
                                to_string(dtype));
  // A degree of 1 is left out, so that keys of undivided layers stay what earlier files have.
  if (split.tp > 1)
    key += fmt::format(" tp={}{}", split.tp, split.sequence_parallel ? " sequence" : "");
  if (split.ep > 1) key += fmt::format(" ep={}", split.ep);
  if (split.etp > 0) key += fmt::format(" etp={}", split.etp);
  if (split.expert_load > 1) key += fmt::format(" load={}", split.expert_load);
  if (split.cp > 1) key += fmt::format(" cp={}", split.cp);
  if (split.slices > 1) key += fmt::format(" slices={}", split.slices);
  return key;
}

}  // namespace weir
