// What people read of `weir model`.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/model/model.hpp"

#include <fmt/core.h>

#include "costmodel/layers/layer_math.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/print/printout.hpp"

namespace weir {
namespace {

// A column of FLOP, which people read in thousands of millions.
Column giga_flop(const std::string& what) {
  return {"GFLOP " + what, Column::Align::right, "FLOP " + what};
}
Cell giga_flop(Flops flops) {
  return number(flops.count(), fmt::format("{:.3f}", flops.count() / 1e9));
}

// Layers alike but for their number and name, as often as they follow each other.
void show_layers(Printout& out, const Table& layers) {
  constexpr std::size_t kSameFrom = 2;
  out.show(out.for_programs() ? layers : folded(layers, kSameFrom));
}

// Of a model whose samples have no length yet.
void print_parameters(Printout& out, const Model& model) {
  out.say("{} ({}): {} layers, {} parameters\n", printable_in_line(model.name), model.family,
          model.layers.size(), parameter_count(model));
  Table table{{left("layers"), left("name"), left("kind"), {"parameters"}}, {}, {}};
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    table.rows.push_back({l, layer.name, std::string(kind_name(layer)), parameter_count(layer)});
  }
  show_layers(out, table);
}

void print_table(Printout& out, const Model& model, std::int64_t seq_length, Dtype dtype) {
  out.say("{} ({}): {} layers, {} parameters, {} tokens a sample\n", printable_in_line(model.name),
          model.family, model.layers.size(), parameter_count(model), seq_length);
  Table table{{left("layers"),
               left("name"),
               left("kind"),
               {"parameters"},
               giga_flop("forward"),
               {"activations"},
               {"boundary"}},
              {},
              {}};
  const ModelPart part = model_part(model, seq_length, dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    table.rows.push_back({l, layer.name, std::string(kind_name(layer)), parameter_count(layer),
                          giga_flop(forward_flops(layer, seq_length)),
                          activation_bytes(part, static_cast<int>(l)),
                          Bytes(part.layer(static_cast<int>(l)).crossing_bytes)});
  }
  // Layers that are alike fold into one row.
  show_layers(out, table);
}

// Rows as they are launched; the share is of the step's least time.
void print_kernels(Printout& out, const app::ModelKernels& result) {
  const app::ModelKernels::Sums sums = result.sums();
  out.say("{} in {}, {} sample{} of {} tokens, on {}: computed, not measured\n", result.model,
          to_string(result.step.dtype), result.step.batch, result.step.batch == 1 ? "" : "s",
          result.step.seq_length, printable_in_line(result.device.name));
  Table table{{left("layer"),
               left("action"),
               left("kernel"),
               {"calls"},
               giga_flop("a call"),
               {"bytes a call"},
               {"least time"},
               left("bound by"),
               {"share"}},
              {},
              {}};
  for (const KernelWork& kernel : result.kernels) {
    const Seconds time = result.least_time(kernel);
    table.rows.push_back(
        {kernel.layer, kernel.action, kernel.name, kernel.calls, giga_flop(kernel.flops),
         kernel.bytes, number(time.count(), fmt::format("{:.1f} us", time.count() * 1e6), "s"),
         result.bound_by_memory(kernel) ? "memory" : "compute",
         percent(time.count() * static_cast<double>(kernel.calls) / sums.time.count(),
                 "{:.1f} %")});
  }
  out.show(table);
  out.say("{} launches, {:.3f} TFLOP, {}: at least {:.3f} ms, at most {:.0f} tokens/s\n",
          sums.calls, sums.flops.count() / 1e12, format_bytes(sums.bytes), sums.time.count() * 1e3,
          result.tokens_per_second());
}

}  // namespace

void print(Printout& out, const app::ModelRequest&, const app::ModelResult& result) {
  if (result.layout) return print(out, app::LayoutRequest{}, *result.layout);
  if (result.kernels) return print_kernels(out, *result.kernels);
  if (!app::has_length(result)) return print_parameters(out, result.model);
  print_table(out, result.model, result.seq_length, result.dtype);
}

}  // namespace weir
