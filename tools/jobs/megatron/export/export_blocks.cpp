// Holds every block to the first of its kind, and the two kinds to each other.
// SPDX-License-Identifier: Apache-2.0
#include "tools/jobs/megatron/export/export_blocks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "plan/model/readers/layer_list.hpp"
#include "plan/text/strict_json.hpp"
#include "plan/words/error.hpp"

namespace weir {
namespace {

constexpr const char* kOwnScript = "(--patch changes a script of yours that has them)";

// Words of a layer list that arguments of experts say, and none of dense blocks.
constexpr std::array<std::string_view, 9> kOfExperts{
    "ffn",        "experts",     "experts_per_token",  "expert_groups", "groups_per_token",
    "shared_ffn", "shared_gate", "router_pre_softmax", "router_bias"};

// In what two blocks differ, by a layer list's words: it says everything a shape does.
std::vector<std::string> differing_words(const TransformerShape& a, const TransformerShape& b) {
  if (a == b) return {};
  Model both;
  both.layers = {{"a", a, ""}, {"b", b, ""}};
  const Json layers = parse_json(to_layer_list(both), "").at("layers");
  std::vector<std::string> words;
  for (const auto& [word, value] : layers[0].items()) {
    const bool same = layers[1].contains(word) && layers[1][word] == value;
    if (!same && word != "name") words.push_back(word);
  }
  // Some words stand in a list only where they say something.
  for (const auto& [word, value] : layers[1].items()) {
    if (!layers[0].contains(word)) words.push_back(word);
  }
  return words;
}

// A kind of block by the first that is of it.
struct FirstOfKind {
  const TransformerShape* block = nullptr;
  std::int64_t at = 0;
};

class KindsOfBlocks {
 public:
  explicit KindsOfBlocks(const std::string& model_path) : model_path_(model_path) {}

  void add(const TransformerShape& block, std::int64_t at) {
    FirstOfKind& first = block.experts > 1 ? sparse_ : dense_;
    if (first.block == nullptr) first = {&block, at};
    refuse(differing_words(*first.block, block), first.at, at);
  }
  // To be asked once all blocks are there.
  void require_one_but_for_experts() const {
    if (!mixed()) return;
    std::vector<std::string> words = differing_words(*dense_.block, *sparse_.block);
    std::erase_if(words, [](const std::string& word) {
      return std::ranges::find(kOfExperts, word) != kOfExperts.end();
    });
    refuse(words, std::min(dense_.at, sparse_.at), std::max(dense_.at, sparse_.at));
  }
  [[nodiscard]] bool mixed() const { return dense_.block != nullptr && sparse_.block != nullptr; }
  [[nodiscard]] const TransformerShape& block() const {
    return sparse_.block != nullptr ? *sparse_.block : *dense_.block;
  }
  [[nodiscard]] std::int64_t dense_ffn() const { return mixed() ? dense_.block->ffn : 0; }

 private:
  void refuse(const std::vector<std::string>& words, std::int64_t first, std::int64_t other) const {
    if (words.empty()) return;
    throw InputError(model_path_, "layers",
                     fmt::format("blocks {} and {} differ in {}: there they differ in being dense "
                                 "or of experts alone {}",
                                 first, other, fmt::join(words, ", "), kOwnScript));
  }

  const std::string& model_path_;
  FirstOfKind dense_, sparse_;
};

}  // namespace

MegatronBlocks megatron_blocks(const ResolvedPlan& loaded) {
  Model model = loaded.model;
  set_prediction(model, 0);  // the plan's, and like the last block
  const std::string& path = loaded.plan.model_path;
  if (!is_language_model(model)) {
    throw InputError(path, "layers",
                     fmt::format("expected an embedding, blocks, a norm and a head: other models "
                                 "have no arguments there {}",
                                 kOwnScript));
  }
  const std::size_t layers = model.layers.size();
  KindsOfBlocks kinds(path);
  std::vector<bool> sparse;
  for (std::size_t l = 1; l + 2 < layers; ++l) {
    const auto& block = std::get<TransformerShape>(model.layers[l].shape);
    kinds.add(block, std::ssize(sparse));
    sparse.push_back(block.experts > 1);
  }
  kinds.require_one_but_for_experts();
  MegatronBlocks blocks{
      .decoder = {.embedding = std::get<EmbeddingShape>(model.layers.front().shape),
                  .block = kinds.block(),
                  .blocks = std::ssize(sparse),
                  .norm = std::get<NormShape>(model.layers[layers - 2].shape),
                  .head = std::get<HeadShape>(model.layers.back().shape)},
      .dense_ffn = kinds.dense_ffn()};
  require_words(blocks.decoder, path);
  if (kinds.mixed()) blocks.sparse = std::move(sparse);
  return blocks;
}

std::string layer_frequencies(const std::vector<bool>& sparse) {
  std::vector<std::string> runs;
  for (auto first = sparse.begin(); first != sparse.end();) {
    const auto next = std::find(first, sparse.end(), !*first);
    runs.push_back(fmt::format("[{}]*{}", *first ? 1 : 0, next - first));
    first = next;
  }
  return fmt::format("({})", fmt::join(runs, "+"));
}

}  // namespace weir
