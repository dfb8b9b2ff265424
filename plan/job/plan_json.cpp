// Plans as files, weir.plan/1.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan_json.hpp"

#include <fmt/format.h>

#include <string_view>

#include "plan/job/optimizer_json.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr std::string_view kSchema = "weir.plan/1";

std::string one_line(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items())
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", Json(key).dump(), value.dump());
  return "{" + text + "}";
}

// `recompute_placement` belongs to R, so to stage alone. Up to v0.1 it stood in every file and
// stage was written full: full with a placement is an old file's stage, full without one is full.
void parse_recompute(JsonObject& top, PlanFile& read) {
  Recompute& recompute = read.plan.recompute;
  const std::string word = top.text("recompute");
  const auto known = parse_recompute_word(word);
  if (!known || recompute_word(*known) != word)
    top.fail(
        "recompute",
        "expected none, selective, full, stage, full:N, ascending layers as 0-11,40, or modules "
        "as selective:layernorm+moe_act");
  recompute = *known;
  if (recompute.mode != RecomputeMode::full || top.has("recompute_placement")) {
    const std::string placement = top.text("recompute_placement");
    if (placement != "early" && placement != "fused")
      top.fail("recompute_placement", "expected early or fused");
    if (placement == "fused") recompute.placement = RecomputePlacement::fused;
  }
  if (!recompute.layers.empty() && top.has("recompute_placement"))
    top.fail("recompute_placement", "expected with stage only: layers are rebuilt in the backward");
  if (recompute.mode == RecomputeMode::full && top.has("recompute_placement")) {
    recompute.mode = RecomputeMode::stage;
    read.remarks.emplace_back(
        "recompute: full with a recompute_placement is what v0.1 wrote for stage, and is read as "
        "stage; full as it is now has no placement");
  }
  const std::string which = top.text("recompute_microbatches");
  if (which != "all" && which != "except-last")
    top.fail("recompute_microbatches", "expected all or except-last");
  recompute.except_last = which == "except-last";
  if (recompute.except_last && recompute.mode == RecomputeMode::selective) {
    top.fail("recompute_microbatches", "expected all where recompute is selective");
  }
}

// Keys that came after weir.plan/1 stand in a file only where they say something, so that older
// files keep their bytes: a value that is the default is refused.
AttentionKind parse_attention(JsonObject& top) {
  if (!top.has("attention")) return AttentionKind::unfused;
  if (top.text("attention") != to_string(AttentionKind::fused)) {
    top.fail("attention", "expected fused (left out where it is unfused)");
  }
  return AttentionKind::fused;
}

// A mini-batch that M D does not divide: all micro-batches have b samples or b - 1, and some b - 1.
void parse_samples(JsonObject& top, Plan& plan) {
  if (!top.has("global_batch_size")) return;
  const std::int64_t all = std::int64_t{plan.microbatches} * plan.dp;
  const std::int64_t most = all * plan.micro_batch_size, least = most - all;
  const std::int64_t samples = top.integer("global_batch_size", 1, std::int64_t{1} << 30);
  if (samples <= least || samples >= most) {
    top.fail("global_batch_size",
             fmt::format(
                 "{}: expected {} to {}, micro-batches of {} and {} samples (left out where "
                 "all have as many)",
                 samples, least + 1, most - 1, plan.micro_batch_size, plan.micro_batch_size - 1));
  }
  plan.samples = static_cast<int>(samples);
}

bool only_true(JsonObject& top, std::string_view key) {
  if (!top.has(key)) return false;
  if (!top.boolean(key)) top.fail(key, "expected true (left out where it is false)");
  return true;
}

void parse_placement(JsonObject& top, Plan& plan) {
  std::int64_t ranks = 0;
  for (JsonObject& placed : top.objects("placement")) {
    plan.placement.push_back(
        {placed.text("pool"), static_cast<int>(placed.integer("ranks", 1, kMostRanks))});
    ranks += plan.placement.back().ranks;
    placed.finish();
  }
  if (ranks != plan.pp)
    top.fail("placement", fmt::format("places {} ranks; expected all {}", ranks, plan.pp));
  if (plan.rank_order != RankOrder::tp_cp_dp_pp) {
    top.fail("placement",
             "expected with rank_order tp-cp-dp-pp only: a rank's devices stand in one pool");
  }
}

