// Layer lists out of shapes and, for what has several words, shapes out of layer lists.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/readers/layer_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <utility>

#include "plan/model/expert_groups.hpp"
#include "plan/model/limits.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr std::array<std::pair<std::string_view, Activation>, 4> kActivations{
    {{"gelu", Activation::gelu},
     {"gelu_tanh", Activation::gelu_tanh},
     {"relu", Activation::relu},
     {"silu", Activation::silu}}};

std::string_view to_string(Activation activation) {
  for (const auto& [name, value] : kActivations) {
    if (value == activation) return name;
  }
  return "gelu_tanh";
}

std::string_view to_string(NormKind kind) {
  return kind == NormKind::rms_norm ? "rms_norm" : "layer_norm";
}

constexpr std::array<std::pair<std::string_view, RotaryScaling>, 4> kRotaryScalings{
    {{"none", RotaryScaling::none},
     {"linear", RotaryScaling::linear},
     {"llama3", RotaryScaling::llama3},
     {"other", RotaryScaling::other}}};

std::string_view to_string(RotaryScaling scaling) {
  for (const auto& [name, value] : kRotaryScalings) {
    if (value == scaling) return name;
  }
  return "other";
}

// What differs from the words' defaults.
void add_rotary(Json& entry, const RotaryAngles& angles) {
  entry["rope_theta"] = angles.theta;
  if (angles.scaling == RotaryScaling::none) return;
  entry["rope_scaling"] = to_string(angles.scaling);
  entry["rope_factor"] = angles.factor;
  if (angles.scaling != RotaryScaling::llama3) return;
  entry["rope_low_frequency"] = angles.low_frequency;
  entry["rope_high_frequency"] = angles.high_frequency;
  entry["rope_original_positions"] = angles.original_positions;
}

RotaryAngles listed_angles(JsonObject& layer) {
  RotaryAngles angles;
  angles.theta = layer.number_or("rope_theta", angles.theta, 1e-3, 1e12);
  const std::string scaling = layer.text_or("rope_scaling", "none");
  const auto known = std::ranges::find_if(
      kRotaryScalings, [&](const auto& entry) { return entry.first == scaling; });
  if (known == kRotaryScalings.end())
    layer.fail("rope_scaling", "expected none, linear, llama3 or other");
  angles.scaling = known->second;
  angles.factor = layer.number_or("rope_factor", angles.factor, 1, 1e6);
  angles.low_frequency = layer.number_or("rope_low_frequency", angles.low_frequency, 1e-3, 1e6);
  angles.high_frequency = layer.number_or("rope_high_frequency", angles.high_frequency, 1e-3, 1e6);
  angles.original_positions = layer.integer_or("rope_original_positions", 0, 0, kLargestSize);
  if (angles.scaling == RotaryScaling::llama3) {
    if (angles.original_positions == 0)
      layer.fail("rope_original_positions", "expected the positions that llama3 scales from");
    if (angles.high_frequency <= angles.low_frequency)
      layer.fail("rope_high_frequency", "expected more than rope_low_frequency");
  }
  return angles;
}

// Words that came later stand in a list only where they say something.
void add_later_words(Json& entry, const TransformerShape& s) {
  for (const auto& [word, said] : {std::pair<const char*, bool>{"shared_gate", s.shared_gate},
                                   {"router_bias", s.router_bias},
                                   {"router_pre_softmax", s.router_pre_softmax},
                                   {"single_norm", s.single_norm},
                                   {"post_norms", s.post_norms},
                                   {"sinks", s.sinks},
                                   {"wide_qk_norm", s.wide_qk_norm},
                                   {"values_are_keys", s.values_are_keys}}) {
    if (said) entry[word] = true;
  }
  for (const auto& [word, size] : {std::pair<const char*, std::int64_t>{"shared_ffn", s.shared_ffn},
                                   {"expert_groups", s.expert_groups},
                                   {"groups_per_token", s.groups_per_token},
                                   {"window", s.window},
                                   {"latent_query", s.latent.query},
                                   {"latent_key_value", s.latent.key_value},
                                   {"latent_rotary", s.latent.rotary},
                                   {"latent_value", s.latent.value}}) {
    if (size > 0) entry[word] = size;
  }
}

