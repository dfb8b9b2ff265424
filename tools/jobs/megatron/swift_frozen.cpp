// ms-swift freezes parameters by the beginnings of their names: first a share of all, then those
// that are named, and trains again what is named for that (modelscope/ms-swift@3602360a5, swift/
// megatron/utils/utils.py, prepare_mcore_model; utils/transformers_utils.py, freeze_parameters).
// Names are Megatron-Core's, whose blocks are numbered from each stage's first.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "plan/text/cells.hpp"
#include "plan/text/words_of.hpp"
#include "plan/words/error.hpp"
#include "tools/jobs/job/truth.hpp"
#include "tools/jobs/megatron/post_adapters.hpp"

namespace weir {
namespace {

constexpr std::string_view kBlocks = "decoder.layers.";

struct NamedLayer {
  std::vector<std::string> parameters;
  bool block = false;  // whose one name is the beginning of all of its parameters'
};

std::vector<NamedLayer> named_layers(const Model& model, bool tied) {
  std::vector<NamedLayer> all;
  int blocks = 0;
  for (const Layer& layer : model.layers) {
    NamedLayer& named = all.emplace_back();
    if (const auto* embedding = std::get_if<EmbeddingShape>(&layer.shape)) {
      named.parameters.emplace_back("embedding.word_embeddings.weight");
      if (embedding->positions > 0)
        named.parameters.emplace_back("embedding.position_embeddings.weight");
    } else if (std::holds_alternative<TransformerShape>(layer.shape)) {
      named = {{fmt::format("{}{}.", kBlocks, blocks++)}, true};
    } else if (const auto* norm = std::get_if<NormShape>(&layer.shape)) {
      named.parameters.emplace_back("decoder.final_layernorm.weight");
      if (norm->kind == NormKind::layer_norm)
        named.parameters.emplace_back("decoder.final_layernorm.bias");
    } else if (!tied) {
      named.parameters.emplace_back("output_layer.weight");
    }
  }
  return all;
}

class Swift {
 public:
  Swift(PostTrainerValues& values, const std::string& file) : values_(values), file_(file) {}

  // Empty where nothing is said.
  std::string take(const char* name) {
    auto given = values_.extract(name);
    const std::string value = given ? given.mapped() : "";
    return value == "None" || value == "null" || value == "[]" ? "" : value;
  }
  [[noreturn]] void fail(std::string_view name, const std::string& message) const {
    throw InputError(file_, fmt::format("--{}", name), message);
  }
  // Megatron's reader says what is wrong with a number.
  [[nodiscard]] std::int64_t number(const char* name) const {
    const auto found = values_.find(name);
    return found == values_.end() ? 0 : whole_number<std::int64_t>(found->second).value_or(0);
  }

  // All or none of the parameters.
  bool takes_all() {
    constexpr const char* kRatio = "freeze-parameters-ratio";
    const std::string said = take(kRatio);
    const auto ratio = said.empty() ? 0.0 : whole_number<double>(said);
    if (!ratio || !(*ratio >= 0 && *ratio <= 1))
      fail(kRatio, fmt::format("{}: expected a share from 0 to 1", said.substr(0, 40)));
    if (*ratio > 0 && *ratio < 1) {
      fail(kRatio, fmt::format("{}: a share of the parameters ends within a layer, and a plan's "
                               "frozen layers are whole: expected 0 or 1, or --freeze_parameters",
                               said.substr(0, 40)));
    }
    return *ratio == 1;
  }