void parse_parallel(JsonObject& top, Plan& plan) {
  if (top.has("ep")) plan.ep = static_cast<int>(top.integer("ep", 2, kMostRanks));
  if (top.has("etp")) plan.etp = static_cast<int>(top.integer("etp", 1, kMostRanks));
  if (top.has("expert_load")) {
    plan.expert_load = top.number("expert_load", 1, kMostExpertLoad);
    if (plan.expert_load == 1)
      top.fail("expert_load", "expected more than 1 (left out where experts are even)");
  }
  if (top.has("expert_dispatch")) {
    const auto dispatch = parse_expert_dispatch(top.text("expert_dispatch"));
    if (!dispatch || *dispatch == ExpertDispatch::by_stack)
      top.fail("expert_dispatch",
               "expected alltoall, allgather or once (left out where the stack decides)");
    plan.expert_dispatch = *dispatch;
  }
  plan.sequence_parallel = only_true(top, "sequence_parallel");
  plan.overlap_tensor_parallel = only_true(top, "overlap_tensor_parallel");
  if (plan.overlap_tensor_parallel && !plan.sequence_parallel)
    top.fail("overlap_tensor_parallel", "expected beside sequence_parallel only");
  if (top.has("zero")) plan.zero = static_cast<int>(top.integer("zero", 1, 3));
  plan.overlap_grad_reduce = only_true(top, "overlap_grad_reduce");
  plan.overlap_param_gather = only_true(top, "overlap_param_gather");
  if (top.has("rank_order")) {
    const auto order = parse_rank_order(top.text("rank_order"));
    if (order != RankOrder::tp_cp_pp_dp)
      top.fail("rank_order", "expected tp-cp-pp-dp (left out where it is tp-cp-dp-pp)");
    plan.rank_order = *order;
  }
  if (top.has("placement")) parse_placement(top, plan);
}

SourceJob parse_job(JsonObject top) {
  SourceJob job{.tool = top.text("tool"),
                .devices = static_cast<int>(top.integer("devices", 1, 1 << 30)),
                .left_out = top.texts("left_out"),
                .lines = top.texts("lines")};
  if (job.tool.empty()) top.fail("tool", "expected the tool whose job it is");
  top.finish();
  return job;
}

// Objects of lists: one line a text.
std::string of_lists(const Json& object) {
  std::string text;
  for (const auto& [key, value] : object.items()) {
    std::string written = value.dump();
    if (value.is_array() && !value.empty()) {
      written.clear();
      for (const Json& item : value)
        written += (written.empty() ? "\n      " : ",\n      ") + item.dump();
      written = fmt::format("[{}\n    ]", written);
    }
    text += fmt::format("{}\n    {}: {}", text.empty() ? "" : ",", Json(key).dump(), written);
  }
  return "{" + text + "\n  }";
}

int small(JsonObject& top, std::string_view key, std::int64_t high) {
  return static_cast<int>(top.integer(key, 1, high));
}

}  // namespace

Json plan_json(const Plan& p) {
  Json json{{"schema", kSchema},
            {"model", p.model_path},
            {"model_sha256", p.model_sha256},
            {"seq_length", p.seq_length},
            {"dtype", to_string(p.dtype)}};
  if (p.attention != AttentionKind::unfused) json["attention"] = to_string(p.attention);
  json["pp"] = p.pp;
  json["vpp"] = p.vpp;
  json["microbatches"] = p.microbatches;
  json["micro_batch_size"] = p.micro_batch_size;
  if (p.samples > 0) json["global_batch_size"] = p.samples;
  json["tp"] = p.tp;
  json["cp"] = p.cp;
  json["dp"] = p.dp;
  if (p.ep > 1) json["ep"] = p.ep;
  if (p.etp > 0) json["etp"] = p.etp;
  if (p.expert_load > 1) json["expert_load"] = p.expert_load;
  if (p.expert_dispatch != ExpertDispatch::by_stack)
    json["expert_dispatch"] = to_string(p.expert_dispatch);
  if (p.sequence_parallel) json["sequence_parallel"] = true;
  if (p.overlap_tensor_parallel) json["overlap_tensor_parallel"] = true;
  if (p.zero > 0) json["zero"] = p.zero;
  if (p.overlap_grad_reduce) json["overlap_grad_reduce"] = true;
  if (p.overlap_param_gather) json["overlap_param_gather"] = true;
  if (p.rank_order != RankOrder::tp_cp_dp_pp) json["rank_order"] = to_string(p.rank_order);
  for (const PlacedRanks& placed : p.placement)
    json["placement"].push_back({{"pool", placed.pool}, {"ranks", placed.ranks}});
  json["boundaries"] = p.boundaries;
  if (p.skips != SkipTransport::relay) json["skips"] = to_string(p.skips);
  json["schedule"] = p.schedule;
  if (p.slices > 1) json["slices"] = p.slices;
  if (p.allow_reordered) json["allow_reordered"] = true;
  json["recompute"] = recompute_word(p.recompute);
  json["recompute_microbatches"] = p.recompute.except_last ? "except-last" : "all";
  if (p.recompute.mode != RecomputeMode::full) {
    json["recompute_placement"] =
        p.recompute.placement == RecomputePlacement::fused ? "fused" : "early";
  }
  json["optimizer"] = optimizer_json(p.optimizer);
  json["slots"] = p.slots;
  json["seed"] = p.seed;
  json["note"] = p.note;
  if (!p.job.tool.empty())
    json["job"] = {{"tool", p.job.tool},
                   {"devices", p.job.devices},
                   {"left_out", p.job.left_out},
                   {"lines", p.job.lines}};
  return json;
}

