// A norm between blocks and head.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {

std::int64_t parameter_count(const NormShape& s) { return norm_parameters(s.kind, s.hidden); }

LayerTensors tensors(const NormShape& n, const DeviceTokens& z) {
  LayerTensors t;
  add_norm(t, "norm", n.hidden, n.kind);
  t.output_bytes_per_sample = z.rows * n.hidden * z.element;
  t.saves_input = true;
  t.input_until = KeptUntil::I;
  t.saved = {{"statistics", 2 * z.rows * 4, KeptUntil::I}};
  t.carried = {{"norm.gradients", 2 * n.hidden * 4, KeptUntil::W}};
  return t;
}

Flops forward_flops(const NormShape&, std::int64_t) { return Flops(0); }

NormShape shard(NormShape n, int) { return n; }

std::string work_key(const NormShape& n) {
  return fmt::format("norm hidden={} kind={}", n.hidden, static_cast<int>(n.kind));
}

}  // namespace weir::kinds
