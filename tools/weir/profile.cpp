// `weir profile`: measures layers and links on this machine.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/chrono.h>
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <ctime>
#include <memory>
#include <set>
#include <string>

#include "costmodel/layers/layer_key.hpp"
#include "exec/run/run.hpp"
#include "plan/model/readers/model_import.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "tools/weir/commands.hpp"
#include "tools/weir/host.hpp"
#include "tools/weir/options.hpp"
#include "tools/weir/profiling.hpp"
#include "tools/weir/progress.hpp"

namespace weir {
namespace {

std::vector<int> distinct_layers(const Model& model, const Plan& plan) {
  std::vector<int> layers;
  std::set<std::string> seen;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    if (std::holds_alternative<TimedShape>(model.layers[l].shape)) {
      throw InputError(plan.model_path, model.layers[l].name,
                       "a layer of which only times are known cannot be measured");
    }
    if (seen.insert(layer_key(model.layers[l], plan.seq_length, plan.dtype)).second)
      layers.push_back(static_cast<int>(l));
  }
  return layers;
}

const LayerSample& sample_of(const Measurements& m, int layer, int batch) {
  return *std::find_if(m.samples.begin(), m.samples.end(), [&](const LayerSample& s) {
    return s.layer == layer && s.micro_batch_size == batch;
  });
}

// How much faster the layer with most to do is when its neighbours rest.
Correction measure_alone(const Model& model, const Plan& plan, const Measurements& busy,
                         MeasureOptions options, const Backends& backends) {
  const auto slowest =
      std::max_element(busy.samples.begin(), busy.samples.end(), [](const auto& a, const auto& b) {
        return std::pair(a.micro_batch_size, a.b) < std::pair(b.micro_batch_size, b.b);
      });
  options.layers = {slowest->layer};
  options.micro_batch_sizes = {slowest->micro_batch_size};
  options.devices = 1;
  options.progress = nullptr;
  const Measurements alone = measure(model, plan.seq_length, plan, options, backends);
  const LayerSample& quiet = sample_of(alone, slowest->layer, slowest->micro_batch_size);
  const auto layer = static_cast<std::size_t>(slowest->layer);
  return {quiet.f / slowest->f, quiet.b / slowest->b,
          quiet.i / slowest->i, quiet.w / slowest->w,
          quiet.f / slowest->f, alone.optimizer[layer] / busy.optimizer[layer]};
}

int devices_of(const ProfileRequest& request) {
  return request.devices > 0 ? request.devices : default_devices(request.backend);
}

// "slowed by neighbours: transformer F 1.08 B 1.12, ..."
std::string describe(const std::vector<NeighbourSlowdown>& slowdowns) {
  std::string text;
  for (const NeighbourSlowdown& s : slowdowns) {
    text += fmt::format("{}{} F {:.2f} B {:.2f}", text.empty() ? "; slowed by neighbours: " : ", ",
                        s.layer, s.f, s.b);
  }
  return text;
}

}  // namespace

std::vector<NeighbourSlowdown> neighbour_slowdowns(const Model& model, const Plan& plan,
                                                   const ProfileRequest& request, const Costs& busy,
                                                   const Backends& backends) {
  if (request.backend != BackendKind::cuda || devices_of(request) < 2) return {};
  MeasureOptions options;
  options.backend = request.backend;
  options.layers = distinct_layers(model, plan);
  options.micro_batch_sizes = {
      *std::max_element(request.micro_batch_sizes.begin(), request.micro_batch_sizes.end())};
  options.devices = devices_of(request);
  options.working = 1;
  const Measurements alone = measure(model, plan.seq_length, plan, options, backends);
  std::vector<NeighbourSlowdown> slowdowns;
  for (const LayerSample& sample : alone.samples) {
    const Layer& layer = model.layers[static_cast<std::size_t>(sample.layer)];
    const std::string key = layer_key(layer, plan.seq_length, plan.dtype);
    const auto found = std::find_if(busy.layers.begin(), busy.layers.end(),
                                    [&](const auto& l) { return l.key == key; });
    const LayerTime& together = found->by_batch.at(sample.micro_batch_size);
    slowdowns.push_back({kind_name(layer), together.f / sample.f, together.b / sample.b});
  }
  return slowdowns;
}