void read_later_words(JsonObject& layer, TransformerShape& s) {
  for (const auto& [word, said] : {std::pair<const char*, bool*>{"shared_gate", &s.shared_gate},
                                   {"router_bias", &s.router_bias},
                                   {"router_pre_softmax", &s.router_pre_softmax},
                                   {"single_norm", &s.single_norm},
                                   {"post_norms", &s.post_norms},
                                   {"sinks", &s.sinks},
                                   {"wide_qk_norm", &s.wide_qk_norm},
                                   {"values_are_keys", &s.values_are_keys}})
    *said = layer.boolean_or(word, false);
  for (const auto& [word, size] :
       {std::pair<const char*, std::int64_t*>{"shared_ffn", &s.shared_ffn},
        {"expert_groups", &s.expert_groups},
        {"groups_per_token", &s.groups_per_token},
        {"window", &s.window},
        {"latent_query", &s.latent.query},
        {"latent_key_value", &s.latent.key_value},
        {"latent_rotary", &s.latent.rotary},
        {"latent_value", &s.latent.value}})
    *size = layer.integer_or(word, 0, 0, kLargestSize);
  if (s.experts == 1 && (s.shared_ffn > 0 || s.router_bias || s.router_pre_softmax))
    layer.fail("experts",
               "expected more than one beside shared_ffn, router_bias or router_pre_softmax");
  if (const auto why = cannot_group(s)) layer.fail("expert_groups", *why);
  if (s.shared_gate && s.shared_ffn == 0) layer.fail("shared_ffn", "expected with shared_gate");
  if (s.single_norm && !s.parallel) layer.fail("parallel", "expected true with single_norm");
  if (s.wide_qk_norm && !s.qk_norm) layer.fail("qk_norm", "expected true with wide_qk_norm");
  const bool latent = s.latent.key_value > 0;
  if (latent != (s.latent.value > 0))
    layer.fail("latent_value", "expected with latent_key_value, and only then");
  if (!latent && (s.latent.query > 0 || s.latent.rotary > 0))
    layer.fail("latent_key_value", "expected with latent_query and latent_rotary");
  // Latent attention makes a key and a value for every head, and has norms of its own.
  if (latent &&
      (s.kv_heads != s.heads || s.latent.rotary >= s.head_dim || s.qk_norm || s.values_are_keys))
    layer.fail("latent_key_value",
               "expected as many kv_heads as heads, latent_rotary below head_dim, no qk_norm or "
               "values_are_keys");
}

struct Entry {
  Json operator()(const EmbeddingShape& s) const {
    Json entry{{"kind", "embedding"}, {"vocabulary", s.vocabulary},
               {"hidden", s.hidden},  {"positions", s.positions},
               {"norm", s.norm},      {"token_types", s.token_types},
               {"tied", s.tied},      {"dropout", s.dropout}};
    if (s.norm) entry["norm_epsilon"] = s.norm_epsilon;
    if (s.scale != 1) entry["scale"] = s.scale;
    return entry;
  }
  Json operator()(const TransformerShape& s) const {
    Json entry{{"kind", "transformer"},
               {"hidden", s.hidden},
               {"heads", s.heads},
               {"kv_heads", s.kv_heads},
               {"head_dim", s.head_dim},
               {"ffn", s.ffn},
               {"experts", s.experts},
               {"experts_per_token", s.experts_per_token},
               {"activation", to_string(s.activation)},
               {"norm", to_string(s.norm)},
               {"norm_epsilon", s.norm_epsilon},
               {"pre_norm", s.pre_norm},
               {"gated", s.gated},
               {"qkv_bias", s.qkv_bias},
               {"output_bias", s.output_bias},
               {"mlp_bias", s.mlp_bias},
               {"causal", s.causal},
               {"rotary", s.rotary},
               {"parallel", s.parallel},
               {"attention_dropout", s.attention_dropout},
               {"residual_dropout", s.residual_dropout}};
    // Words that came later stand behind, so that older lists keep their bytes.
    if (s.rotary) add_rotary(entry, s.angles);
    if (s.qk_norm) entry["qk_norm"] = true;
    add_later_words(entry, s);
    return entry;
  }
  Json operator()(const NormShape& s) const {
    return {{"kind", "norm"},
            {"hidden", s.hidden},
            {"norm", to_string(s.kind)},
            {"norm_epsilon", s.epsilon}};
  }
  Json operator()(const HeadShape& s) const {
    return {{"kind", "head"},
            {"vocabulary", s.vocabulary},
            {"hidden", s.hidden},
            {"bias", s.bias},
            {"tied", s.tied}};
  }
  Json operator()(const CellShape&) const {
    assert(false && "a model with cells is refused before it is written");
    return {};
  }
  Json operator()(const TimedShape& s) const {
    return {{"kind", "timed"},
            {"forward_s", s.forward.count()},
            {"backward_input_s", s.backward_input.count()},
            {"backward_weight_s", s.backward_weight.count()},
            {"parameters", s.parameters},
            {"activation_bytes", s.activation.count()},
            {"boundary_bytes", s.boundary.count()}};
  }
  Json operator()(const SizedShape& s) const {
    return {
        {"kind", "sized"},   {"parameters", s.parameters},   {"flops_forward", s.forward.count()},
        {"input", s.input},  {"keeps_input", s.keeps_input}, {"kept", s.kept},
        {"output", s.output}};
  }
};

