// Holds a plan to a search's job, key by key, and finds its place in the ranking.
// SPDX-License-Identifier: Apache-2.0
#include "sim/search/space/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "costmodel/layers/layer_key.hpp"

namespace weir {
namespace {

// How two models differ in what they compute, whatever their files and layers are called.
std::optional<std::string> difference(const Model& mine, const Model& sweeps, const Plan& plan,
                                      std::string_view who) {
  if (mine.layers.size() != sweeps.layers.size()) {
    return fmt::format("{} layers, {}'s model has {}", mine.layers.size(), who,
                       sweeps.layers.size());
  }
  for (std::size_t l = 0; l < mine.layers.size(); ++l) {
    const auto key = [&](const Model& model) {
      return layer_key(model.layers[l], plan.seq_length, plan.dtype);
    };
    if (key(mine) != key(sweeps))
      return fmt::format("its {} differs from {}'s", mine.layers[l].name, who);
  }
  if (parameter_count(mine) != parameter_count(sweeps))
    return fmt::format("ties other weights than {}'s", who);
  const auto same = [](const Skip& x, const Skip& y) {
    return x.from == y.from && x.to == y.to && x.bytes == y.bytes;
  };
  if (!std::ranges::equal(mine.skips, sweeps.skips, same))
    return fmt::format("has other skips than {}'s", who);
  return std::nullopt;
}

}  // namespace

std::optional<Incomparable> incomparable(const ResolvedPlan& baseline, const SweepRequest& request,
                                         const Model& model, std::string_view who) {
  const Plan &plan = baseline.plan, &base = request.base;
  if (plan.attention != base.attention) {  // before the model, whose blocks differ by it too
    return Incomparable{"attention", fmt::format("{}; {} has {}", to_string(plan.attention), who,
                                                 to_string(base.attention))};
  }
  // What a schedule divides over the ranks is the same vocabulary.
  Model undivided = baseline.model;
  set_vocabulary(undivided, 1);
  if (const auto differs = difference(undivided, model, plan, who)) {
    return Incomparable{"model", fmt::format("is not {}: {}", base.model_path, *differs)};
  }
  if (plan.seq_length != base.seq_length) {
    return Incomparable{"seq_length",
                        fmt::format("{}; {} has {}", plan.seq_length, who, base.seq_length)};
  }
  if (plan.dtype != base.dtype) {
    return Incomparable{
        "dtype", fmt::format("{}; {} has {}", to_string(plan.dtype), who, to_string(base.dtype))};
  }
  if (plan.fp8 != base.fp8 || plan.fp8_parameters != base.fp8_parameters) {
    return Incomparable{
        "fp8", fmt::format("{}; {} has {}", to_string(plan.fp8), who, to_string(base.fp8))};
  }
  // The same sequences, whether or not devices follow their lengths.
  SequenceLengths same = plan.lengths;
  same.dynamic_cp = base.lengths.dynamic_cp;
  if (same != base.lengths) {
    return Incomparable{
        "lengths", fmt::format("{}; {} has {}", to_text(plan.lengths), who, to_text(base.lengths))};
  }
  if (plan.lora != base.lora)
    return Incomparable{"lora", fmt::format("adapters are others than {}'s", who)};
  if (plan.frozen != base.frozen)
    return Incomparable{"frozen", fmt::format("layers are others than {}'s", who)};
  if (plan.optimizer.kind != base.optimizer.kind) {
    return Incomparable{"optimizer", fmt::format("is of another kind than {}'s", who)};
  }
  if (request.global_batch_size && plan.global_batch_size() != *request.global_batch_size) {
    return Incomparable{"microbatches",
                        fmt::format("b M D = {} {} {} makes a mini-batch of {}; {}'s is {}",
                                    plan.micro_batch_size, plan.microbatches, plan.dp,
                                    plan.global_batch_size(), who, *request.global_batch_size)};
  }
  return std::nullopt;
}

Baseline placed(const SweepRequest& request, const std::vector<Ranked>& plans, const Costs& costs,
                const Cluster& cluster) {
  Baseline baseline;
  Ranked& ranked = baseline.ranked;
  ranked.plan = request.baseline->plan;
  ranked.forecast =
      forecast(*request.baseline, costs, cluster, {.detail = ForecastDetail::ranking}).forecast;
  ranked.forecast.memory_limit = request.memory_limit;
  ranked.gap = ranked.forecast.step_time / ranked.forecast.lower_bound - 1;
  if (!plans.empty()) {
    const Forecast& best = plans.front().forecast;
    baseline.ratio = ranked.forecast.step_time / best.step_time;
    baseline.device_ratio = *baseline.ratio * ranked.forecast.devices / best.devices;
  }
  const auto before = std::ranges::count_if(
      plans, [&](const Ranked& other) { return goes_before(other.forecast, ranked.forecast); });
  if (ranked.forecast.may_fit() && right_devices(request, ranked.forecast.devices))
    baseline.place = static_cast<int>(before) + 1;
  return baseline;
}

}  // namespace weir
