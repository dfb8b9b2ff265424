// The table of families: a new one is a reader under plan/model/hugging_face/ and a row of
// `kFamilies`.
// SPDX-License-Identifier: Apache-2.0
#include "plan/model/hugging_face/hugging_face.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "plan/model/hugging_face/families.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

// "3 unknown keys ignored: a, b, c", the first of many.
std::string ignored(const std::vector<std::string>& keys) {
  constexpr std::size_t kMost = 12;
  const std::size_t named = std::min(keys.size(), kMost);
  std::string line =
      fmt::format("{} unknown key{} ignored: {}", keys.size(), keys.size() == 1 ? "" : "s",
                  fmt::join(keys.begin(), keys.begin() + named, ", "));
  if (named < keys.size()) line += fmt::format(" and {} more", keys.size() - named);
  return line;
}

constexpr std::int64_t kLongestDefault = 8192;  // longer contexts must be asked for

struct Family {
  std::string_view type;
  Model (*read)(JsonObject&);
};
constexpr std::array<Family, 23> kFamilies{{{"gpt2", gpt2_model},
                                            {"llama", llama_model},
                                            {"mistral", mistral_model},
                                            {"mixtral", mixtral_model},
                                            {"qwen2", qwen2_model},
                                            {"qwen2_moe", qwen2_moe_model},
                                            {"qwen3", qwen3_model},
                                            {"qwen3_moe", qwen3_moe_model},
                                            {"deepseek_v2", deepseek_v2_model},
                                            {"deepseek_v3", deepseek_v3_model},
                                            {"kimi_k2", deepseek_v3_model},
                                            {"gpt_oss", gpt_oss_model},
                                            {"gemma", gemma_model},
                                            {"gemma2", gemma2_model},
                                            {"gemma3_text", gemma3_model},
                                            {"phi", phi_model},
                                            {"bloom", bloom_model},
                                            {"gpt_bigcode", gpt_bigcode_model},
                                            {"opt", opt_model},
                                            {"gpt_neox", gpt_neox_model},
                                            {"bert", bert_model},
                                            {"t5", t5_model},
                                            {"vit", vit_model}}};

}  // namespace

Model hugging_face_model(const Json& json, const std::string& file) {
  JsonObject config(json, file, "");
  const std::string type = config.text("model_type");
  const auto family =
      std::ranges::find_if(kFamilies, [&](const Family& f) { return f.type == type; });
  if (family == kFamilies.end()) {
    std::string known;
    for (const Family& f : kFamilies) known += (known.empty() ? "" : ", ") + std::string(f.type);
    config.fail("model_type",
                fmt::format("unknown family \"{}\"; known: {}", type.substr(0, 40), known));
  }
  Model model = family->read(config);
  model.family = type;
  if (model.seq_length == 0 && model.max_positions <= kLongestDefault)
    model.seq_length = model.max_positions;
  // These say what a config is, not what its model computes.
  static_cast<void>(config.text_or("torch_dtype", ""));
  if (config.has("architectures")) static_cast<void>(config.at("architectures"));
  const std::vector<std::string> unread = config.unread();
  model.ignored_keys = static_cast<int>(unread.size());
  if (!unread.empty()) model.remarks.push_back(ignored(unread));
  return model;
}

}  // namespace weir