Costs profile_machine(const Model& model, const Plan& plan, const ProfileRequest& request,
                      const Backends& backends) {
  MeasureOptions options;
  options.backend = request.backend;
  options.micro_batch_sizes = request.micro_batch_sizes;
  options.devices = devices_of(request);
  options.layers = distinct_layers(model, plan);
  ProgressBar bar("profile", request.progress);
  options.progress = [&bar](int done, int of) { bar.show(done, of); };
  const Measurements busy = measure(model, plan.seq_length, plan, options, backends);
  Costs costs;
  costs.basis = Basis::measured;
  costs.machine = machine_name(request.backend);
  costs.backend = to_string(request.backend);
  costs.origin = fmt::format("weir profile, {:%Y-%m-%d}, {} devices busy",
                             fmt::gmtime(std::time(nullptr)), options.devices);
  costs.seq_length = plan.seq_length;
  costs.dtype = plan.dtype;
  costs.link = busy.link;
  if (options.devices > 1) costs.alone = measure_alone(model, plan, busy, options, backends);
  for (const int layer : options.layers) {
    LayerCost cost;
    const auto index = static_cast<std::size_t>(layer);
    cost.key = layer_key(model.layers[index], plan.seq_length, plan.dtype);
    cost.optimizer = busy.optimizer[index];
    for (const LayerSample& s : busy.samples) {
      if (s.layer == layer)
        cost.by_batch[s.micro_batch_size] = {s.f, s.i, s.w, s.b, s.spread, s.scratch};
    }
    costs.layers.push_back(std::move(cost));
  }
  costs.origin += describe(neighbour_slowdowns(model, plan, request, costs, backends));
  return costs;
}

void add_profile_command(CLI::App& app, GlobalOptions& global) {
  struct Options {
    PlanOptions common;
    std::string backend = "cpu", sizes = "1,2,4,8";
    int devices = 0;
    std::filesystem::path output = "profile.json";
  };
  CLI::App* command = app.add_subcommand("profile", "Measure layers and links on this machine");
  auto o = std::make_shared<Options>();
  add_plan_options(*command, o->common);
  command->add_option("--backend", o->backend, "cpu or cuda")->capture_default_str();
  command
      ->add_option("-K,--pp", o->devices,
                   "Devices at work at once: cores, or equal shares of the GPUs (default: all "
                   "cores, 2 shares)")
      ->check(CLI::Range(1, 1 << 10));
  command->add_option("-b,--micro-batch-size", o->sizes, "Sizes to measure")->capture_default_str();
  command->add_option("-o,--output", o->output, "Costs file")->capture_default_str();
  command->callback([o, &global] {
    const Model model = load_model(o->common);
    const Plan plan = base_plan(o->common, global.seed, model);
    ProfileRequest request;
    request.backend = parse_backend(o->backend);
    if (request.backend == BackendKind::synthetic)
      throw UsageError("--backend synthetic: timed waits have no costs to measure");
    request.devices = o->devices;
    request.micro_batch_sizes = parse_numbers(o->sizes, "--micro-batch-size");
    request.progress = !global.quiet;
    const Costs costs = profile_machine(model, plan, request, available_backends());
    save_costs(costs, o->output);
    if (global.json) {
      fmt::print("{}", read_text_file(o->output));
      return;
    }
    fmt::print("{:<28} {:>6} {:>11} {:>11} {:>11} {:>11} {:>8}\n", "layer", "batch", "F", "I", "W",
               "B", "spread");
    for (const LayerCost& layer : costs.layers) {
      for (const auto& [batch, t] : layer.by_batch) {
        fmt::print("{:<28} {:>6} {:>11} {:>11} {:>11} {:>11} {:>7.1f}%\n", layer.key.substr(0, 28),
                   batch, format_duration(t.f), format_duration(t.i), format_duration(t.w),
                   format_duration(t.b), t.spread * 100);
      }
    }
    fmt::print("{}\n{}\n", costs.origin, o->output.string());
  });
}

}  // namespace weir
