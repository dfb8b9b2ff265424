// weir.costs/1 in and out.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "costmodel/table/anchor_json.hpp"
#include "costmodel/table/costs.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kSchema = "weir.costs/1";

constexpr std::pair<ActionKind, const char*> kCorrectionKeys[] = {
    {ActionKind::F, "f"}, {ActionKind::B, "b"}, {ActionKind::I, "i"},
    {ActionKind::W, "w"}, {ActionKind::R, "r"}, {ActionKind::OPTIMIZER, "optimizer"}};

Json correction_json(const Correction& c) {
  Json json;
  for (const auto& [kind, key] : kCorrectionKeys) json[key] = c[kind];
  return json;
}

Correction parse_correction(JsonObject object) {
  Correction c;
  for (const auto& [kind, key] : kCorrectionKeys) c[kind] = object.number(key, 0, 1e6);
  object.finish();
  return c;
}

// Null where the framework that was measured does not tell the two halves of a backward apart: not
// a number, which is written as null again.
Seconds parse_half(JsonObject& at, const char* key) {
  if (!at.is_null(key)) return Seconds(at.number(key, 0, 1e9));
  static_cast<void>(at.at(key));
  return Seconds(std::numeric_limits<double>::quiet_NaN());
}

LayerCost parse_layer(JsonObject& object) {
  LayerCost layer;
  layer.key = object.text("key");
  layer.optimizer = Seconds(object.number("optimizer_s", 0, 1e9));
  for (JsonObject& at : object.objects("times")) {
    LayerTime time;
    const auto batch = static_cast<int>(at.integer("micro_batch_size", 1, 1 << 20));
    time.f = Seconds(at.number("f_s", 0, 1e9));
    time.i = parse_half(at, "i_s");
    time.w = parse_half(at, "w_s");
    if (std::isnan(time.i.count()) != std::isnan(time.w.count()))
      at.fail("i_s", "expected null together with w_s");
    time.b = Seconds(at.number("b_s", 0, 1e9));
    time.spread = at.number("spread", 0, 1e9);
    time.core = Seconds(at.number_or("core_s", 0, 0, 1e9));
    time.scratch = Bytes(at.integer("scratch_bytes"));
    // For people: forecasts of memory count tensors.
    if (at.has("kept_bytes")) static_cast<void>(at.integer("kept_bytes"));
    at.finish();
    layer.by_batch[batch] = time;
  }
  if (layer.by_batch.empty()) object.fail("times", "expected at least one micro-batch size");
  object.finish();
  return layer;
}

std::vector<double> parse_quantiles(JsonObject& object, const std::string& key) {
  std::vector<double> quantiles;
  const Json& value = object.at(key);
  for (const Json& q : value) {
    if (!q.is_number() || q.get<double>() < (quantiles.empty() ? 0 : quantiles.back()))
      object.fail(key, "expected ascending numbers of at least 0");
    quantiles.push_back(q.get<double>());
  }
  if (!value.is_array() || quantiles.size() < 2)
    object.fail(key, "expected a list of at least two quantiles");
  return quantiles;
}

}  // namespace

nlohmann::ordered_json to_json(const Costs& costs) {
  Json json;
  json["schema"] = kSchema;
  json["basis"] = to_string(costs.basis);
  json["machine"] = costs.machine;
  json["backend"] = costs.backend;
  json["origin"] = costs.origin;
  json["seq_length"] = costs.seq_length;
  json["dtype"] = std::string(to_string(costs.dtype));
  json["link"] = {{"latency_s", costs.link.latency.count()},
                  {"bandwidth_bytes_per_s", costs.link.bandwidth.count()}};
  for (const LinkRegime& regime : costs.link.regimes) {
    json["link"]["regimes"].push_back({{"up_to_bytes", regime.up_to.count()},
                                       {"latency_s", regime.latency.count()},
                                       {"bandwidth_bytes_per_s", regime.bandwidth.count()}});
  }
  json["host_overhead_s"] = costs.host_overhead.count();
  json["step_overhead_s"] = costs.step_overhead.count();
  if (costs.first_backward_in_w) json["first_backward_in_w"] = true;
  json["alone"] = correction_json(costs.alone);
  json["correction"] = correction_json(costs.correction);
  json["by_size"] = Json::array();
  for (const auto& [size, factor] : costs.by_size) {
    json["by_size"].push_back({{"micro_batch_size", size}, {"factor", factor}});
  }
  json["fixed"] = costs.fixed;
  json["interval"] = nullptr;
  if (costs.interval) {
    json["interval"] = {{"nominal", costs.interval->nominal},
                        {"quantile", costs.interval->quantile},
                        {"model_spread", costs.interval->model_spread},
                        {"calibration_plans", costs.interval->calibration_plans}};
  }
  json["range"] = nullptr;
  if (costs.range) {
    json["range"] = {
        {"pp", {costs.range->pp_low, costs.range->pp_high}},
        {"microbatches", {costs.range->microbatches_low, costs.range->microbatches_high}},
        {"schedules", costs.range->schedules}};
  }
  json["jitter"] = Json::object();
  for (const ActionKind kind : kComputeKinds) {
    if (const auto& quantiles = costs.jitter[kind]; !quantiles.empty())
      json["jitter"][std::string(to_string(kind))] = quantiles;
  }
  json["overlap"] = {{"compute_slowdown", costs.overlap.compute},
                     {"transfer_slowdown", costs.overlap.transfer}};
  if (costs.disturbance) json["disturbance"] = to_json(*costs.disturbance);
  if (costs.anchor) json["anchor"] = to_json(*costs.anchor);
  json["layers"] = Json::array();
  for (const LayerCost& layer : costs.layers) {
    Json times = Json::array();
    for (const auto& [batch, t] : layer.by_batch) {
      times.push_back({{"micro_batch_size", batch},
                       {"f_s", t.f.count()},
                       {"i_s", t.i.count()},
                       {"w_s", t.w.count()},
                       {"b_s", t.b.count()},
                       {"spread", t.spread},
                       {"scratch_bytes", t.scratch.count()}});
      if (t.core.count() > 0) times.back()["core_s"] = t.core.count();
    }
    json["layers"].push_back(
        {{"key", layer.key}, {"optimizer_s", layer.optimizer.count()}, {"times", times}});
  }
  return json;
}

