// A layer of which only times and bytes are known.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {

std::int64_t parameter_count(const TimedShape& s) { return s.parameters; }

LayerTensors tensors(const TimedShape& timed, const DeviceTokens&) {
  LayerTensors t;
  if (timed.parameters > 0)
    t.parameters.push_back({"weight", {timed.parameters}, ParameterTensor::Init::normal, true, ""});
  t.output_bytes_per_sample = timed.boundary.count();
  if (timed.activation.count() > 0)
    t.saved = {{"activation", timed.activation.count(), KeptUntil::W}};
  return t;
}

Flops forward_flops(const TimedShape&, std::int64_t) { return Flops(0); }

TimedShape shard(TimedShape t, int) { return t; }

std::string work_key(const TimedShape& t) {
  return fmt::format("timed f={} i={} w={}", t.forward.count(), t.backward_input.count(),
                     t.backward_weight.count());
}

}  // namespace weir::kinds
