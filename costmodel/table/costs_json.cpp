// weir.costs/1, key by key.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <limits>

#include "costmodel/table/costs.hpp"
#include "costmodel/table/costs_sections.hpp"
#include "plan/format/keys.hpp"
#include "plan/text/seal.hpp"
#include "plan/text/text_file.hpp"
#include "traces/disturbance_json.hpp"

namespace weir {
namespace format {
namespace {

constexpr Range kTime{0, 1e9}, kFactor{0, 1e6}, kOverhead{0, 1e6}, kSlowdown{0, 0.99};
constexpr Range kScale{1e-6, 1e6}, kResidual{-100, 100}, kBatch{1, 1 << 20}, kCount{0, 1 << 20};

constexpr Key<Correction> kCorrection[] = {
    key<&Correction::f>("f", "F", kFactor), key<&Correction::b>("b", "B", kFactor),
    key<&Correction::i>("i", "I", kFactor), key<&Correction::w>("w", "W", kFactor),
    key<&Correction::r>("r", "R", kFactor), key<&Correction::optimizer>("optimizer", "", kFactor),
};

constexpr Key<LinkRegime> kRegime[] = {
    key<&LinkRegime::up_to>("up_to_bytes", "bytes | always |"),
    key<&LinkRegime::latency>("latency_s", "s | always |", kOverhead),
    key<&LinkRegime::bandwidth>("bandwidth_bytes_per_s",
                                "bytes/s | always | 0: the time does not grow with the size"),
};
constexpr auto kAscending = [](JsonObject& regime, const std::vector<LinkRegime>& before) {
  const std::int64_t least = before.empty() ? 1 : before.back().up_to.count() + 1;
  static_cast<void>(regime.integer("up_to_bytes", least));
};
constexpr Key<Link> kLink[] = {
    key<&Link::latency>("latency_s", "s | always |", kOverhead),
    key<&Link::bandwidth>("bandwidth_bytes_per_s",
                          "bytes/s | always | one direction; 0: handed over without copying"),
    maybe<&Link::regimes, Objects<kRegime, kUnchecked, kAscending>>(
        "regimes", "| where smaller messages were measured | ascending"),
};

using SizeFactor = std::pair<int, double>;
constexpr Key<SizeFactor> kSizeFactor[] = {
    key<&SizeFactor::first>("micro_batch_size", "samples | files of 0.1 |", kBatch),
    key<&SizeFactor::second>("factor", "| files of 0.1 |", kScale),
};

constexpr Key<IntervalModel> kInterval[] = {
    key<&IntervalModel::nominal>("nominal", "0.9", {0, 1}),
    key<&IntervalModel::quantile>("quantile", "of the scores", kFactor),
    key<&IntervalModel::model_spread>(
        "model_spread", "log ratio | always | median of the fitted plans' misses", {0, 100}),
    key<&IntervalModel::calibration_plans>("calibration_plans", "that set the quantile"),
};

using Run = CalibratedRange;
constexpr Key<Run> kRun[] = {
    key<kWhole, Pair<&Run::pp_low, &Run::pp_high>>("pp", "lowest and highest K", kCount)
        .expect("expected the lowest and the highest K"),
    key<kWhole, Pair<&Run::microbatches_low, &Run::microbatches_high>>(
        "microbatches", "lowest and highest M", kCount)
        .expect("expected the lowest and the highest M"),
    key<&Run::schedules>("schedules"),
};

struct Quantiles {
  static constexpr const char* kType = "list of numbers";
  static void read(const Spec& key, JsonObject& object, std::vector<double>& quantiles) {
    const Json& value = object.at(key.name);
    for (const Json& q : value) {
      if (!q.is_number() || q.get<double>() < (quantiles.empty() ? 0 : quantiles.back()))
        object.fail(key.name, "expected ascending numbers of at least 0");
      quantiles.push_back(q.get<double>());
    }
    if (!value.is_array() || quantiles.size() < 2)
      object.fail(key.name, "expected a list of at least two quantiles");
  }
  static Json write(const Spec&, const std::vector<double>& quantiles) { return quantiles; }
};
constexpr const char* kSeen = "| where enough actions were seen | likewise";
constexpr Key<Jitter> kJitter[] = {
    maybe<&Jitter::f, Quantiles>(
        "F",
        "| where enough actions were seen | quantiles of duration over what is typical of the "
        "stage (mean in a step, median over steps), evenly spaced from 0 to 1"),
    maybe<&Jitter::b, Quantiles>("B", kSeen),
    maybe<&Jitter::i, Quantiles>("I", kSeen),
    maybe<&Jitter::w, Quantiles>("W", kSeen),
    maybe<&Jitter::r, Quantiles>("R", kSeen),
    maybe<&Jitter::optimizer, Quantiles>("OPTIMIZER", kSeen),
};

constexpr Key<OverlapSlowdown> kOverlap[] = {
    key<&OverlapSlowdown::compute>(
        "compute_slowdown", "share | always | of a rank's speed, while a transfer is under way",
        kSlowdown),
    key<&OverlapSlowdown::transfer>("transfer_slowdown",
                                    "share | always | of a transfer's, while either end computes",
                                    kSlowdown),
};

constexpr Key<AnchorFactors> kFactors[] = {
    key<&AnchorFactors::compute>("compute", "of layers and host", kScale),
    key<&AnchorFactors::messages>("messages", "between stages and within them", kScale),
    key<&AnchorFactors::step>("step", "of what comes once a step", kScale),
    key<&AnchorFactors::memory>("memory", "of a device's peak", kScale),
};
constexpr Key<LayoutWords> kWords[] = {
    maybe<&LayoutWords::job>(
        "job",
        "files from before it are read; what was trained on how many devices: model, devices,"
        " mini-batch")
        .kept(),
    maybe<&LayoutWords::choices>(
        "choices",
        "of the layout, a word each: what two plans differ in decides how much of an error "
        "they share")
        .kept(),
};
constexpr auto kBothWords = [](JsonObject& run, const LayoutWords&) {
  if (run.has("job")) static_cast<void>(run.at("choices"));
  if (!run.has("job") && run.has("choices")) run.fail("choices", "unknown key");
};
constexpr Key<AnchorRun> kAnchorRun[] = {
    key<&AnchorRun::plan>("plan", "its file"),
    key<&AnchorRun::figure>("figure"),
    key<&AnchorRun::step_time>("step_time_s", "s | always | that the figure means", kTime),
    key<&AnchorRun::residual>("residual", "log ratio | always | of measured and forecast step",
                              kResidual),
    key<&AnchorRun::memory>("memory_bytes",
                            "bytes | always | of the fullest device; null: not given", {1})
        .nullable(),
    key<&AnchorRun::memory_residual>("memory_residual", "log ratio | always |", kResidual)
        .nullable(),
    inlined<&AnchorRun::words, kWords, kBothWords>,
};
constexpr Key<CostAnchor> kAnchor[] = {
    key<&CostAnchor::cluster>("cluster", "its name"),
    key<&CostAnchor::device>("device", "the costs hold for no other"),
    key<&CostAnchor::stack>("stack", "the software that ran"),
    or_null<&CostAnchor::stack_named>(
        "stack_named",
        "false: the stack was the call's default, nobody named it; files from before it are "
        "read")
        .kept(),
    key<&CostAnchor::factors, Object<kFactors>>("factors", "over what is built in"),
    key<&CostAnchor::runs, Objects<kAnchorRun>>("runs", "each as it was given"),
};
constexpr auto kMeasured = [](JsonObject& object, const CostAnchor& anchor) {
  if (anchor.runs.empty()) object.fail("runs", "expected at least one measured run");
};

// Null where the framework that was measured does not tell the two halves of a backward apart: not
// a number, which is written as null again.
struct Half {
  static constexpr const char* kType = "number or null";
  static void read(const Spec& key, JsonObject& object, Seconds& half) {
    half = Seconds(std::numeric_limits<double>::quiet_NaN());
    if (!object.at(key.name).is_null()) Plain::read(key, object, half);
  }
  static Json write(const Spec& key, Seconds half) { return Plain::write(key, half); }
};
constexpr Key<LayerTime> kLayerTime[] = {
    key<&LayerTime::f>("f_s", "s | always | forward", kTime),
    key<&LayerTime::i, Half>(
        "i_s",
        "s | always | backward for the input; null where the framework does not tell it from "
        "that for the weights: such costs price no schedule that does",
        kTime),
    key<&LayerTime::w, Half>("w_s", "s | always | backward for the weights", kTime),
    key<&LayerTime::b>("b_s", "s | always | full backward", kTime),
    key<&LayerTime::spread>("spread", "interquartile range of F over its median", {0, 1e9}),
    key<&LayerTime::scratch>("scratch_bytes", "bytes | always | libraries' scratch memory"),
    // For people: forecasts of memory count tensors.
    maybe<kWhole, Dropped<std::int64_t>>(
        "kept_bytes",
        "bytes | `weir.profile_torch`; read and left out of what is written again | kept from"
        " F to B, the input with it, weights left out"),
    or_null<&LayerTime::core>(
        "core_s",
        "s | where it is known apart | of F, what selective re-materialisation does again", kTime),
};
constexpr auto kBothHalves = [](JsonObject& at, const LayerTime& time) {
  if (std::isnan(time.i.count()) != std::isnan(time.w.count()))
    at.fail("i_s", "expected null together with w_s");
};
using SizeTime = std::pair<int, LayerTime>;
constexpr Key<SizeTime> kSizeTime[] = {
    key<&SizeTime::first>("micro_batch_size", "samples | always |", kBatch),
    inlined<&SizeTime::second, kLayerTime, kBothHalves>,
};
constexpr auto kSomeSize = [](JsonObject& object, const LayerCost& layer) {
  if (layer.by_batch.empty()) object.fail("times", "expected at least one micro-batch size");
};
constexpr Key<LayerCost> kLayer[] = {
    key<&LayerCost::key>(
        "key",
        "everything that decides the layer's work: kind, shape, tokens, number format, split"),
    key<&LayerCost::optimizer>("optimizer_s",
                               "s | always | update of the layer's parameters, once a step", kTime),
    key<&LayerCost::by_batch, Objects<kSizeTime>>("times", "by micro-batch size"),
};

constexpr Key<Costs> kCosts[] = {
    key<kWhole, Schema>("schema").expect("weir.costs/1"),
    key<&Costs::basis, Word<parse_basis>>(
        "basis", "`measured`, `calibrated`, `anchored`, `builtin` or `oversubscribed`")
        .expect("expected measured, calibrated, anchored, builtin or oversubscribed"),
    key<&Costs::machine>("machine"),
    key<&Costs::backend>("backend", "`cpu` or `cuda`"),
    key<&Costs::origin>("origin", "how and when"),
    key<&Costs::seq_length>("seq_length", "tokens | always | a sample's"),
    key<&Costs::dtype, Word<parse_dtype>>("dtype", "`fp32`, `tf32`, `bf16` or `fp16`")
        .expect("expected fp32, tf32, bf16 or fp16"),
    key<&Costs::link, Object<kLink>>("link", "between two ranks").in("costs link"),
    key<&Costs::host_overhead>("host_overhead_s", "s | always | before every action", kOverhead),
    key<&Costs::step_overhead>("step_overhead_s",
                               "s | always | from the last action's end to the step's", kOverhead),
    or_null<&Costs::first_backward_in_w>(
        "first_backward_in_w",
        "| `weir.profile_torch` | where backward is divided, the first stage's I is nothing "
        "and its W the whole backward: nobody computes the gradient of the model's input"),
    key<&Costs::alone, Object<kCorrection>>(
        "alone",
        "times of a device whose neighbours are idle, over those of a busy machine; a plan "
        "takes it to the power of the share in which they are (docs/theory.md 8.6)")
        .in("correction"),
    key<&Costs::correction, Object<kCorrection>>("correction",
                                                 "learnt from runs; 1 where nothing was")
        .in("correction"),
    key<&Costs::by_size, Objects<kSizeFactor>>(
        "by_size", "what 0.1 learnt in its place, beside `correction`; not of the optimizer"),
    or_null<&Costs::fixed>(
        "fixed",
        "factor of what passes take at any micro-batch size, learnt from runs of several; 1 "
        "where absent",
        kFactor)
        .kept(),
    key<&Costs::interval, Object<kInterval>>(
        "interval", "how far forecasts may be off ([theory.md](theory.md) 9.1)")
        .nullable(),
    key<&Costs::range, Object<kRun>>("range", "what was run; null: nothing").nullable(),
    key<&Costs::jitter, Object<kJitter>>("jitter", "by kind of action"),
    key<&Costs::overlap, Object<kOverlap>>("overlap"),
    maybe<&Costs::disturbance, Object<kDisturbance>>(
        "disturbance",
        "| measured here, or learnt from runs | of the profile and the runs, the worst")
        .in("disturbance"),
    maybe<&Costs::anchor, Object<kAnchor, kMeasured>>(
        "anchor",
        "| with basis `anchored` | measured runs, and the factors that fit them "
        "([theory.md](theory.md) 8.5)"),
    key<&Costs::layers, Objects<kLayer, kSomeSize>>("layers"),
    maybe<kWhole, Dropped<std::string>>(
        "sha256",
        "| a file that Weir wrote | its seal ([checkpoints](#weircheckpoint2)): damaged costs are "
        "refused; who edits them takes it out"),
};
constexpr auto kAnchored = [](JsonObject& top, const Costs& costs) {
  if (costs.basis == Basis::anchored && !costs.anchor)
    top.fail("anchor", "expected what these costs are anchored to");
};

}  // namespace
}  // namespace format

nlohmann::ordered_json to_json(const Costs& costs) {
  return format::written(costs, format::kCosts);
}

Costs load_costs(const std::filesystem::path& file) {
  const std::string text = read_text_file(file);
  const Json json = parse_json(text, file.string());
  require_seal_if_any(text, json, file.string());
  JsonObject top(json, file.string(), "");
  Costs costs = format::read(top, format::kCosts, format::kAnchored);
  costs.file = file.string();
  return costs;
}

void save_costs(const Costs& costs, const std::filesystem::path& file) {
  write_file_atomically(file, sealed_text(to_json(costs), 1));
}

void set_anchor(Costs& costs, const CostAnchor& anchor) {
  costs.anchor = anchor;
  for (Costs& kind : costs.other_kinds) {
    kind.basis = Basis::anchored;
    kind.anchor = anchor;
  }
}

std::vector<format::Section> costs_sections() {
  return {format::described("weir.costs/1", format::kCosts),
          format::described("costs link", format::kLink),
          format::described("correction", format::kCorrection),
          format::described("disturbance", format::kDisturbance)};
}

}  // namespace weir