void set_anchor(Costs& costs, const CostAnchor& anchor) {
  costs.anchor = anchor;
  for (Costs& kind : costs.other_kinds) {
    kind.basis = Basis::anchored;
    kind.anchor = anchor;
  }
}

void save_costs(const Costs& costs, const std::filesystem::path& file) {
  write_file_atomically(file, to_json(costs).dump(1) + "\n");
}

Costs load_costs(const std::filesystem::path& file) {
  const Json json = parse_json(read_text_file(file), file.string());
  JsonObject top(json, file.string(), "");
  top.expect_schema(kSchema);
  Costs costs;
  costs.file = file.string();
  const auto basis = parse_basis(top.text("basis"));
  if (!basis)
    top.fail("basis", "expected measured, calibrated, anchored, builtin or oversubscribed");
  costs.basis = *basis;
  costs.machine = top.text("machine");
  costs.backend = top.text("backend");
  costs.origin = top.text("origin");
  costs.seq_length = top.integer("seq_length");
  const auto dtype = parse_dtype(top.text("dtype"));
  if (!dtype) top.fail("dtype", "expected fp32, tf32, bf16 or fp16");
  costs.dtype = *dtype;
  JsonObject link = top.object("link");
  costs.link = {Seconds(link.number("latency_s", 0, 1e6)),
                BytesPerSecond(link.number("bandwidth_bytes_per_s")),
                {}};
  if (link.has("regimes")) {  // of smaller messages, where they were measured
    for (JsonObject& regime : link.objects("regimes")) {
      const Bytes up_to(regime.integer(
          "up_to_bytes",
          costs.link.regimes.empty() ? 1 : costs.link.regimes.back().up_to.count() + 1));
      costs.link.regimes.push_back({up_to, Seconds(regime.number("latency_s", 0, 1e6)),
                                    BytesPerSecond(regime.number("bandwidth_bytes_per_s"))});
      regime.finish();
    }
  }
  link.finish();
  costs.host_overhead = Seconds(top.number("host_overhead_s", 0, 1e6));
  costs.step_overhead = Seconds(top.number("step_overhead_s", 0, 1e6));
  costs.first_backward_in_w = top.boolean_or("first_backward_in_w", false);
  costs.alone = parse_correction(top.object("alone"));
  costs.correction = parse_correction(top.object("correction"));
  for (JsonObject& at : top.objects("by_size")) {
    const auto size = static_cast<int>(at.integer("micro_batch_size", 1, 1 << 20));
    costs.by_size[size] = at.number("factor", 1e-6, 1e6);
    at.finish();
  }
  costs.fixed = top.number_or("fixed", 1, 0, 1e6);
  if (!top.at("interval").is_null()) {
    JsonObject interval = top.object("interval");
    IntervalModel model;
    model.nominal = interval.number("nominal", 0, 1);
    model.quantile = interval.number("quantile", 0, 1e6);
    model.model_spread = interval.number("model_spread", 0, 100);
    model.calibration_plans = static_cast<int>(interval.integer("calibration_plans"));
    interval.finish();
    costs.interval = model;
  }
  if (!top.at("range").is_null()) {
    JsonObject object = top.object("range");
    const auto pp = object.integers("pp", 0, 1 << 20),
               microbatches = object.integers("microbatches", 0, 1 << 20);
    if (pp.size() != 2) object.fail("pp", "expected the lowest and the highest K");
    if (microbatches.size() != 2)
      object.fail("microbatches", "expected the lowest and the highest M");
    costs.range = CalibratedRange{static_cast<int>(pp[0]), static_cast<int>(pp[1]),
                                  static_cast<int>(microbatches[0]),
                                  static_cast<int>(microbatches[1]), object.texts("schedules")};
    object.finish();
  }
  JsonObject jitter = top.object("jitter");
  for (const ActionKind kind : kComputeKinds) {
    const std::string name(to_string(kind));
    if (jitter.has(name)) costs.jitter[kind] = parse_quantiles(jitter, name);
  }
  jitter.finish();
  JsonObject overlap = top.object("overlap");
  costs.overlap = {overlap.number("compute_slowdown", 0, 0.99),
                   overlap.number("transfer_slowdown", 0, 0.99)};
  overlap.finish();
  for (JsonObject& layer : top.objects("layers")) costs.layers.push_back(parse_layer(layer));
  if (top.has("disturbance"))
    costs.disturbance = parse_disturbance(top.at("disturbance"), file.string(), "disturbance");
  if (top.has("anchor")) costs.anchor = parse_anchor(top.object("anchor"));
  if (costs.basis == Basis::anchored && !costs.anchor)
    top.fail("anchor", "expected what these costs are anchored to");
  top.finish();
  return costs;
}

}  // namespace weir
