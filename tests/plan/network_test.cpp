// Networks in layout files: what is written reads back, and what is not one is refused with its
// key.
// SPDX-License-Identifier: Apache-2.0
#include "plan/layout/network.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "plan/layout/megatron_cut.hpp"
#include "plan/layout/mesh_factors.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_json.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/layout/read.hpp"
#include "plan/model/readers/model_import.hpp"
#include "tests/plan/complaint.hpp"

namespace weir::network_test {
namespace {

using layout::LayoutFile;
using layout::parse_layouts;
using testing::HasSubstr;

TEST(NetworkFiles, WhatIsWrittenReadsBack) {
  for (const char* name : {"gpt2", "llama-3-8b", "mixtral-8x7b", "pythia-160m"}) {
    const Model model = load_model(std::filesystem::path(WEIR_SOURCE_DIR) /
                                   "tools/examples/models" / (std::string(name) + ".json"));
    const layout::Network network = layout::model_network(
        model, {.seq_length = 128, .batch = 8, .vocabulary_of = 16, .experts_apart = true});
    const auto layout = layout::megatron_layout(network, {2, 4, 1, true});
    const std::string text = to_json(network, {layout});
    const LayoutFile read = parse_layouts(text, "written");
    ASSERT_TRUE(read.network);
    EXPECT_EQ(to_json(*read.network, read.network_layouts), text) << name;
  }
}

// The examples too: steps over time, and layers that name what they read.
TEST(NetworkFiles, ExamplesReadBack) {
  for (const char* name : {"transformer-lm", "recurrent", "dag", "experts"}) {
    const LayoutFile read =
        layout::load_layouts(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/layouts" /
                             (std::string(name) + ".json"));
    ASSERT_TRUE(read.network) << name;
    const std::string text = to_json(*read.network, read.network_layouts);
    const LayoutFile again = parse_layouts(text, "written");
    EXPECT_EQ(to_json(*again.network, again.network_layouts), text) << name;
    for (std::size_t l = 0; l < read.network->layers.size(); ++l)
      EXPECT_EQ(sources_of(*again.network, again.network->layers[l]),
                sources_of(*read.network, read.network->layers[l]));
  }
}

// 4 as a product of two is 1 4, 2 2 and 4 1. Rules of a mesh d, m on one of which d has size 1:
// what was split over d is whole, and m, now the first, keeps its own.
TEST(MeshFactors, InOrderAndWithoutOnes) {
  using Factors = std::vector<std::vector<std::int64_t>>;
  EXPECT_EQ(layout::ordered_factors(4, 2), (Factors{{1, 4}, {2, 2}, {4, 1}}));
  EXPECT_EQ(layout::ordered_factors(1, 0), Factors{{}});
  EXPECT_EQ(layout::ordered_factors(2, 0), Factors{});
  const layout::NetworkLayout both{"both", {{"d", "d", 2}, {"m", "m", 2}}, {0b01, 0b10, 0b11}};
  const layout::NetworkLayout one = on_mesh(both, {{"d", "d", 1}, {"m", "m", 4}});
  ASSERT_EQ(one.mesh.size(), 1U);
  EXPECT_EQ(one.mesh[0].size, 4);
  EXPECT_EQ(one.over, (std::vector<layout::Axes>{0, 1, 1}));
  // In another order each keeps its own, too.
  const layout::NetworkLayout turned = on_mesh(both, {{"m", "m", 2}, {"d", "d", 2}});
  EXPECT_EQ(turned.over, (std::vector<layout::Axes>{0b10, 0b01, 0b11}));
  // What is kept of weights goes along.
  layout::NetworkLayout shared = both;
  shared.optimizer = shared.gradients = 0b01;
  EXPECT_EQ(on_mesh(shared, {{"m", "m", 2}, {"d", "d", 2}}).optimizer, 0b10U);
  EXPECT_EQ(on_mesh(shared, {{"m", "m", 4}, {"d", "d", 1}}).gradients, 0U);
}

// Megatron's cut, and back from its layout; whatever is not it is named.
TEST(MegatronCuts, AreFoundInTheirLayouts) {
  for (const char* name : {"llama-3-8b", "mixtral-8x7b"}) {
    const Model model = load_model(std::filesystem::path(WEIR_SOURCE_DIR) /
                                   "tools/examples/models" / (std::string(name) + ".json"));
    for (const auto& [tp, dp, ep, rows] : {std::tuple{1, 1, 1, false},
                                           {4, 1, 1, false},
                                           {1, 8, 1, false},
                                           {4, 2, 1, true},
                                           {2, 8, 4, false},
                                           {2, 4, 4, true}}) {
      const bool experts = has_experts(model);
      if (ep > 1 && !experts) continue;
      const layout::Network network = layout::model_network(
          model, {.seq_length = 128, .batch = 8, .vocabulary_of = 16, .experts_apart = ep > 1});
      const auto layout = layout::megatron_layout(network, {tp, dp, ep, rows});
      const layout::MegatronCut cut = layout::megatron_cut(network, layout);
      EXPECT_EQ(std::tuple(cut.tp, cut.dp, cut.ep, cut.sequence_parallel),
                std::tuple(tp, dp, ep, rows));
    }
  }
  const Model model =
      load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models/llama-3-8b.json");
  const layout::Network network =
      layout::model_network(model, {.seq_length = 128, .batch = 8, .vocabulary_of = 16});
  // What is kept of weights, divided among the replicas, is a stage of ZeRO.
  for (const int zero : {0, 1, 2}) {
    const auto layout = layout::megatron_layout(network, {2, 4, 1, false, zero});
    EXPECT_EQ(layout::megatron_cut(network, layout).zero, zero);
    layout::NetworkLayout again{"", layout.mesh, {}};
    set_network_rules(rules_text(network, layout), network, again);
    EXPECT_EQ(std::tuple(again.over, again.optimizer, again.gradients),
              std::tuple(layout.over, layout.optimizer, layout.gradients));
  }
  const auto refusal = [&](const std::string& rules) {
    layout::NetworkLayout layout{"mine", {{"d", "d", 2}, {"m", "m", 2}}, {}};
    set_network_rules(rules, network, layout);
    try {
      static_cast<void>(layout::megatron_cut(network, layout));
    } catch (const std::invalid_argument& why) {
      return std::string(why.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal("batch:d,heads:m,ffn:m,vocab:m"), "");
  EXPECT_EQ(refusal("batch:d,heads:m,ffn:m"),
            "vocab is split over nothing, where Megatron's cut has it over m");
  EXPECT_EQ(refusal("batch:d,hidden:m"),
            "hidden is split over m, where Megatron's cut has it over nothing");
  EXPECT_EQ(refusal("batch:m,heads:d,ffn:d,vocab:d"),
            "mesh dimension d is not where Megatron's cut has it: tensor parallelism last, experts "
            "before it, replicas first");
  EXPECT_EQ(refusal("batch:d,heads:m,ffn:m,vocab:m,optimizer:m"),
            "the optimizer's numbers are split over m, where Megatron's cut has them over d");
  EXPECT_EQ(refusal("rows:d,heads:m,ffn:m,vocab:m"),
            "rows is split over d, where Megatron's cut has it over m");
}

const std::string kDimensions =
    R"("schema":"weir.layout/1","name":"n","dimensions":[{"name":"batch","size":8},
    {"name":"io","size":6},{"name":"hidden","size":16}],)";
std::string file(const std::string& tensors, const std::string& operations,
                 const std::string& rules = "") {
  return "{" + kDimensions + R"("layers":[{"name":"one","tensors":[)" + tensors +
         R"(],"operations":[)" + operations +
         R"(]}],"layouts":[{"name":"a","mesh":[{"name":"n","size":4}],"rules":")" + rules +
         R"("}]})";
}
std::string refusal(const std::string& text) {
  return complaint([&] { static_cast<void>(parse_layouts(text, "f")); });
}