  // Sets all layers whose parameters begin so.
  void set(const char* name, const std::vector<NamedLayer>& layers, bool to,
           std::vector<bool>& frozen) {
    std::string beginnings = take(name);
    std::ranges::replace_if(
        beginnings, [](char c) { return c == ',' || c == '[' || c == ']' || c == '\''; }, ' ');
    for (const std::string& beginning : words_of(beginnings)) {
      bool found = false;
      for (std::size_t i = 0; i < layers.size(); ++i) {
        const NamedLayer& layer = layers[i];
        const auto begins = std::ranges::count_if(
            layer.parameters, [&](const std::string& one) { return one.starts_with(beginning); });
        const bool within =
            layer.block && begins == 0 && beginning.starts_with(layer.parameters.front());
        if (within || (begins > 0 && static_cast<std::size_t>(begins) < layer.parameters.size()))
          fail(name, fmt::format("{}: a part of a layer, and a plan's frozen layers are whole",
                                 beginning.substr(0, 60)));
        if (begins == 0) continue;
        frozen[i] = to;
        found = true;
      }
      if (!found) {
        fail(name, fmt::format("{}: begins no parameter of a language model: expected embedding., "
                               "decoder.layers.0. and its like, decoder.final_layernorm. or "
                               "output_layer.",
                               beginning.substr(0, 60)));
      }
      const bool one_block = beginning.size() > kBlocks.size() && beginning.starts_with(kBlocks);
      if (one_block && number("pipeline-model-parallel-size") > 1) {
        fail(name, fmt::format("{}: blocks are numbered from each stage's first there: expected no "
                               "pipeline beside it",
                               beginning.substr(0, 60)));
      }
    }
  }

 private:
  PostTrainerValues& values_;
  const std::string& file_;
};

// Of models with more than language, whose other parts no plan has.
void take_parts(Swift& swift, std::vector<Remark>& remarks) {
  if (says_true(swift.take("freeze-llm"))) {
    swift.fail("freeze-llm",
               "true: trains what of a multimodal model is no language model, which is not "
               "modelled");
  }
  for (const char* name : {"freeze-vit", "freeze-aligner"}) {
    if (says_false(swift.take(name))) {
      remarks.push_back({name,
                         "false: what of a multimodal model is no language model is not in the "
                         "plan"});
    }
  }
}

std::vector<LayerRange> ranges_of(const std::vector<bool>& frozen) {
  std::vector<LayerRange> ranges;
  for (int i = 0; i < static_cast<int>(frozen.size()); ++i) {
    if (!frozen[static_cast<std::size_t>(i)]) continue;
    if (ranges.empty() || ranges.back().last != i) ranges.push_back({i, i});
    ranges.back().last = i + 1;
  }
  return ranges;
}

}  // namespace

std::vector<LayerRange> take_swift_frozen(PostTrainerValues& values, const Model& model,
                                          bool adapters, const std::string& file,
                                          std::vector<Remark>& remarks) {
  constexpr std::array<const char*, 5> kWords{"freeze-parameters", "trainable-parameters",
                                              "freeze-parameters-ratio", "freeze-parameters-regex",
                                              "trainable-parameters-regex"};
  Swift swift(values, file);
  take_parts(swift, remarks);
  if (adapters) {
    for (const char* word : kWords) {
      const std::string said = swift.take(word);
      if (said.empty() || said == "0") continue;
      remarks.push_back({word, fmt::format("{}: without effect beside adapters, which alone are "
                                           "trained",
                                           said.substr(0, 40))});
    }
    return {};
  }
  for (const char* regex : {"freeze-parameters-regex", "trainable-parameters-regex"}) {
    if (!swift.take(regex).empty())
      swift.fail(regex,
                 "regular expressions are not followed: expected beginnings of names, "
                 "--freeze_parameters and --trainable_parameters");
  }
  const auto* head = std::get_if<HeadShape>(&model.layers.back().shape);
  const bool tied = head != nullptr && head->tied;
  // Of a pipeline the last stage has a copy by the head's own name.
  const bool shared = tied && swift.number("pipeline-model-parallel-size") <= 1;
  const std::vector<NamedLayer> layers = named_layers(model, shared);
  std::vector<bool> frozen(layers.size(), swift.takes_all());
  swift.set("freeze-parameters", layers, true, frozen);
  swift.set("trainable-parameters", layers, false, frozen);
  if (shared) frozen.back() = frozen.front();
  if (tied && frozen.back() != frozen.front()) {
    swift.fail("freeze-parameters",
               "leaves of a weight that two stages share one copy frozen: expected embedding. and "
               "output_layer. both or neither");
  }
  if (std::ranges::find(frozen, false) == frozen.end())
    swift.fail("freeze-parameters", "leaves nothing to train");
  if (std::ranges::find(frozen, true) != frozen.end() && swift.number("mtp-num-layers") > 0)
    swift.fail("freeze-parameters", "beside --mtp_num_layers it is not read");
  return ranges_of(frozen);
}

}  // namespace weir
