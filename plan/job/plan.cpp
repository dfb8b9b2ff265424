// Plans as files, weir.plan/1.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan.hpp"

#include <fmt/format.h>

#include <array>

#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::string_view kSchema = "weir.plan/1";
constexpr std::array<std::string_view, 3> kRecomputeModes{"none", "selective",
                                                          "full"};  // in the order of RecomputeMode
constexpr std::int64_t kMostRanks = 1 << 16;
constexpr std::int64_t kMostMicrobatches = 1 << 20;

std::string quoted(const std::string& text) { return Json(text).dump(); }
std::string shortest(double value) { return Json(value).dump(); }

Optimizer parse_optimizer(JsonObject object) {
  Optimizer optimizer;
  const std::string kind = object.text("kind");
  if (kind != "sgd" && kind != "adamw") object.fail("kind", "expected sgd or adamw");
  optimizer.learning_rate = object.number("learning_rate", 0, 1e6);
  if (kind == "sgd") {
    optimizer.kind = OptimizerKind::sgd;
    optimizer.momentum = object.number("momentum", 0, 1);
  } else {
    optimizer.beta1 = object.number("beta1", 0, 1);
    optimizer.beta2 = object.number("beta2", 0, 1);
    optimizer.epsilon = object.number("epsilon", 0, 1);
  }
  optimizer.weight_decay = object.number("weight_decay", 0, 1e3);
  object.finish();
  return optimizer;
}

std::string optimizer_json(const Optimizer& o) {
  if (o.kind == OptimizerKind::sgd) {
    return fmt::format(
        R"({{"kind": "sgd", "learning_rate": {}, "momentum": {}, "weight_decay": {}}})",
        shortest(o.learning_rate), shortest(o.momentum), shortest(o.weight_decay));
  }
  return fmt::format(
      R"({{"kind": "adamw", "learning_rate": {}, "beta1": {}, "beta2": {}, "epsilon": {}, )"
      R"("weight_decay": {}}})",
      shortest(o.learning_rate), shortest(o.beta1), shortest(o.beta2), shortest(o.epsilon),
      shortest(o.weight_decay));
}

Recompute parse_recompute(JsonObject& top) {
  Recompute recompute;
  const std::string mode = top.text("recompute");
  const auto known = parse_recompute_mode(mode);
  if (!known) top.fail("recompute", "expected none, selective or full");
  recompute.mode = *known;
  const std::string which = top.text("recompute_microbatches");
  if (which != "all" && which != "except-last")
    top.fail("recompute_microbatches", "expected all or except-last");
  recompute.except_last = which == "except-last";
  if (recompute.except_last && recompute.mode == RecomputeMode::selective) {
    top.fail("recompute_microbatches", "expected all where recompute is selective");
  }
  const std::string placement = top.text("recompute_placement");
  if (placement != "early" && placement != "fused")
    top.fail("recompute_placement", "expected early or fused");
  recompute.placement =
      placement == "fused" ? RecomputePlacement::fused : RecomputePlacement::early;
  return recompute;
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

void parse_parallel(JsonObject& top, Plan& plan) {
  const auto only_true = [&](std::string_view key) {
    if (!top.has(key)) return false;
    if (!top.boolean(key)) top.fail(key, "expected true (left out where it is false)");
    return true;
  };
  plan.sequence_parallel = only_true("sequence_parallel");
  if (top.has("zero")) plan.zero = static_cast<int>(top.integer("zero", 1, 3));
  plan.overlap_grad_reduce = only_true("overlap_grad_reduce");
}

std::string attention_json(const Plan& p) {
  return p.attention == AttentionKind::unfused
             ? ""
             : fmt::format("  \"attention\": \"{}\",\n", to_string(p.attention));
}

std::string parallel_json(const Plan& p) {
  std::string text;
  if (p.sequence_parallel) text += "  \"sequence_parallel\": true,\n";
  if (p.zero > 0) text += fmt::format("  \"zero\": {},\n", p.zero);
  if (p.overlap_grad_reduce) text += "  \"overlap_grad_reduce\": true,\n";
  return text;
}

int small(JsonObject& top, std::string_view key, std::int64_t high) {
  return static_cast<int>(top.integer(key, 1, high));
}

}  // namespace

