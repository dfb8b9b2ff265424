// Names by family, and numbers from one layout to the other.
// SPDX-License-Identifier: Apache-2.0
#include "exec/weights/weight_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "plan/words/error.hpp"

namespace weir {
namespace {

// A tensor by its place in the model: "block", 3, "mlp.up.weight".
struct NamedPlace {
  std::string_view layer;  // "embedding", "block", "norm" or "head"
  std::string index;       // of a block
  std::string_view tensor;
  std::int64_t rows = 0;
  const TransformerShape* block = nullptr;
  const HeadShape* head = nullptr;
};

using Words = std::pair<std::string_view, std::string_view>;

// Of a table of words the one that begins `tensor`, with what stands behind it: of "mlp.up.weight",
// "mlp.up" becomes `to`, and ".weight" stays.
template <std::size_t N>
std::string translated(std::string_view tensor, const std::array<Words, N>& table) {
  for (const auto& [from, to] : table) {
    if (tensor.starts_with(from)) return std::string(to) + std::string(tensor.substr(from.size()));
  }
  return {};
}

NamedRows whole(std::string name, const NamedPlace& place) {
  return {std::move(name), 0, place.rows};
}

// transformers' GPT2LMHeadModel. Products are Conv1D, which keeps [in, out].
std::vector<NamedRows> gpt2_rows(const NamedPlace& place) {
  static constexpr std::array<Words, 8> kBlock{{{"attention.norm.gain", "ln_1.weight"},
                                                {"attention.norm.shift", "ln_1.bias"},
                                                {"attention.qkv", "attn.c_attn"},
                                                {"attention.output", "attn.c_proj"},
                                                {"mlp.norm.gain", "ln_2.weight"},
                                                {"mlp.norm.shift", "ln_2.bias"},
                                                {"mlp.up", "mlp.c_fc"},
                                                {"mlp.down", "mlp.c_proj"}}};
  static constexpr std::array<Words, 5> kOthers{{{"token", "transformer.wte.weight"},
                                                 {"position", "transformer.wpe.weight"},
                                                 {"norm.gain", "transformer.ln_f.weight"},
                                                 {"norm.shift", "transformer.ln_f.bias"},
                                                 {"weight", "lm_head.weight"}}};
  if (place.block == nullptr) return {whole(translated(place.tensor, kOthers), place)};
  const std::string name = translated(place.tensor, kBlock);
  // Only products are transposed: a norm's gain and a bias have one dimension.
  const bool product = !name.starts_with("ln_") && name.ends_with(".weight");
  NamedRows all = whole("transformer.h." + place.index + "." + name, place);
  all.transposed = product;
  return {all};
}

constexpr std::string_view kQkv = "attention.qkv";

// Queries, keys and values as three tensors behind `before`.
using Three = std::array<std::string_view, 3>;
constexpr Three kProjections{"q_proj", "k_proj", "v_proj"};
std::vector<NamedRows> qkv_rows(const std::string& before, const NamedPlace& place,
                                const Three& names = kProjections) {
  const std::int64_t query = place.block->heads * place.block->head_dim;
  const std::int64_t key = place.block->kv_heads * place.block->head_dim;
  const std::string behind(place.tensor.substr(kQkv.size()));
  const auto name = [&](std::size_t i) { return before + std::string(names[i]) + behind; };
  return {{name(0), 0, query}, {name(1), query, key}, {name(2), query + key, key}};
}

// transformers' OPTForCausalLM. Its position table begins with two rows that only padding reads,
// and token t of a sample reads row t + 2; ours begins with the first that is read.
std::vector<NamedRows> opt_rows(const NamedPlace& place) {
  static constexpr std::array<Words, 7> kBlock{
      {{"attention.norm.gain", "self_attn_layer_norm.weight"},
       {"attention.norm.shift", "self_attn_layer_norm.bias"},
       {"attention.output", "self_attn.out_proj"},
       {"mlp.norm.gain", "final_layer_norm.weight"},
       {"mlp.norm.shift", "final_layer_norm.bias"},
       {"mlp.up", "fc1"},
       {"mlp.down", "fc2"}}};
  static constexpr std::array<Words, 4> kOthers{
      {{"token", "model.decoder.embed_tokens.weight"},
       {"norm.gain", "model.decoder.final_layer_norm.weight"},
       {"norm.shift", "model.decoder.final_layer_norm.bias"},
       {"weight", "lm_head.weight"}}};
  constexpr std::int64_t kPadding = 2;
  if (place.tensor == "position") {
    const std::string name = "model.decoder.embed_positions.weight";
    // What padding reads comes behind the rows of ours that tokens read.
    const std::int64_t read = place.rows - kPadding;
    return {{name, 0, read, kPadding}, {name, read, kPadding, 0}};
  }
  if (place.block == nullptr) return {whole(translated(place.tensor, kOthers), place)};
  const std::string before = "model.decoder.layers." + place.index + ".";
  if (place.tensor.starts_with(kQkv)) return qkv_rows(before + "self_attn.", place);
  return {whole(before + translated(place.tensor, kBlock), place)};
}

// transformers' LlamaForCausalLM, and Mistral's, Qwen2's and Qwen3's. A gated MLP's first half is
// what the activation reads.
std::vector<NamedRows> llama_rows(const NamedPlace& place) {
  static constexpr std::array<Words, 6> kBlock{
      {{"attention.norm.gain", "input_layernorm.weight"},
       {"attention.query.norm.gain", "self_attn.q_norm.weight"},
       {"attention.key.norm.gain", "self_attn.k_norm.weight"},
       {"attention.output", "self_attn.o_proj"},
       {"mlp.norm.gain", "post_attention_layernorm.weight"},
       {"mlp.down", "mlp.down_proj"}}};
  static constexpr std::array<Words, 3> kOthers{{{"token", "model.embed_tokens.weight"},
                                                 {"norm.gain", "model.norm.weight"},
                                                 {"weight", "lm_head.weight"}}};
  constexpr std::string_view kUp = "mlp.up";
  if (place.block == nullptr) return {whole(translated(place.tensor, kOthers), place)};
  const std::string before = "model.layers." + place.index + ".";
  if (place.tensor.starts_with(kQkv)) return qkv_rows(before + "self_attn.", place);
  if (place.tensor.starts_with(kUp)) {
    const std::string behind(place.tensor.substr(kUp.size()));
    // Gate and up are one product here and two tensors in the file.
    const std::int64_t half = place.rows / 2;
    return {{before + "mlp.gate_proj" + behind, 0, half},
            {before + "mlp.up_proj" + behind, half, half}};
  }
  return {whole(before + translated(place.tensor, kBlock), place)};
}

// transformers' BertForMaskedLM. A head of its own has a bias of its own, a tied one that of the
// predictions.
std::vector<NamedRows> bert_rows(const NamedPlace& place) {
  static constexpr std::array<Words, 7> kBlock{
      {{"attention.norm.gain", "attention.output.LayerNorm.weight"},
       {"attention.norm.shift", "attention.output.LayerNorm.bias"},
       {"attention.output", "attention.output.dense"},
       {"mlp.norm.gain", "output.LayerNorm.weight"},
       {"mlp.norm.shift", "output.LayerNorm.bias"},
       {"mlp.up", "intermediate.dense"},
       {"mlp.down", "output.dense"}}};
  static constexpr std::array<Words, 5> kEmbedding{{{"token_type", "token_type_embeddings.weight"},
                                                    {"token", "word_embeddings.weight"},
                                                    {"position", "position_embeddings.weight"},
                                                    {"norm.gain", "LayerNorm.weight"},
                                                    {"norm.shift", "LayerNorm.bias"}}};
  static constexpr std::array<Words, 4> kHead{{{"dense.norm.gain", "transform.LayerNorm.weight"},
                                               {"dense.norm.shift", "transform.LayerNorm.bias"},
                                               {"dense", "transform.dense"},
                                               {"weight", "decoder.weight"}}};
  if (place.head != nullptr) {
    const std::string bias = place.head->tied ? "bias" : "decoder.bias";
    const std::string name = place.tensor == "bias" ? bias : translated(place.tensor, kHead);
    return {whole("cls.predictions." + name, place)};
  }
  if (place.block == nullptr)
    return {whole("bert.embeddings." + translated(place.tensor, kEmbedding), place)};
  const std::string before = "bert.encoder.layer." + place.index + ".";
  if (place.tensor.starts_with(kQkv))
    return qkv_rows(before + "attention.self.", place, {"query", "key", "value"});
  return {whole(before + translated(place.tensor, kBlock), place)};
}

// transformers' ViTForImageClassification.
std::vector<NamedRows> vit_rows(const NamedPlace& place) {
  static constexpr std::array<Words, 7> kBlock{{{"attention.norm.gain", "layernorm_before.weight"},
                                                {"attention.norm.shift", "layernorm_before.bias"},
                                                {"attention.output", "attention.output.dense"},
                                                {"mlp.norm.gain", "layernorm_after.weight"},
                                                {"mlp.norm.shift", "layernorm_after.bias"},
                                                {"mlp.up", "intermediate.dense"},
                                                {"mlp.down", "output.dense"}}};
  static constexpr std::array<Words, 5> kOthers{
      {{"class_token", "embeddings.cls_token"},
       {"patch", "embeddings.patch_embeddings.projection"},
       {"position", "embeddings.position_embeddings"},
       {"norm.gain", "layernorm.weight"},
       {"norm.shift", "layernorm.bias"}}};
  if (place.head != nullptr) return {whole("classifier." + std::string(place.tensor), place)};
  if (place.block == nullptr) return {whole("vit." + translated(place.tensor, kOthers), place)};
  const std::string before = "vit.encoder.layer." + place.index + ".";
  if (place.tensor.starts_with(kQkv))
    return qkv_rows(before + "attention.attention.", place, {"query", "key", "value"});
  return {whole(before + translated(place.tensor, kBlock), place)};
}

// torchvision's resnet: layers are called as there, but for the stem, which has no name of its own.
// Running means and variances are two tensors of a file.
std::vector<NamedRows> cnn_rows(const NamedPlace& place) {
  constexpr std::string_view kRunning = ".running";
  const std::string before = place.layer == "stem" ? "" : std::string(place.layer) + ".";
  std::string name = before + std::string(place.tensor);
  if (!place.tensor.ends_with(kRunning)) return {whole(std::move(name), place)};
  const std::int64_t channels = place.rows / 2;
  return {{name + "_mean", 0, channels}, {name + "_var", channels, channels}};
}

struct Family {
  std::string_view name;
  std::string_view base;  // base_prefix
  std::vector<NamedRows> (*rows)(const NamedPlace&);
};
constexpr std::array<Family, 9> kFamilies{{{"gpt2", "transformer.", gpt2_rows},
                                           {"opt", "model.", opt_rows},
                                           {"llama", "model.", llama_rows},
                                           {"mistral", "model.", llama_rows},
                                           {"qwen2", "model.", llama_rows},
                                           {"qwen3", "model.", llama_rows},
                                           {"bert", "bert.", bert_rows},
                                           {"vit", "vit.", vit_rows},
                                           {"cnn", "", cnn_rows}}};

const Family* family_of(const Model& model) {
  const auto* found = std::ranges::find(kFamilies, model.family, &Family::name);
  if (found != kFamilies.end()) return found;
  if (model.family == "layers") return nullptr;  // its own names
  throw MissingComponent(
      fmt::format("{}: what weights of the family {} are called in files is not known", model.name,
                  model.family));
}

// visit(place in the file's tensor, place in ours) for each number of it.
template <class Visit>
void for_each_number(const TensorShape& tensor, std::span<const NamedRows> rows,
                     const ParameterTensor& parameter, Visit visit) {
  const std::int64_t columns = parameter.elements() / parameter.shape.front();
  for (const NamedRows& part : rows) {
    if (part.name != tensor.name) continue;
    for (std::int64_t r = 0; r < part.rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) {
        const std::int64_t in_file =
            part.transposed ? c * part.rows + r : (part.file_row + r) * columns + c;
        const std::int64_t own = (part.row + r) * columns + c;
        visit(static_cast<std::size_t>(in_file), static_cast<std::size_t>(own));
      }
    }
  }
}

}  // namespace