namespace {

constexpr Names<RankOrder, 2> kRankOrders{
    {{RankOrder::tp_cp_dp_pp, "tp-cp-dp-pp"}, {RankOrder::tp_cp_pp_dp, "tp-cp-pp-dp"}}};
constexpr Names<ExpertDispatch, 4> kDispatches{{{ExpertDispatch::by_stack, "by-stack"},
                                                {ExpertDispatch::alltoall, "alltoall"},
                                                {ExpertDispatch::allgather, "allgather"},
                                                {ExpertDispatch::once, "once"}}};
constexpr Names<SkipTransport, 2> kSkipTransports{
    {{SkipTransport::relay, "relay"}, {SkipTransport::direct, "direct"}}};

}  // namespace

std::string_view to_string(RankOrder order) { return name_of(kRankOrders, order); }

std::optional<RankOrder> parse_rank_order(std::string_view text) {
  return named(kRankOrders, text);
}

std::string_view to_string(ExpertDispatch dispatch) { return name_of(kDispatches, dispatch); }

std::optional<ExpertDispatch> parse_expert_dispatch(std::string_view text) {
  return named(kDispatches, text);
}

std::string_view to_string(SkipTransport transport) { return name_of(kSkipTransports, transport); }

std::optional<SkipTransport> parse_skip_transport(std::string_view text) {
  return named(kSkipTransports, text);
}

std::optional<Misfit> cannot_share_experts(const Plan& plan) {
  const int among = plan.tp / plan.expert_tp() * plan.replicas();
  if (among % plan.ep == 0) return std::nullopt;
  return Misfit{"ep", fmt::format("{} does not divide the {} devices of {}", plan.ep, among,
                                  plan.etp > 0 ? "tp x cp x dp / etp" : "dp x cp")};
}

std::optional<Misfit> cannot_divide(const Model& model, const Plan& plan) {
  if (auto misfit = cannot_split(model, plan.seq_length, plan.split())) return misfit;
  return cannot_share_experts(plan);
}

// One key a line, one boundary a line, the optimizer on one, a line of a job on one: what differs
// between two plans is the lines that differ.
std::string to_json(const Plan& plan) {
  std::string text;
  const Json json = plan_json(plan);
  for (const auto& [key, value] : json.items()) {
    std::string written = value.dump();
    if (value.is_object()) written = key == "job" ? of_lists(value) : one_line(value);
    if (value.is_array() && !value.empty()) {
      written.clear();
      for (const Json& item : value)
        written += (written.empty() ? "\n    " : ",\n    ") + item.dump();
      written = fmt::format("[{}\n  ]", written);
    }
    text += fmt::format("{}  {}: {}", text.empty() ? "" : ",\n", Json(key).dump(), written);
  }
  return "{\n" + text + "\n}\n";
}

PlanFile read_plan(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  top.expect_schema(kSchema);
  PlanFile read;
  Plan& plan = read.plan;
  plan.model_path = top.text("model");
  plan.model_sha256 = top.text("model_sha256");
  plan.seq_length = top.integer("seq_length", 0, std::int64_t{1} << 24);
  const auto dtype = parse_dtype(top.text("dtype"));
  if (!dtype) top.fail("dtype", "expected fp32, tf32, bf16 or fp16");
  plan.dtype = *dtype;
  plan.attention = parse_attention(top);
  plan.pp = small(top, "pp", kMostRanks);
  plan.vpp = small(top, "vpp", 1024);
  plan.microbatches = small(top, "microbatches", kMostMicrobatches);
  plan.micro_batch_size = small(top, "micro_batch_size", kMostMicrobatches);
  plan.tp = small(top, "tp", kMostRanks);
  plan.cp = small(top, "cp", kMostRanks);
  plan.dp = small(top, "dp", kMostRanks);
  parse_samples(top, plan);
  parse_parallel(top, plan);
  for (const std::int64_t boundary : top.integers("boundaries", 0, 1 << 24)) {
    plan.boundaries.push_back(static_cast<int>(boundary));
  }
  if (top.has("skips")) {
    if (top.text("skips") != to_string(SkipTransport::direct))
      top.fail("skips", "expected direct (left out where they are relayed)");
    plan.skips = SkipTransport::direct;
  }
  plan.schedule = top.text("schedule");
  if (top.has("slices")) plan.slices = static_cast<int>(top.integer("slices", 2, kMostSlices));
  plan.allow_reordered = only_true(top, "allow_reordered");
  parse_recompute(top, read);
  plan.optimizer = parse_optimizer(top.object("optimizer"));
  plan.slots = static_cast<int>(top.integer("slots", 0, 1 << 20));
  plan.seed = static_cast<std::uint64_t>(top.integer("seed", 0, (std::int64_t{1} << 53)));
  plan.note = top.text("note");
  if (top.has("job")) plan.job = parse_job(top.object("job"));
  top.finish();
  return read;
}

Plan parse_plan(const std::string& text, const std::string& file) {
  return read_plan(text, file).plan;
}

}  // namespace weir
