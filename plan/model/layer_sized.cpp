// A layer known by its sizes.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {

std::int64_t parameter_count(const SizedShape& s) { return s.parameters; }

LayerTensors tensors(const SizedShape& sized, const DeviceTokens& z) {
  LayerTensors t;
  if (sized.parameters > 0)
    t.parameters.push_back({"weight", {sized.parameters}, ParameterTensor::Init::normal, true, ""});
  t.output_bytes_per_sample = sized.output * z.element;
  t.saves_input = sized.keeps_input;
  t.w_needs_output_gradient = sized.parameters > 0;
  if (sized.kept > 0) t.saved = {{"kept", sized.kept * z.element, KeptUntil::W}};
  return t;
}

Flops forward_flops(const SizedShape& sized, std::int64_t) { return sized.forward; }

SizedShape shard(SizedShape s, int) { return s; }

std::string work_key(const SizedShape& s) {
  return fmt::format("sized flops={} parameters={} input={}{} kept={} output={}", s.forward.count(),
                     s.parameters, s.input, s.keeps_input ? " kept" : "", s.kept, s.output);
}

}  // namespace weir::kinds
