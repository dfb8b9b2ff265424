// Writes weir.forecast/1.
// SPDX-License-Identifier: Apache-2.0
#include "sim/forecast/forecast_json.hpp"

#include <nlohmann/json.hpp>

#include "plan/text/strict_json.hpp"
#include "sim/forecast/training_cost.hpp"

namespace weir {
namespace {

double seconds(Nanoseconds value) { return to_seconds(value).count(); }

Json rank_json(const Forecast& f, std::size_t rank) {
  const RankMetrics& m = f.metrics.ranks[rank];
  Json json;
  json["rank"] = rank;
  json["busy_s"] = seconds(m.busy);
  json["rematerialised_s"] = seconds(m.rematerialise);
  json["idle_s"] = idle_json(m.idle);
  json["peak_memory_bytes"] = nullptr;
  json["peak_memory_upper_bytes"] = nullptr;
  json["peak_memory_least_bytes"] = nullptr;
  json["memory_bytes"] = nullptr;
  if (rank < f.memory.size()) {
    const RankMemory& memory = f.memory[rank];
    json["peak_memory_bytes"] = memory.peak.count();
    json["peak_memory_upper_bytes"] = memory.upper.count();
    const bool any = rank < f.leanest.size();
    json["peak_memory_least_bytes"] = (any ? f.leanest[rank] : memory.least).count();
    json["memory_bytes"] = Json::object();
    for (const MemoryKind kind : kMemoryKinds)
      json["memory_bytes"][std::string(to_string(kind))] = memory.at_peak[kind].count();
  }
  json["peak_in_flight"] = f.peak_in_flight[rank];
  return json;
}

Json goodput_json(const Forecast& f) {
  const auto& [r, checkpoints] = *f.goodput;
  Json json{{"mtbf_s", r.mtbf.count()},
            {"checkpoint_cost_s", r.checkpoint.count()},
            {"restart_cost_s", r.restart.count()},
            {"downtime_s", r.downtime.count()},
            {"checkpoint_interval_steps", checkpoints.steps},
            {"checkpoint_interval_s", checkpoints.interval.count()},
            {"goodput", checkpoints.goodput},
            {"samples_per_s", nullptr},
            {"best_interval_s", best_interval(r).count()},
            {"daly_interval_s", daly_interval(r).count()},
            {"young_interval_s", young_interval(r).count()}};
  if (f.samples_per_s) json["samples_per_s"] = *f.samples_per_s * checkpoints.goodput;
  return json;
}

}  // namespace

Json host_json(const HostHeld& host) {
  return {{"fits", to_string(host.fits())},
          {"memory_bytes", host.memory.count()},
          {"held_bytes", host.held().count()},
          {"held_upper_bytes", host.band().upper.count()},
          {"optimizer_bytes", host.optimizer.count()},
          {"activations_bytes", host.activations.count()}};
}

Json idle_json(const IdleTime& idle) {
  Json json;
  for (const IdleCause& cause : kIdleCauses) json[cause.name] = seconds(idle.*cause.time);
  return json;
}

Json forecast_json(const Forecast& f) {
  Json json;
  json["schema"] = "weir.forecast/1";
  json["basis"] = to_string(f.basis);
  json["stack"] = f.stack.empty() ? Json() : Json(f.stack);
  json["step_time_s"] = f.step_time.count();
  json["step_time_interval_s"] = nullptr;
  if (f.interval)
    json["step_time_interval_s"] = {f.interval->low.count(), f.interval->high.count()};
  json["interval_nominal"] = f.interval ? Json(f.interval->nominal) : Json();
  const auto source = [&f](int IntervalSource::*count) {
    return f.interval_source ? Json(*f.interval_source.*count) : Json();
  };
  json["interval_rows"] = source(&IntervalSource::rows);
  json["interval_clusters"] = source(&IntervalSource::clusters);
  json["interval_stacks"] = source(&IntervalSource::stacks);
  json["span_s"] = seconds(f.metrics.span);
  json["ideal_s"] = f.metrics.ideal.count();
  json["lower_bound_s"] = f.lower_bound.count();
  json["bubble_fraction"] = f.metrics.bubble_fraction;
  json["bubble_fraction_span"] = f.metrics.bubble_fraction_span;
  json["samples_per_s"] = or_null(f.samples_per_s);
  json["tokens_per_s"] = or_null(f.tokens_per_s);
  json["tokens_per_s_per_device"] = nullptr;
  if (f.tokens_per_s) json["tokens_per_s_per_device"] = *f.tokens_per_s / f.devices;
  json["model_tflops_per_device"] = or_null(f.model_tflops_per_device);
  json["mfu"] = or_null(f.mfu);
  json["training_cost"] = training_cost_json(f);
  json["memory_limit_bytes"] = f.memory_limit ? Json(f.memory_limit->count()) : Json(nullptr);
  for (const Bytes limit : f.rank_memory_limits)
    json["rank_memory_limits_bytes"].push_back(limit.count());
  // Without a limit, or where memory was not counted, there is nothing to judge.
  const bool judged = f.memory_limit && !f.memory.empty();
  json["fits"] = judged ? Json(to_string(f.fits())) : Json();
  json["fits_probability"] = judged ? Json(f.fits_probability()) : Json();
  if (f.host) json["host"] = host_json(*f.host);
  if (f.goodput) json["goodput"] = goodput_json(f);
  json["ranks"] = Json::array();
  for (std::size_t rank = 0; rank < f.metrics.ranks.size(); ++rank)
    json["ranks"].push_back(rank_json(f, rank));
  if (f.distribution) {
    json["step_time_distribution_s"] = {{"samples", f.distribution->samples},
                                        {"mean", f.distribution->mean.count()},
                                        {"p05", f.distribution->low.count()},
                                        {"median", f.distribution->median.count()},
                                        {"p95", f.distribution->high.count()}};
  }
  if (f.without_barrier) json["step_time_without_barrier_s"] = f.without_barrier->count();
  json["warnings"] = f.warnings;
  return json;
}

std::string to_json(const Forecast& forecast, int indent) {
  return forecast_json(forecast).dump(indent);
}

}  // namespace weir
