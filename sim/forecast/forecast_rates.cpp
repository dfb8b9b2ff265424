// Samples, tokens and the model's FLOPs a second; money an hour.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_rates.hpp"

#include <algorithm>

#include "costmodel/layers/kernel_rates.hpp"
#include "costmodel/layers/layer_math.hpp"
#include "costmodel/layers/row_work.hpp"
#include "plan/job/placement.hpp"
#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

// FLOP/s of a device of the plan, on average. A rank that stands on several kinds counts as the
// first of them.
double mean_peak_rate(const Plan& plan, const Cluster& cluster) {
  if (cluster.kinds() == 1) return peak_rate(cluster.device, plan.dtype).count();
  const Placement placement(plan, cluster);
  double sum = 0;
  for (std::int32_t rank = 0; rank < plan.pp; ++rank) {
    const Cluster& nodes = cluster.kind(placement.kinds(Rank{rank}).front());
    sum += peak_rate(nodes.device, plan.dtype).count();
  }
  return sum / plan.pp;
}

// Of a row, that of its sequences: linear in tokens but for attention, whose part is known from a
// row twice as long: f(S) = a S + c S^2, c S^2 = (f(2 S) - 2 f(S)) / 2.
double useful_flops(const Model& as_divided, const Plan& plan, const RowWork& row) {
  // Of the shards of a vocabulary the model has one.
  Model undivided;
  if (divides_vocabulary(plan.schedule)) {
    undivided = as_divided;
    set_vocabulary(undivided, 1);
  }
  const Model& model = undivided.layers.empty() ? as_divided : undivided;
  const double whole = training_flops(model, plan.seq_length).count();
  if (!plan.lengths.known()) return whole;
  const double twice = training_flops(model, 2 * plan.seq_length).count();
  const double squares = std::max(0.0, (twice - 2 * whole) / 2);
  return (whole - squares) * row.useful + squares * row.useful_squared;
}

}  // namespace

void add_rates(Forecast& forecast, const ResolvedPlan& loaded, const Cluster& cluster) {
  const Plan& plan = loaded.plan;
  const double step = forecast.step_time.count();
  if (step <= 0) return;
  forecast.samples_per_s = static_cast<double>(plan.global_batch_size()) / step;
  if (plan.seq_length == 0) return;
  // Padding counts neither as tokens nor as the model's work.
  const RowWork row = mean_row(plan.lengths, plan.seq_length, plan.micro_batch_size);
  forecast.tokens_per_s =
      *forecast.samples_per_s * static_cast<double>(plan.seq_length) * row.useful;
  const double flops =
      useful_flops(loaded.model, plan, row) * *forecast.samples_per_s / plan.devices();
  if (flops <= 0) return;
  forecast.model_tflops_per_device = flops / 1e12;
  const double peak = mean_peak_rate(plan, cluster);
  if (peak > 0) forecast.mfu = flops / peak;
}

std::optional<Price> price_per_hour(const Plan& plan, const Cluster& cluster, int of_one_kind) {
  if (cluster.kinds() == 1) {
    const auto& price = cluster.kind(0).price_per_gpu_hour;
    return price ? std::optional(*price * of_one_kind) : std::nullopt;
  }
  const Placement placement(plan, cluster);
  std::optional<Price> sum;
  for (int kind = 0; kind < cluster.kinds(); ++kind) {
    const auto devices = static_cast<double>(placement.devices(kind));
    const auto& price = cluster.kind(kind).price_per_gpu_hour;
    if (devices == 0) continue;
    if (!price) return std::nullopt;
    if (!sum) sum = Price{0, price->currency};
    sum->amount += price->amount * devices;
  }
  return sum;
}

}  // namespace weir