std::string own_name(const Model& model, int layer, const ParameterTensor& parameter) {
  return model.layers[static_cast<std::size_t>(layer)].name + "." + parameter.name;
}

std::vector<NamedRows> named_rows(const Model& model, int layer, const ParameterTensor& parameter) {
  const Family* family = family_of(model);
  if (family == nullptr) return {{own_name(model, layer, parameter), 0, parameter.shape.front()}};
  const Layer& of = model.layers[static_cast<std::size_t>(layer)];
  NamedPlace place{of.name,
                   {},
                   parameter.name,
                   parameter.shape.front(),
                   std::get_if<TransformerShape>(&of.shape),
                   std::get_if<HeadShape>(&of.shape)};
  if (place.block != nullptr) place.index = of.name.substr(of.name.rfind('.') + 1);
  return family->rows(place);
}

std::string base_prefix(const Model& model) {
  const Family* family = family_of(model);
  return family == nullptr ? "" : std::string(family->base);
}

bool is_no_weight(const std::string& name) {
  // What BERT was trained with beside its masked tokens, copies of what its head has, and the bare
  // models' poolers.
  const bool of_encoders = name.starts_with("bert.pooler.") || name.starts_with("vit.pooler.") ||
                           name.starts_with("pooler.") ||
                           name.starts_with("cls.seq_relationship.") ||
                           name.starts_with("cls.predictions.") || name.ends_with(".position_ids");
  return of_encoders || name == "lm_head.weight" || name.ends_with(".num_batches_tracked") ||
         name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

std::string older_name(const std::string& name) {
  // BERT's, which were converted from TensorFlow's.
  static constexpr std::array<Words, 2> kNorms{
      {{".LayerNorm.weight", ".LayerNorm.gamma"}, {".LayerNorm.bias", ".LayerNorm.beta"}}};
  for (const auto& [now, then] : kNorms) {
    if (name.ends_with(now)) return name.substr(0, name.size() - now.size()) + std::string(then);
  }
  return name;
}

std::vector<TensorShape> file_shapes(std::span<const NamedRows> rows,
                                     const ParameterTensor& parameter) {
  std::vector<TensorShape> shapes;
  for (const NamedRows& part : rows) {
    auto same = std::ranges::find(shapes, part.name, &TensorShape::name);
    if (same == shapes.end()) {
      shapes.push_back({part.name, parameter.shape});
      same = shapes.end() - 1;
      same->shape.front() = 0;
    }
    same->shape.front() += part.rows;
    if (part.transposed) std::swap(same->shape.front(), same->shape.back());
  }
  return shapes;
}

std::vector<float> to_file(const TensorShape& tensor, std::span<const NamedRows> rows,
                           const ParameterTensor& parameter, std::span<const float> values) {
  std::size_t elements = 1;
  for (const std::int64_t size : tensor.shape) elements *= static_cast<std::size_t>(size);
  std::vector<float> file(elements);
  for_each_number(tensor, rows, parameter,
                  [&](std::size_t in_file, std::size_t own) { file[in_file] = values[own]; });
  return file;
}

void from_file(const TensorShape& tensor, std::span<const NamedRows> rows,
               const ParameterTensor& parameter, std::span<const float> file,
               std::span<float> values) {
  for_each_number(tensor, rows, parameter,
                  [&](std::size_t in_file, std::size_t own) { values[own] = file[in_file]; });
}

}  // namespace weir
