// `weir model`: the layers of a model, their parameters, FLOPs and bytes; with --layout, what each
// layout of a program of einsums costs.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "costmodel/layers/layer_math.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/layout.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/records_json.hpp"

namespace weir {
namespace {

nlohmann::ordered_json model_json(const Model& model, std::int64_t seq_length, Dtype dtype) {
  nlohmann::ordered_json json{
      {"schema", "weir.model/1"}, {"name", model.name},
      {"family", model.family},   {"parameters", parameter_count(model)},
      {"seq_length", seq_length}, {"layers", nlohmann::ordered_json::array()}};
  const ModelPart part = model_part(model, seq_length, dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    json["layers"].push_back(
        {{"name", layer.name},
         {"kind", kind_name(layer)},
         {"parameters", parameter_count(layer)},
         {"flops_forward", forward_flops(layer, seq_length).count()},
         {"activation_bytes", activation_bytes(part, static_cast<int>(l)).count()},
         {"boundary_bytes", part.layers[l].crossing_bytes}});
  }
  return json;
}

void print_table(const Model& model, std::int64_t seq_length, Dtype dtype) {
  fmt::print("{} ({}): {} layers, {} parameters, {} tokens a sample\n", model.name, model.family,
             model.layers.size(), parameter_count(model), seq_length);
  fmt::print("{:>5}  {:<20} {:<12} {:>12} {:>14} {:>12} {:>12}\n", "layer", "name", "kind",
             "parameters", "GFLOP forward", "activations", "boundary");
  const ModelPart part = model_part(model, seq_length, dtype);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    fmt::print("{:>5}  {:<20} {:<12} {:>12} {:>14.3f} {:>12} {:>12}\n", l, layer.name,
               kind_name(layer), parameter_count(layer),
               forward_flops(layer, seq_length).count() / 1e9,
               format_bytes(activation_bytes(part, static_cast<int>(l))),
               format_bytes(Bytes(part.layers[l].crossing_bytes)));
  }
}

}  // namespace

std::string to_json(const Model& model, std::int64_t seq_length, Dtype dtype) {
  return model_json(model, seq_length, dtype).dump(2);
}

void add_model_command(CLI::App& app, GlobalOptions& global) {
  CLI::App* command = app.add_subcommand("model", "Layers, parameters, FLOPs and bytes per layer");
  auto options = std::make_shared<PlanOptions>();
  add_plan_options(*command, *options);
  auto layouts = std::make_shared<LayoutOptions>();
  CLI::Option* layout = command->add_option(
      "--layout", layouts->file, "A program of einsums and its layouts, instead of a model");
  command
      ->add_flag("--run", layouts->run,
                 "Run the layouts on this machine's cores, beside the prediction")
      ->needs(layout);
  command
      ->add_option("--workers", layouts->workers,
                   "Processors of the mesh to run on (default: all cores)")
      ->needs(layout);
  command->add_option("--rounds", layouts->rounds, "Interleaved steps of each layout")
      ->needs(layout)
      ->capture_default_str();
  command->get_option("model")->required(false)->excludes(layout);
  command->callback([options, layouts, &global] {
    if (!layouts->file.empty()) return layout_command(*layouts, global);
    if (options->model.empty()) throw UsageError("model: expected MODEL, or --layout FILE");
    const Model model = load_model(*options);
    const Plan plan = base_plan(*options, global.seed, model);
    if (global.json) {
      fmt::print("{}\n", to_json(model, plan.seq_length, plan.dtype));
    } else {
      print_table(model, plan.seq_length, plan.dtype);
    }
  });
}

}  // namespace weir
