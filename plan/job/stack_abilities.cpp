// Reads a stack's abilities, and holds plans to them.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack_abilities.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "plan/schedule/generators/generators.hpp"

namespace weir {
namespace {

constexpr int kMostZero = 3;

std::vector<int> stages_of_zero(JsonObject& object, std::string_view key) {
  std::vector<int> stages;
  if (!object.has(key)) return stages;
  for (const std::int64_t stage : object.integers(key, 0, kMostZero))
    stages.push_back(static_cast<int>(stage));
  return stages;
}

// A list of words that `parse` knows.
template <class Value, class Parse>
std::vector<Value> words_of(JsonObject& object, std::string_view key, const Parse& parse) {
  std::vector<Value> values;
  if (!object.has(key)) return values;
  for (const std::string& word : object.texts(key)) {
    const auto value = parse(word);
    if (!value) object.fail(key, fmt::format("{} is none of its words", word));
    values.push_back(*value);
  }
  return values;
}

std::optional<RecomputeMode> mode_of(std::string_view word) {
  const auto recompute = parse_recompute_word(word);
  return recompute ? std::optional(recompute->mode) : std::nullopt;
}

template <class Value>
bool has(const std::vector<Value>& all, const Value& one) {
  return all.empty() || std::ranges::find(all, one) != all.end();
}

}  // namespace

StackAbilities read_abilities(JsonObject object) {
  StackAbilities its;
  its.pipeline = object.boolean_or("pipeline", its.pipeline);
  its.schedules = words_of<std::string>(object, "schedules", [](const std::string& name) {
    return find_generator(name) == nullptr ? std::nullopt : std::optional(name);
  });
  its.zero = stages_of_zero(object, "zero");
  its.zero_without_pipeline = stages_of_zero(object, "zero_without_pipeline");
  its.recompute = words_of<RecomputeMode>(object, "recompute", mode_of);
  its.rank_orders = words_of<RankOrder>(object, "rank_orders", parse_rank_order);
  its.overlap_grad_reduce = object.boolean_or("overlap_grad_reduce", its.overlap_grad_reduce);
  its.whole_rounds = object.boolean_or("whole_rounds", its.whole_rounds);
  object.finish();
  return its;
}

StackAbilities parse_abilities(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  return top.has("abilities") ? read_abilities(top.object("abilities")) : StackAbilities{};
}

std::optional<std::string> order_beyond(const StackAbilities& abilities, const Plan& plan) {
  if (plan.pp == 1) return std::nullopt;  // one rank has no order to choose
  if (!has(abilities.schedules, plan.schedule)) return fmt::format("schedule {}", plan.schedule);
  if (abilities.whole_rounds && plan.vpp > 1 && plan.microbatches % plan.pp != 0) {
    return fmt::format("{} micro-batches with v = {}, which are no multiple of {} ranks",
                       plan.microbatches, plan.vpp, plan.pp);
  }
  return std::nullopt;
}

std::optional<std::string> degrees_beyond(const StackAbilities& abilities, const Plan& plan) {
  const bool pipeline = plan.pp > 1;
  if (pipeline && !abilities.pipeline) return fmt::format("a pipeline of {} ranks", plan.pp);
  if (!has(pipeline ? abilities.zero : abilities.zero_without_pipeline, plan.zero))
    return fmt::format("ZeRO stage {} {} a pipeline", plan.zero, pipeline ? "in" : "without");
  if (!has(abilities.recompute, plan.recompute.mode))
    return fmt::format("re-materialisation {}", to_string(plan.recompute.mode));
  // Where neither ranks nor replicas are several, both orders are the same.
  if (pipeline && plan.dp > 1 && !has(abilities.rank_orders, plan.rank_order))
    return fmt::format("rank order {}", to_string(plan.rank_order));
  if (plan.overlap_grad_reduce && plan.replicas() > 1 && !abilities.overlap_grad_reduce)
    return "a reduction of gradients beside the backward";
  return std::nullopt;
}

std::optional<std::string> beyond(const StackAbilities& abilities, const Plan& plan) {
  const auto order = order_beyond(abilities, plan);
  return order ? order : degrees_beyond(abilities, plan);
}

}  // namespace weir