// As a list's texts.
std::string quoted(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "\"" : ",\"") + text + "\"";
  return all;
}

const std::string kTensors =
    quoted({"x[batch, io]", "weight w[io, hidden]", "h[batch, hidden]", "a[batch, hidden]"});
const std::string kOperations = quoted({"h = x w", "a = gelu(h)"});

TEST(NetworkFiles, ALayerOfItsOwn) {
  const LayoutFile read = parse_layouts(file(kTensors, kOperations, "hidden:n"), "f");
  EXPECT_EQ(read.network->layers[0].input, 0);
  EXPECT_EQ(rules_text(*read.network, read.network_layouts[0]), "hidden:n");
}

TEST(NetworkFiles, WhatIsNoneIsRefusedWithItsKey) {
  const auto with = [](const std::vector<std::string>& operations) {
    return refusal(file(kTensors, quoted(operations)));
  };
  EXPECT_THAT(with({"h = x w", "a = swish(h)"}), HasSubstr("swish is none of weigh, gelu"));
  EXPECT_THAT(with({"h = x w", "a = norm(h)"}), HasSubstr("expected \"over\" and a dimension"));
  EXPECT_THAT(with({"h = x q", "a = gelu(h)"}), HasSubstr("no tensor of layer one is called q"));
  EXPECT_THAT(with({"a = gelu(h)", "h = x w"}), HasSubstr("h was used before"));
  EXPECT_THAT(with({"h = x w", "a = move(x)"}), HasSubstr("a move changes no size"));
  EXPECT_THAT(with({"h = x w", "a = add(x w)"}), HasSubstr("a summand has a dimension"));
  EXPECT_THAT(with({"h = x w"}), HasSubstr("nothing uses a"));
  EXPECT_THAT(refusal(file(quoted({"x[batch, oi]"}), kOperations)),
              HasSubstr("layers[0].tensors: x[batch, oi]: no dimension is called oi"));
}

