// The embedding: tokens and positions, or the patches of images.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>
#include <vector>

#include "plan/model/layer_kinds.hpp"

namespace weir::kinds {

std::int64_t parameter_count(const EmbeddingShape& s) {
  const std::int64_t patches =
      s.patch > 0 ? (s.patch + 2) * s.hidden : 0;  // projection, its bias, the class token
  return ((s.shared ? 0 : s.vocabulary) + s.positions + s.token_types) * s.hidden + patches +
         (s.norm ? 2 * s.hidden : 0);
}

// x = token[id] + position[p] + token_type[type], normalised where there is a norm, dropped out; of
// images, the class token and the projected patches in place of tokens. W scatters the sum's
// gradient into the tables.
LayerTensors tensors(const EmbeddingShape& e, const DeviceTokens& z) {
  LayerTensors t;
  if (e.patch > 0) {
    // Shapes as transformers' ViT has them: a batch of one, and a convolution's kernel.
    t.parameters.push_back(
        {"class_token", {1, 1, e.hidden}, ParameterTensor::Init::normal, false, ""});
    t.parameters.push_back({"patch.weight",
                            {e.hidden, e.image.channels, e.patch_side, e.patch_side},
                            ParameterTensor::Init::normal,
                            true,
                            ""});
    t.parameters.push_back({"patch.bias", {e.hidden}, ParameterTensor::Init::zeros, false, ""});
    t.saved.push_back({"patches", (z.s - 1) * e.patch * z.element, KeptUntil::W});
  } else if (e.vocabulary > 0) {
    t.parameters.push_back({"token",
                            {e.vocabulary, e.hidden},
                            ParameterTensor::Init::normal,
                            true,
                            e.tied || e.looked_up_again ? "token" : ""});
    // Padded as the head's rows, with which it is one weight.
    if (e.tied) t.parameters.back().padding = padded_rows(e.vocabulary, z.element) * e.hidden;
  }
  if (e.positions > 0) {
    std::vector<std::int64_t> shape{e.positions, e.hidden};
    if (e.patch > 0) shape.insert(shape.begin(), 1);
    t.parameters.push_back({"position", std::move(shape), ParameterTensor::Init::normal, true, ""});
  }
  if (e.token_types > 0)
    t.parameters.push_back(
        {"token_type", {e.token_types, e.hidden}, ParameterTensor::Init::normal, true, ""});
  if (e.norm) {
    add_norm(t, "norm", e.hidden, NormKind::layer_norm);
    t.saved.push_back({"sum", z.rows * e.hidden * z.element, KeptUntil::I});
    t.saved.push_back({"norm.statistics", 2 * z.rows * 4, KeptUntil::I});
    t.carried.push_back({"sum.gradient", z.rows * e.hidden * z.element, KeptUntil::W});
    t.carried.push_back({"norm.gradients", 2 * e.hidden * 4, KeptUntil::W});
  }
  t.output_bytes_per_sample = z.rows * e.hidden * z.element;
  // Behind a norm W scatters the sum's gradient, which is carried.
  t.w_needs_output_gradient = !e.norm;
  // Of sequence parallelism: the sum before its rows are scattered, and its gradient gathered.
  if (z.rows < z.s)
    t.workspace_f_bytes_per_sample = t.workspace_w_bytes_per_sample = z.s * e.hidden * z.element;
  return t;
}

Flops forward_flops(const EmbeddingShape& e, std::int64_t seq_length) {
  if (e.patch == 0) return Flops(0);
  const auto patches = static_cast<double>(seq_length - 1);
  return Flops(2 * patches * static_cast<double>(e.patch) * static_cast<double>(e.hidden));
}

EmbeddingShape shard(EmbeddingShape e, int tp) {
  e.vocabulary = ceil_div(e.vocabulary, tp);
  return e;
}

std::string work_key(const EmbeddingShape& e) {
  const std::string patches = e.patch > 0 ? fmt::format(" patch={}", e.patch) : "";
  return fmt::format("embedding vocabulary={} hidden={} positions={} types={} norm={} dropout={}{}",
                     e.vocabulary, e.hidden, e.positions, e.token_types, e.norm, e.dropout,
                     patches);
}

}  // namespace weir::kinds
