// The head: projection to classes and mean cross-entropy.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {
namespace {

// The pooler's output, which the projection reads; of a transform what its activation, its norm
// and the projection read.
void add_dense(LayerTensors& t, const HeadShape& head, std::int64_t positions,
               std::int64_t element) {
  const std::int64_t bytes = positions * head.hidden * element;
  add_product(t, "dense", {head.hidden, head.hidden}, ParameterTensor::Init::normal, true);
  const bool transform = head.dense == HeadDense::transform;
  t.saved.push_back({"dense.output", bytes, transform ? KeptUntil::I : KeptUntil::W});
  if (transform) {
    add_norm(t, "dense.norm", head.hidden, NormKind::layer_norm);
    t.saved.push_back({"dense.activated", bytes, KeptUntil::I});
    t.saved.push_back({"dense.norm.statistics", 2 * positions * 4, KeptUntil::I});
    t.saved.push_back({"dense.normed", bytes, KeptUntil::W});
  }
  t.carried.push_back({"dense.gradient", bytes, KeptUntil::W});
  if (transform) t.carried.push_back({"dense.norm.gradients", 2 * head.hidden * 4, KeptUntil::W});
}

}  // namespace

std::int64_t parameter_count(const HeadShape& s) {
  const std::int64_t dense = s.dense == HeadDense::none ? 0 : s.hidden * s.hidden + s.hidden;
  const std::int64_t norm =
      s.dense == HeadDense::transform ? norm_parameters(NormKind::layer_norm, s.hidden) : 0;
  return dense + norm + (s.tied ? 0 : s.vocabulary * s.hidden) + (s.bias ? s.vocabulary : 0);
}

// F leaves the gradient of the logits, (softmax - target) / tokens, in their place.
LayerTensors tensors(const HeadShape& head, const DeviceTokens& z) {
  LayerTensors t;
  const std::int64_t positions = head.positions(z.s);
  if (head.dense != HeadDense::none) add_dense(t, head, positions, z.element);
  if (head.vocabulary > 0) {
    t.parameters.push_back({"weight",
                            {head.vocabulary, head.hidden},
                            ParameterTensor::Init::normal,
                            true,
                            head.tied ? "token" : ""});
    t.parameters.back().padding = padded_rows(head.vocabulary, z.element) * head.hidden;
  }
  if (head.bias) {
    t.parameters.push_back({"bias", {head.vocabulary}, ParameterTensor::Init::zeros, false, ""});
    t.parameters.back().padding = padded_rows(head.vocabulary, z.element);
  }
  t.saves_input = true;
  t.input_until = KeptUntil::W;
  t.saved.push_back(
      {"logits", positions * logits_row(head.vocabulary, z.element) * z.element, KeptUntil::W});
  // Of sequence parallelism: the input with all rows, and its gradient before it is scattered.
  if (z.rows < z.s && !head.pooled) {
    t.workspace_f_bytes_per_sample = t.workspace_i_bytes_per_sample =
        t.workspace_w_bytes_per_sample = z.s * head.hidden * z.element;
  }
  return t;
}

Flops forward_flops(const HeadShape& head, std::int64_t seq_length) {
  const std::int64_t outputs = head.vocabulary + (head.dense == HeadDense::none ? 0 : head.hidden);
  const auto positions = static_cast<double>(head.positions(seq_length));
  return Flops(2 * positions * static_cast<double>(head.hidden) * static_cast<double>(outputs));
}

HeadShape shard(HeadShape h, int tp) {
  h.vocabulary = ceil_div(h.vocabulary, tp);
  return h;
}

std::string work_key(const HeadShape& h) {
  const std::string dense =
      h.dense == HeadDense::none ? "" : fmt::format(" dense={}", static_cast<int>(h.dense));
  const std::string places = h.places > 0 ? fmt::format(" places={}", h.places) : "";
  const std::string further =
      h.predictions > 0 ? fmt::format(" predictions={}", h.predictions) : "";
  return fmt::format("head hidden={} vocabulary={} bias={} pooled={}{}{}{}", h.hidden, h.vocabulary,
                     h.bias, h.pooled, dense, places, further);
}

}  // namespace weir::kinds