std::string_view to_string(RecomputeMode mode) {
  return kRecomputeModes[static_cast<std::size_t>(mode)];
}

std::optional<RecomputeMode> parse_recompute_mode(std::string_view text) {
  for (std::size_t i = 0; i < kRecomputeModes.size(); ++i) {
    if (text == kRecomputeModes[i]) return static_cast<RecomputeMode>(i);
  }
  return std::nullopt;
}

std::string to_json(const Plan& p) {
  std::string boundaries;
  for (std::size_t i = 0; i < p.boundaries.size(); ++i) {
    boundaries +=
        fmt::format("\n    {}{}", p.boundaries[i], i + 1 < p.boundaries.size() ? "," : "\n  ");
  }
  std::string text =
      fmt::format("{{\n  \"schema\": \"{}\",\n  \"model\": {},\n  \"model_sha256\": {},\n", kSchema,
                  quoted(p.model_path), quoted(p.model_sha256));
  text += fmt::format(
      "  \"seq_length\": {},\n  \"dtype\": \"{}\",\n{}  \"pp\": {},\n  \"vpp\": {},\n  "
      "\"microbatches\": {},\n"
      "  \"micro_batch_size\": {},\n  \"tp\": {},\n  \"cp\": {},\n  \"dp\": {},\n{}  "
      "\"boundaries\": [{}],\n",
      p.seq_length, to_string(p.dtype), attention_json(p), p.pp, p.vpp, p.microbatches,
      p.micro_batch_size, p.tp, p.cp, p.dp, parallel_json(p), boundaries);
  text += fmt::format(
      "  \"schedule\": {},\n  \"recompute\": \"{}\",\n  \"recompute_microbatches\": \"{}\",\n"
      "  \"recompute_placement\": \"{}\",\n  \"optimizer\": {},\n  \"slots\": {},\n  \"seed\": "
      "{},\n  \"note\": "
      "{}\n}}\n",
      quoted(p.schedule), to_string(p.recompute.mode),
      p.recompute.except_last ? "except-last" : "all",
      p.recompute.placement == RecomputePlacement::fused ? "fused" : "early",
      optimizer_json(p.optimizer), p.slots, p.seed, quoted(p.note));
  return text;
}

Plan parse_plan(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  top.expect_schema(kSchema);
  Plan plan;
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
  parse_parallel(top, plan);
  for (const std::int64_t boundary : top.integers("boundaries", 0, 1 << 24)) {
    plan.boundaries.push_back(static_cast<int>(boundary));
  }
  plan.schedule = top.text("schedule");
  plan.recompute = parse_recompute(top);
  plan.optimizer = parse_optimizer(top.object("optimizer"));
  plan.slots = static_cast<int>(top.integer("slots", 0, 1 << 20));
  plan.seed = static_cast<std::uint64_t>(top.integer("seed", 0, (std::int64_t{1} << 53)));
  plan.note = top.text("note");
  top.finish();
  return plan;
}

Plan rebased(Plan plan, const std::filesystem::path& from, const std::filesystem::path& to) {
  const auto seen_from_there = [&](const std::string& path) {
    return std::filesystem::proximate(std::filesystem::absolute(from / path),
                                      std::filesystem::absolute(to))
        .string();
  };
  plan.model_path = seen_from_there(plan.model_path);
  if (plan.schedule.ends_with(".csv")) plan.schedule = seen_from_there(plan.schedule);
  return plan;
}

void save_plan(const Plan& plan, const std::filesystem::path& file) {
  write_file_atomically(file, to_json(plan));
}

}  // namespace weir
