// Plans as files, and a plan with the things it names. `resolve` is the border: what passes it can
// be lowered, forecast and run.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "plan/model/model_import.hpp"
#include "plan/program/deadlock.hpp"
#include "plan/schedule/generators/generators.hpp"
#include "plan/schedule/schedule_csv.hpp"
#include "plan/schedule/validate.hpp"
#include "plan/text/sha256.hpp"
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

void check_shape(const Plan& plan, const ScheduleShape& shape, const std::string& file) {
  if (shape.ranks != plan.pp || shape.stages != plan.stages() ||
      shape.microbatches != plan.microbatches) {
    throw InputError(
        file, "",
        fmt::format("is for K = {}, {} stages and M = {}; the plan says {}, {} and {}", shape.ranks,
                    shape.stages, shape.microbatches, plan.pp, plan.stages(), plan.microbatches));
  }
}

Schedule schedule_of(const Plan& plan, const std::filesystem::path& base, const std::string& file) {
  if (plan.schedule.ends_with(".csv")) {
    const auto path = base / plan.schedule;
    Schedule schedule = parse_schedule_csv(read_text_file(path), path.string());
    schedule.name = plan.schedule;
    check_shape(plan, schedule.shape, path.string());
    return schedule;
  }
  auto made = make_schedule(plan.schedule, {plan.pp, plan.vpp, plan.microbatches});
  if (const auto* reason = std::get_if<std::string>(&made))
    throw InputError(file, "schedule", *reason);
  return std::get<Schedule>(std::move(made));
}

void check_model(const Plan& plan, const Model& model, const std::string& file) {
  const auto layers = static_cast<int>(model.layers.size());
  if (plan.stages() > layers) {
    throw InputError(file, "pp",
                     fmt::format("{} stages for {} layers: K*v may be at most {}", plan.stages(),
                                 layers, layers));
  }
  if (static_cast<int>(plan.boundaries.size()) != plan.stages() - 1) {
    throw InputError(file, "boundaries",
                     fmt::format("expected K*v-1 = {} layer indices, found {}", plan.stages() - 1,
                                 plan.boundaries.size()));
  }
  int before = 0;
  for (const int boundary : plan.boundaries) {
    if (boundary <= before || boundary >= layers) {
      throw InputError(file, "boundaries",
                       fmt::format("{}: expected strictly increasing layer indices from 1 to {}",
                                   boundary, layers - 1));
    }
    before = boundary;
  }
  if (model.max_positions > 0 && plan.seq_length > model.max_positions) {
    throw InputError(
        file, "seq_length",
        fmt::format("{} is above the model's {} positions", plan.seq_length, model.max_positions));
  }
  if (plan.seq_length == 0 && model.family != "timed" &&
      model.seq_length + model.max_positions > 0) {
    throw InputError(file, "seq_length", "expected at least 1 for a model of sequences");
  }
  if (const auto misfit = cannot_split(model, plan.seq_length, plan.split())) {
    throw InputError(file, misfit->key, misfit->reason);
  }
}

Model model_of(const Plan& plan, const std::filesystem::path& base, const std::string& file) {
  const auto model_file = base / plan.model_path;
  const std::string bytes = read_text_file(model_file);
  const std::string hash = sha256_hex(bytes);
  if (hash != plan.model_sha256) {
    throw InputError(file, "model_sha256",
                     fmt::format("{} has changed since the plan was made (now {})",
                                 model_file.string(), hash.substr(0, 12)));
  }
  Model model = load_model(model_file);
  set_attention(model, plan.attention);
  check_model(plan, model, file);
  return model;
}

LoadedPlan checked(LoadedPlan loaded, const std::string& file) {
  if (const auto fault = validate(loaded.schedule)) {
    throw InputError(file, "schedule", fmt::format("{}\n{}", fault->reason, fault->picture));
  }
  const Program program = lower(loaded);
  if (const auto cycle = find_cycle(program)) {
    throw InputError(file, "schedule",
                     fmt::format("would deadlock with {} receive slots an edge:\n{}",
                                 loaded.plan.slots, describe_cycle(program, *cycle)));
  }
  return loaded;
}

LoadedPlan resolve_from(const Plan& plan, const std::filesystem::path& base,
                        const std::string& file) {
  Model model = model_of(plan, base, file);
  return checked({plan, std::move(model), schedule_of(plan, base, file)}, file);
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

LoadedPlan load_plan(const std::filesystem::path& file) {
  return resolve_from(parse_plan(read_text_file(file), file.string()), file.parent_path(),
                      file.string());
}

LoadedPlan resolve(const Plan& plan, const std::filesystem::path& base) {
  return resolve_from(plan, base, "plan");
}

LoadedPlan resolve(const Plan& plan, const std::filesystem::path& base, Schedule schedule) {
  check_shape(plan, schedule.shape, schedule.name);
  Model model = model_of(plan, base, "plan");
  return checked({plan, std::move(model), std::move(schedule)}, "plan");
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

LayerRange layers_of_stage(const Plan& plan, int layer_count, Stage stage) {
  const int index = stage.value % plan.stages();
  const auto at = static_cast<std::size_t>(index);
  return {index == 0 ? 0 : plan.boundaries[at - 1],
          index == plan.stages() - 1 ? layer_count : plan.boundaries[at]};
}

namespace {

// The stages with a copy of the token table: those of tied embeddings, of a tied head, of T5's
// second embedding.
std::vector<Stage> token_table_holders(const LoadedPlan& loaded) {
  std::vector<Stage> holders;
  const auto layers = static_cast<int>(loaded.model.layers.size());
  for (std::int32_t stage = 0; stage < loaded.plan.stages(); ++stage) {
    const LayerRange range = layers_of_stage(loaded.plan, layers, Stage{stage});
    for (int l = range.first; l < range.last; ++l) {
      const LayerShape& shape = loaded.model.layers[static_cast<std::size_t>(l)].shape;
      const auto* embedding = std::get_if<EmbeddingShape>(&shape);
      const auto* head = std::get_if<HeadShape>(&shape);
      const bool tied =
          (embedding != nullptr && embedding->tied) || (head != nullptr && head->tied);
      if (tied && (holders.empty() || holders.back() != Stage{stage}))
        holders.push_back(Stage{stage});
    }
  }
  return holders;
}

}  // namespace

LoweringOptions lowering_options(const LoadedPlan& loaded) {
  const Plan& plan = loaded.plan;
  LoweringOptions options;
  const auto stages = static_cast<std::size_t>(loaded.schedule.shape.total_stages());
  if (plan.recompute.mode == RecomputeMode::full) options.recompute.assign(stages, true);
  options.keep_last_microbatch = plan.recompute.except_last;
  options.placement = plan.recompute.placement;
  options.slots = plan.slots;
  options.reduce_all = plan.replicas() > 1;
  if (std::vector<Stage> holders = token_table_holders(loaded); holders.size() > 1) {
    options.tied.push_back(std::move(holders));
  }
  return options;
}

Program lower(const LoadedPlan& loaded) { return lower(loaded.schedule, lowering_options(loaded)); }

}  // namespace weir