// One kernel sums over a row's keys and the width of its queries, and over nothing else: what a
// softmax would be of if keys had another dimension is a sum, whose parts no exchange would add up.
TEST(NetworkFiles, AnAttentionSumsOverNothingElse) {
  const auto with = [](const char* q, const char* k, const char* v, const char* out) {
    layout::Network network{"n", {}, {}};
    for (const char* name : {"batch", "tokens", "keys", "width", "values", "more"})
      network.dimensions.push_back({name, name, 4});
    layout::NetworkLayer layer;
    for (const auto& [name, dimensions] :
         {std::pair("q", q), std::pair("k", k), std::pair("v", v), std::pair("o", out)})
      append_tensor(std::string(name) + dimensions, network, layer);
    try {
      append_operation("o = attention(q k v) over keys", network, layer);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const char *q = "[batch, tokens, width]", *k = "[batch, keys, width]",
             *v = "[batch, keys, values]", *out = "[batch, tokens, values]";
  // A head's values may have a width of their own, and keys be shared by all rows.
  EXPECT_EQ(with(q, k, v, out), "none");
  EXPECT_EQ(with(q, "[keys, width]", "[keys, values]", out), "none");
  EXPECT_THAT(with(q, "[batch, keys, more, width]", "[batch, keys, more, values]",
                   "[batch, tokens, more, values]"),
              HasSubstr("keys have a dimension that queries lack"));
  EXPECT_THAT(with(q, k, "[batch, keys, more, values]", out),
              HasSubstr("values have a dimension that the output lacks"));
  EXPECT_THAT(with(q, k, v, "[batch, tokens, more, values]"),
              HasSubstr("the output has a dimension that neither queries nor values have"));
  EXPECT_THAT(with(q, "[keys, width]", "[keys, values]", "[tokens, values]"),
              HasSubstr("queries have a dimension that the output lacks"));
}

// Legality in the paper's sense: two dimensions of one tensor on one mesh dimension, and a size
// that does not divide.
TEST(NetworkFiles, IllegalLayoutsAreSaidInWords) {
  EXPECT_THAT(refusal(file(kTensors, kOperations, "batch:n,hidden:n")),
              HasSubstr("layer one: h[batch, hidden]: dimensions batch and hidden are both on mesh "
                        "dimension n"));
  EXPECT_THAT(refusal(file(kTensors, kOperations, "io:n")),
              HasSubstr("dimension io of size 6 does not divide by the 4 of mesh dimension n"));
  EXPECT_THAT(refusal(file(kTensors, kOperations, "width:n")),
              HasSubstr("no dimension is called width; there are batch, io, hidden"));
}

// Attention needs all keys on each processor, and says so.
TEST(NetworkFiles, ADimensionThatIsNeededWhole) {
  Model model =
      load_model(std::filesystem::path(WEIR_SOURCE_DIR) / "tools/examples/models/gpt2-mini.json");
  set_attention(model, AttentionKind::fused);
  const layout::Network network = layout::model_network(model, {.seq_length = 128});
  layout::NetworkLayout layout{"keys", {{"m", "m", 2}}, {}};
  for (const auto& dimension : network.dimensions)
    layout.over.push_back(dimension.name == "keys" ? 1 : 0);
  EXPECT_THAT(illegal(network, layout).value_or(""),
              HasSubstr("each processor needs all of dimension keys"));
}

}  // namespace
}  // namespace weir::network_test
