// Times of layers with every device busy, and what is gained where neighbours rest.
// SPDX-License-Identifier: Apache-2.0
#include "tools/app/profile/profiling.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <string>

#include "costmodel/layers/layer_key.hpp"
#include "exec/profiling/measure.hpp"
#include "plan/words/error.hpp"
#include "tools/app/machine/host.hpp"
#include "tools/app/machine/watch.hpp"

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
    // Layers of one kind are measured once.
    if (seen.insert(layer_key(model.layers[l], plan.seq_length, plan.dtype)).second)
      layers.push_back(static_cast<int>(l));
  }
  return layers;
}

const LayerSample& same_sample(const Measurements& measured, const LayerSample& as) {
  return *std::ranges::find_if(measured.samples, [&as](const LayerSample& s) {
    return s.layer == as.layer && s.micro_batch_size == as.micro_batch_size;
  });
}

// How much faster the whole model is when the neighbours rest, at the largest micro-batch size.
Correction measure_alone(const Model& model, const Plan& plan, const Measurements& busy,
                         MeasureOptions options) {
  // At the largest micro-batch neighbours matter most.
  options.micro_batch_sizes = {std::ranges::max(options.micro_batch_sizes)};
  options.devices = 1;
  options.progress = nullptr;
  const Measurements alone = measure(model, plan.seq_length, plan, options, available_backends());
  std::map<std::string, int> count;  // of layers alike
  for (const Layer& layer : model.layers) ++count[layer_key(layer, plan.seq_length, plan.dtype)];
  PerKind<Seconds> quiet, together;
  for (const LayerSample& sample : alone.samples) {
    const LayerSample& beside = same_sample(busy, sample);
    const auto layer = static_cast<std::size_t>(sample.layer);
    // Each kind of layer weighs as often as the model has it.
    const int alike = count.at(layer_key(model.layers[layer], plan.seq_length, plan.dtype));
    for (const ActionKind kind : kPassKinds) {
      quiet[kind] += sample.time[kind] * alike;
      together[kind] += beside.time[kind] * alike;
    }
    quiet.optimizer += alone.optimizer[layer] * alike;
    together.optimizer += busy.optimizer[layer] * alike;
  }
  Correction factors;
  for (const ActionKind kind : kComputeKinds) factors[kind] = quiet[kind] / together[kind];
  return factors;
}

// "; slowed by neighbours: transformer F 1.08 B 1.12, ...": devices that share a GPU share its
// memory bandwidth, caches and power. Times with all at work over times of one whose neighbours
// rest, of the largest micro-batch; empty where devices share no GPU.
std::string slowed_by_neighbours(const Model& model, const Plan& plan, const Measurements& busy,
                                 MeasureOptions options) {
  if (options.backend != BackendKind::cuda || options.devices < 2) return {};
  options.micro_batch_sizes = {std::ranges::max(options.micro_batch_sizes)};
  options.working = 1;
  options.progress = nullptr;
  const Measurements alone = measure(model, plan.seq_length, plan, options, available_backends());
  std::string text;
  for (const LayerSample& quiet : alone.samples) {
    const LayerSample& together = same_sample(busy, quiet);
    text += fmt::format("{}{} F {:.2f} B {:.2f}", text.empty() ? "; slowed by neighbours: " : ", ",
                        kind_name(model.layers[static_cast<std::size_t>(quiet.layer)]),
                        together.time.f / quiet.time.f, together.time.b / quiet.time.b);
  }
  return text;
}

// The spread of repetitions, of each layer's pass by its share of the time of all: a pass of
// microseconds scatters on any machine.
double unrest_of(const Measurements& measured) {
  double sum = 0, time = 0;
  for (const LayerSample& sample : measured.samples) {
    sum += sample.unrest * sample.time.f.count();
    time += sample.time.f.count();
  }
  return time > 0 ? sum / time : 0;
}

}  // namespace

BackendKind parse_measuring_backend(const std::string& name) {
  const BackendKind backend = parse_backend(name);
  if (backend == BackendKind::synthetic)
    throw UsageError("--backend synthetic: timed waits have nothing to measure");
  return backend;
}

std::vector<int> divisors(int mini_batch) {
  std::vector<int> found;
  for (int d = 1; d <= mini_batch; ++d) {
    if (mini_batch % d == 0) found.push_back(d);
  }
  return found;
}

Costs profile_machine(const Model& model, const Plan& plan, const Profiling& profiling) {
  const app::Watch watch;
  MeasureOptions options;
  options.backend = profiling.backend;
  options.micro_batch_sizes = profiling.micro_batch_sizes;
  options.devices = profiling.devices > 0 ? profiling.devices : default_devices(profiling.backend);
  options.layers = distinct_layers(model, plan);
  options.progress = profiling.progress;
  const Measurements busy = measure(model, plan.seq_length, plan, options, available_backends());
  Costs costs;
  costs.basis = Basis::measured;
  costs.machine = machine_name(profiling.backend);
  costs.backend = to_string(profiling.backend);
  costs.origin = fmt::format("weir profile, {:%Y-%m-%d}, {} devices busy",
                             fmt::gmtime(std::time(nullptr)), options.devices);
  costs.seq_length = plan.seq_length;
  costs.dtype = plan.dtype;
  costs.link = busy.link;
  if (options.devices > 1) costs.alone = measure_alone(model, plan, busy, options);
  for (const int layer : options.layers) {
    LayerCost cost;
    const auto index = static_cast<std::size_t>(layer);
    cost.key = layer_key(model.layers[index], plan.seq_length, plan.dtype);
    cost.optimizer = busy.optimizer[index];
    for (const LayerSample& s : busy.samples) {
      if (s.layer == layer) cost.by_batch[s.micro_batch_size] = {s.time, s.spread, s.scratch};
    }
    costs.layers.push_back(std::move(cost));
  }
  costs.origin += slowed_by_neighbours(model, plan, busy, options);
  costs.disturbance = watch.until_now();
  // How much the samples themselves scattered tells of unrest that no counter shows.
  costs.disturbance->spread = unrest_of(busy);
  return costs;
}

}  // namespace weir
