// What people read of `weir model`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model.hpp"

#include <fmt/core.h>

#include "costmodel/layers/layer_math.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/layout_text.hpp"
#include "tools/weir/terminal.hpp"

namespace weir {
namespace {

// Of a model whose samples have no length yet.
void print_parameters(const Model& model) {
  say("{} ({}): {} layers, {} parameters\n", model.name, model.family, model.layers.size(),
      parameter_count(model));
  say("{:>5}  {:<20} {:<12} {:>12}\n", "layer", "name", "kind", "parameters");
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    say("{:>5}  {:<20} {:<12} {:>12}\n", l, layer.name, kind_name(layer), parameter_count(layer));
  }
}

void print_table(const Model& model, std::int64_t seq_length, Dtype dtype) {
  say("{} ({}): {} layers, {} parameters, {} tokens a sample\n", model.name, model.family,
      model.layers.size(), parameter_count(model), seq_length);
  say("{:>5}  {:<20} {:<12} {:>12} {:>14} {:>12} {:>12}\n", "layer", "name", "kind", "parameters",
      "GFLOP forward", "activations", "boundary");
  const ModelPart part = model_part(model, seq_length, dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    say("{:>5}  {:<20} {:<12} {:>12} {:>14.3f} {:>12} {:>12}\n", l, layer.name, kind_name(layer),
        parameter_count(layer), forward_flops(layer, seq_length).count() / 1e9,
        format_bytes(activation_bytes(part, static_cast<int>(l))),
        format_bytes(Bytes(part.layers[l].crossing_bytes)));
  }
}

}  // namespace

void print(const app::ModelRequest&, const app::ModelResult& result) {
  if (!result.layouts && !app::has_length(result)) return print_parameters(result.model);
  if (!result.layouts) return print_table(result.model, result.seq_length, result.dtype);
  const auto& [file, request, run] = *result.layouts;
  print_layouts(file);
  if (run) print_layout_run(file, request, *run);
}

}  // namespace weir