void refuse_wordless(const Model& model) {
  if (!model.skips.empty())
    throw InputError(model.name, "skips", "a layer list has no word for them");
  for (const Layer& layer : model.layers) {
    const auto* block = std::get_if<TransformerShape>(&layer.shape);
    if (block != nullptr && (block->cross_attention || block->relative_buckets > 0)) {
      throw InputError(model.name, layer.name,
                       "a layer list has no word for cross attention or relative positions");
    }
    if (std::holds_alternative<CellShape>(layer.shape))
      throw InputError(model.name, layer.name, "a layer list has no word for a cell's operations");
    const auto* head = std::get_if<HeadShape>(&layer.shape);
    if (head != nullptr &&
        (head->pooled || head->dense != HeadDense::none || head->vocabulary == 0)) {
      throw InputError(model.name, layer.name, "a layer list has no word for such a head");
    }
    const auto* embedding = std::get_if<EmbeddingShape>(&layer.shape);
    if (embedding != nullptr && (embedding->patch > 0 || embedding->shared)) {
      throw InputError(model.name, layer.name, "a layer list has no word for such an embedding");
    }
  }
}

// "block.3" -> "block": a run of equal layers is named once, and numbered again when read.
std::string stem(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos ||
      name.find_first_not_of("0123456789", dot + 1) != std::string::npos)
    return name;
  return name.substr(0, dot);
}

}  // namespace

NormKind listed_norm(JsonObject& layer) {
  const std::string norm = layer.text_or("norm", "layer_norm");
  if (norm != "layer_norm" && norm != "rms_norm")
    layer.fail("norm", "expected layer_norm or rms_norm");
  return norm == "rms_norm" ? NormKind::rms_norm : NormKind::layer_norm;
}

TransformerShape listed_transformer(JsonObject& layer) {
  TransformerShape shape{.hidden = layer.integer("hidden", 1, kLargestSize),
                         .heads = layer.integer("heads", 1, kLargestSize)};
  shape.head_dim = layer.integer_or("head_dim", 0, 0, kLargestSize);
  if (shape.head_dim == 0) {
    if (shape.hidden % shape.heads != 0) layer.fail("heads", "does not divide hidden");
    shape.head_dim = shape.hidden / shape.heads;
  }
  shape.kv_heads = layer.integer_or("kv_heads", shape.heads, 1, kLargestSize);
  if (shape.heads % shape.kv_heads != 0) layer.fail("kv_heads", "does not divide heads");
  shape.ffn = layer.integer_or("ffn", 4 * shape.hidden, 1, kLargestSize);
  shape.experts = layer.integer_or("experts", 1, 1, kLargestSize);
  shape.experts_per_token = layer.integer_or("experts_per_token", 1, 1, shape.experts);
  const std::string activation = layer.text_or("activation", "gelu_tanh");
  bool known = false;
  for (const auto& [name, value] : kActivations) {
    if (name != activation) continue;
    shape.activation = value;
    known = true;
  }
  if (!known) layer.fail("activation", "expected gelu, gelu_tanh, relu or silu");
  shape.norm = listed_norm(layer);
  shape.norm_epsilon = layer.number_or("norm_epsilon", shape.norm_epsilon, 1e-12, 1);
  shape.pre_norm = layer.boolean_or("pre_norm", shape.pre_norm);
  shape.gated = layer.boolean_or("gated", shape.gated);
  shape.qkv_bias = layer.boolean_or("qkv_bias", shape.qkv_bias);
  shape.output_bias = layer.boolean_or("output_bias", shape.output_bias);
  shape.mlp_bias = layer.boolean_or("mlp_bias", shape.mlp_bias);
  shape.causal = layer.boolean_or("causal", shape.causal);
  shape.rotary = layer.boolean_or("rotary", shape.rotary);
  if (shape.rotary) shape.angles = listed_angles(layer);
  shape.qk_norm = layer.boolean_or("qk_norm", shape.qk_norm);
  shape.parallel = layer.boolean_or("parallel", shape.parallel);
  shape.attention_dropout = layer.number_or("attention_dropout", 0, 0, 0.999);
  shape.residual_dropout = layer.number_or("residual_dropout", 0, 0, 0.999);
  read_later_words(layer, shape);
  return shape;
}

std::string to_layer_list(const Model& given) {
  Model model = given;
  set_prediction(model, 0);  // a plan's
  refuse_wordless(model);
  std::string text = fmt::format(
      "{{\n  \"schema\": \"weir.layers/1\",\n  \"name\": {},\n  \"seq_length\": {},\n"
      "  \"initializer_range\": {},\n  \"layers\": [",
      Json(model.name).dump(), model.seq_length, Json(model.initializer_range).dump());
  for (std::size_t first = 0, next = 0; first < model.layers.size(); first = next) {
    const Layer& layer = model.layers[first];
    const Json shape = std::visit(Entry{}, layer.shape);
    for (next = first + 1; next < model.layers.size(); ++next) {
      const Layer& other = model.layers[next];
      if (stem(other.name) != stem(layer.name) || std::visit(Entry{}, other.shape) != shape) break;
    }
    Json entry{{"name", next - first > 1 ? stem(layer.name) : layer.name}};
    entry.update(shape);
    if (!layer.label.empty()) entry["label"] = layer.label;
    if (next - first > 1) entry["count"] = next - first;
    text += fmt::format("{}\n    {}", first == 0 ? "" : ",", entry.dump());
  }
  return text + "\n  ]\n}\n";
}

}  // namespace weir
