// Reads weir.stack/1.
// SPDX-License-Identifier: Apache-2.0
#include "plan/job/stack.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "plan/job/stack_abilities.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/text/text_file.hpp"
#include "plan/words/error.hpp"
#include "plan/words/names.hpp"

namespace weir {
namespace {

constexpr Names<Width, 13> kWidths{{{Width::hidden, "hidden"},
                                    {Width::query, "query"},
                                    {Width::key_value, "key_value"},
                                    {Width::context, "context"},
                                    {Width::latents, "latents"},
                                    {Width::visits, "visits"},
                                    {Width::up, "up"},
                                    {Width::ffn, "ffn"},
                                    {Width::heads, "heads"},
                                    {Width::scores, "scores"},
                                    {Width::token, "token"},
                                    {Width::experts, "experts"},
                                    {Width::vocabulary, "vocabulary"}}};
constexpr Names<Blocks, 8> kBlocks{{{Blocks::all, "all"},
                                    {Blocks::dense, "dense"},
                                    {Blocks::experts, "experts"},
                                    {Blocks::latent, "latent"},
                                    {Blocks::direct, "direct"},
                                    {Blocks::rotary, "rotary"},
                                    {Blocks::drops_out, "drops_out"},
                                    {Blocks::plain_experts, "plain_experts"}}};
constexpr Names<Share, 3> kShares{
    {{Share::tensor, "tensor"}, {Share::sequence, "sequence"}, {Share::whole, "whole"}}};
constexpr Names<StagePlacement, 4> kPlacements{{{StagePlacement::layers, "layers"},
                                                {StagePlacement::embedding_head, "embedding_head"},
                                                {StagePlacement::cost, "cost"},
                                                {StagePlacement::middle, "middle"}}};

template <class Enum, std::size_t N>
Enum word(JsonObject& object, std::string_view key, const Names<Enum, N>& names) {
  const auto value = named(names, object.text(key));
  if (value) return *value;
  std::string expected;
  for (const auto& entry : names)
    expected += (expected.empty() ? "" : ", ") + std::string(entry.second);
  object.fail(key, "expected one of " + expected);
}

Seconds duration(JsonObject& object, std::string_view key) {
  const auto value = parse_duration(object.text(key));
  if (!value) object.fail(key, "expected a duration with its unit, as \"4 us\"");
  return *value;
}

KeptRule kept_of(JsonObject object) {
  KeptRule rule;
  rule.tensor = object.text("tensor");
  rule.width = word(object, "width", kWidths);
  rule.bytes = object.number("bytes", 0, 64);
  rule.fp8 = object.number_or("fp8", 0, 0, 64);
  rule.share = object.has("share") ? word(object, "share", kShares) : Share::tensor;
  rule.until_i = object.boolean_or("until_i", false);
  if (object.has("blocks")) rule.blocks = word(object, "blocks", kBlocks);
  if (object.boolean_or("attention_core", false)) rule.rebuilt_by |= BlockModule::core_attn;
  if (object.has("rebuilt_by")) {
    for (const std::string& name : object.texts("rebuilt_by")) {
      const auto module = named(kBlockModules, name);
      if (!module) object.fail("rebuilt_by", name + ": expected modules of blocks, as moe_act");
      rule.rebuilt_by |= *module;
    }
  }
  rule.before_activation = object.boolean_or("before_activation", false);
  object.finish();
  return rule;
}

ExtraStream stream_of(JsonObject object) {
  ExtraStream stream;
  stream.what = object.text("what");
  stream.width = word(object, "width", kWidths);
  stream.forward = object.number_or("forward", 0, 0, 256);
  stream.backward = object.number_or("backward", 0, 0, 256);
  stream.share = object.has("share") ? word(object, "share", kShares) : Share::tensor;
  stream.kernels = static_cast<int>(object.integer_or("kernels", 1, 0, 1000));
  object.finish();
  return stream;
}

StepwiseKernels stepwise_of(JsonObject object) {
  StepwiseKernels steps;
  steps.forward = object.number("forward", 0, 256);
  steps.backward = object.number("backward", 0, 256);
  steps.kernels_forward = static_cast<int>(object.integer("kernels_forward", 1, 1000));
  steps.kernels_backward = static_cast<int>(object.integer("kernels_backward", 1, 1000));
  object.finish();
  return steps;
}

// Keys that are left out keep what the struct says.
void read_number(JsonObject& object, std::string_view key, double& value, double low, double high) {
  value = object.number_or(key, value, low, high);
}

StackMemory memory_of(JsonObject object) {
  StackMemory m;
  if (object.has("block")) {
    for (JsonObject& rule : object.objects("block")) m.block.push_back(kept_of(rule));
  }
  constexpr double kMost = 64;  // bytes a logit or parameter
  for (const auto& [key, value] : {std::pair<const char*, double*>{"logits_kept", &m.logits_kept},
                                   {"logits_forward", &m.logits_forward},
                                   {"logits_backward", &m.logits_backward},
                                   {"weights", &m.weights},
                                   {"gradients", &m.gradients},
                                   {"optimizer", &m.optimizer},
                                   {"backward_gradients", &m.backward_gradients},
                                   {"pipeline_weights", &m.pipeline_weights},
                                   {"pipeline_gradients", &m.pipeline_gradients},
                                   {"buckets", &m.buckets},
                                   {"fp8_weights", &m.fp8_weights},
                                   {"at_update", &m.at_update}})
    read_number(object, key, *value, 0, kMost);
  m.gradients_come = object.boolean_or("gradients_come", m.gradients_come);
  read_number(object, "pending", m.pending, 0, 1e4);
  read_number(object, "pending_least", m.pending_least, 0, m.pending);
  read_number(object, "pending_nodes", m.pending_nodes, 0, 1e4);
  read_number(object, "pending_spread", m.pending_spread, 1, 10);
  read_number(object, "crowded", m.crowded, 0, 1);
  read_number(object, "reserved_expected", m.reserved_expected, 1, 10);
  read_number(object, "reserved_most", m.reserved_most, m.reserved_expected, 10);
  for (const auto& [key, value] : {std::pair<const char*, Bytes*>{"libraries", &m.libraries},
                                   {"expert_libraries", &m.expert_libraries},
                                   {"process", &m.process}}) {
    if (!object.has(key)) continue;
    const auto bytes = parse_bytes(object.text(key));
    if (!bytes) object.fail(key, "expected an amount with its unit, as \"1 GiB\"");
    *value = *bytes;
  }
  object.finish();
  return m;
}

// By steps that are not fused, and for parameters, tables and logits.
void read_bytes_moved(JsonObject& object, StackTime& t) {
  if (object.has("norm")) t.norm = stepwise_of(object.object("norm"));
  if (object.has("softmax")) t.softmax = stepwise_of(object.object("softmax"));
  read_number(object, "accumulate", t.accumulate, 0, 64);
  read_number(object, "embedding", t.embedding, 0, 64);
  read_number(object, "logits", t.logits, 0, 64);
  t.logits_backward = object.number_or("logits_backward", t.logits, 0, 64);
}

StackTime time_of(JsonObject object) {
  StackTime t;
  if (object.has("attention")) t.attention = word(object, "attention", kAttentionLibraryNames);
  if (object.has("launch")) t.launch = duration(object, "launch");
  t.blocking_launches = object.boolean_or("blocking_launches", t.blocking_launches);
  if (object.has("block")) {
    for (JsonObject& stream : object.objects("block")) t.block.push_back(stream_of(stream));
  }
  for (const auto& [key, value] :
       {std::pair<const char*, double*>{"block_kernels_forward", &t.block_kernels_forward},
        {"block_kernels_backward", &t.block_kernels_backward},
        {"tensor_kernels", &t.tensor_kernels},
        {"kernels_a_tensor", &t.kernels_a_tensor}})
    read_number(object, key, *value, 0, 1000);
  read_bytes_moved(object, t);
  read_number(object, "tensor_overlap", t.tensor_overlap, 0, 1);
  read_number(object, "expert_overlap", t.expert_overlap, 0, 1);
  read_number(object, "overlap_slowdown", t.overlap_slowdown, 0, 1);
  t.tensor_beside_weights = object.boolean_or("tensor_beside_weights", t.tensor_beside_weights);
  t.rebuild_stops_early = object.boolean_or("rebuild_stops_early", t.rebuild_stops_early);
  t.experts_sent_once = object.boolean_or("experts_sent_once", t.experts_sent_once);
  t.regathers = object.boolean_or("regathers", t.regathers);
  t.blocking_messages = object.boolean_or("blocking_messages", t.blocking_messages);
  for (const auto& [key, value] : {std::pair<const char*, Seconds*>{"message", &t.message},
                                   {"block_host_forward", &t.block_host_forward},
                                   {"block_host_backward", &t.block_host_backward},
                                   {"expert_host_forward", &t.expert_host_forward},
                                   {"expert_host_backward", &t.expert_host_backward},
                                   {"collective_host", &t.collective_host},
                                   {"collective_host_across", &t.collective_host_across}}) {
    if (object.has(key)) *value = duration(object, key);
  }
  read_number(object, "reduced_gradients", t.reduced_gradients, 0.5, 8);
  t.reduces_whole = object.boolean_or("reduces_whole", t.reduces_whole);
  if (object.has("overlaps_reduction")) t.overlaps_reduction = object.boolean("overlaps_reduction");
  t.overlaps_gather.reset();
  if (object.has("overlaps_gather")) t.overlaps_gather = object.boolean("overlaps_gather");
  read_number(object, "update", t.update, 0, 256);
  if (object.has("step")) t.step = duration(object, "step");
  object.finish();
  return t;
}

// What a block costs the rule that goes by products, in multiply-adds a token.
double products(const Layer& layer) {
  if (const auto* block = std::get_if<TransformerShape>(&layer.shape)) {
    const auto h = static_cast<double>(block->hidden);
    return h * (4 * h + 3 * static_cast<double>(block->ffn));
  }
  if (const auto* head = std::get_if<HeadShape>(&layer.shape))
    return static_cast<double>(head->vocabulary) * static_cast<double>(head->hidden);
  return 0;
}

// nanotron: a layer belongs to the stage whose share of the whole the sum reaches or passes with
// it. The head's cast and loss, of no cost, stay with it: a stage behind it is empty.
std::vector<int> by_cost(const Model& model, int stages) {
  std::vector<double> costs;
  double total = 0;
  for (const Layer& layer : model.layers) total += costs.emplace_back(products(layer));
  costs.insert(costs.end(), {0, 0});
  std::vector<int> boundaries;
  double sum = 0;
  for (std::size_t item = 0; item < costs.size(); ++item) {
    const auto filled = static_cast<double>(boundaries.size() + 1);
    sum += costs[item];
    if (sum >= total * filled / stages && filled < stages) {
      const std::size_t next = std::min(item + 1, model.layers.size());
      boundaries.push_back(static_cast<int>(next));
    }
  }
  boundaries.resize(static_cast<std::size_t>(stages - 1), static_cast<int>(model.layers.size()));
  return boundaries;
}

bool is_block(const Layer& layer) { return std::holds_alternative<TransformerShape>(layer.shape); }

// Boundaries before the given blocks, counted from the model's first one; what stands before the
// first block goes with it, what follows the last with that.
std::vector<int> before_blocks(const Model& model, const std::vector<int>& blocks) {
  int first = 0;
  while (first < static_cast<int>(model.layers.size()) &&
         !is_block(model.layers[static_cast<std::size_t>(first)]))
    ++first;
  std::vector<int> boundaries;
  for (const int block : blocks) boundaries.push_back(first + block);
  return boundaries;
}

}  // namespace

Stack parse_stack(const std::string& text, const std::string& file) {
  const Json json = parse_json(text, file);
  JsonObject top(json, file, "");
  top.expect_schema("weir.stack/1");
  Stack stack;
  stack.name = top.text("name");
  if (top.has("origins")) stack.origins = read_origins(top.object("origins"));
  stack.placement = word(top, "placement", kPlacements);
  stack.empty_stages = top.boolean_or("empty_stages", false);
  stack.fp8 = top.boolean_or("fp8", false);
  stack.own_tensors = !top.has("memory");
  if (top.has("memory")) stack.memory = memory_of(top.object("memory"));
  if (top.has("time")) stack.time = time_of(top.object("time"));
  if (top.has("abilities")) static_cast<void>(read_abilities(top.object("abilities")));
  top.finish();
  check_origins(json, stack.origins, file);
  return stack;
}

Stack load_stack(const std::filesystem::path& file) {
  return parse_stack(read_text_file(file), file.string());
}

std::optional<std::vector<int>> stage_boundaries(const Stack& stack, const Model& model,
                                                 int stages) {
  if (stack.placement == StagePlacement::cost) return by_cost(model, stages);
  const auto blocks = static_cast<int>(std::ranges::count_if(model.layers, is_block));
  std::vector<int> starts;
  if (stack.placement == StagePlacement::embedding_head) {
    // DeepSpeed's balanced partition of equal weights: each stage is filled up to the least
    // possible maximum before the next begins. The embedding is the first item, the head the last.
    const int each = (blocks + 2 + stages - 1) / stages;
    for (int s = 1; s < stages; ++s) starts.push_back(std::clamp(s * each - 1, 0, blocks));
  } else {
    const int each = blocks / stages, rest = blocks % stages;
    // Megatron wants no remainder; where there is one it goes to the first stages, and in the
    // middle rule to those that follow the first.
    const int from = stack.placement == StagePlacement::middle ? 1 : 0;
    int start = 0;
    for (int s = 0; s + 1 < stages; ++s) {
      start += each + (s >= from && s < from + rest ? 1 : 0);
      starts.push_back(start);
    }
  }
  std::vector<int> boundaries = before_blocks(model, starts);
  const bool none_empty =
      std::ranges::adjacent_find(boundaries, std::ranges::greater_equal()) == boundaries.end() &&
      (boundaries.empty() ||
       (boundaries.front() > 0 && boundaries.back() < static_cast<int>(model.layers.size())));
  if (!none_empty && !stack.empty_stages) return std::nullopt;
  return boundaries;
}

}  // namespace weir
