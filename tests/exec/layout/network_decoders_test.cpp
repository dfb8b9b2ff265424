// Decoders run on cores under layouts: attention as products and as one kernel, rotary positions,
// heads that share keys, and mixtures of experts, as plan/layout/model_network writes them, under
// every legal layout of two processors and many of four.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "exec/cpu/layout/kernels/network_attention.hpp"
#include "exec/cpu/layout/network_board.hpp"
#include "exec/cpu/layout/network_difference.hpp"
#include "exec/cpu/layout/network_numbers.hpp"
#include "exec/cpu/layout/network_plan.hpp"
#include "exec/cpu/layout/network_processor.hpp"
#include "exec/cpu/layout/network_routes.hpp"
#include "plan/layout/model_network.hpp"
#include "plan/layout/network_text.hpp"
#include "plan/model/hugging_face/hugging_face.hpp"
#include "plan/words/indexed.hpp"
#include "tests/exec/layout/double_network.hpp"
#include "tests/exec/layout/held_networks.hpp"
#include "tests/plan/written_network.hpp"

namespace weir::network_decoders_test {
namespace {

using cpu::NetworkRun;
using cpu::Workers;
using held_networks::hold;
using held_networks::kTolerance;
using layout::Axes;
using layout::Network;
using layout::NetworkLayout;
using testing::HasSubstr;

struct Kind {
  const char* more;
  AttentionKind attention = AttentionKind::unfused;
  bool experts_apart = false;
  bool shards = false;
};

// Two layers of 16 numbers a token, four tokens, four sequences.
Network decoder(const Kind& kind) {
  const std::string sizes = R"({"hidden_size":16,"num_attention_heads":4,"num_hidden_layers":2,
    "intermediate_size":8,"max_position_embeddings":8,"vocab_size":8,"n_embd":16,"n_head":4,
    "n_layer":2,"n_positions":8,)";
  Model model = hugging_face_model(parse_json(sizes + kind.more + "}", "config.json"), "decoder");
  set_attention(model, kind.attention);
  return layout::model_network(
      model,
      {.seq_length = 4, .batch = 4, .experts_apart = kind.experts_apart, .shards = kind.shards});
}

const char* const kLlama = R"("model_type":"llama","num_key_value_heads":2)";
const char* const kGpt2 = R"("model_type":"gpt2")";
const char* const kMixtral = R"("model_type":"mixtral","num_key_value_heads":2,
  "num_local_experts":4,"num_experts_per_tok":2)";

TEST(Decoders, EveryLegalLayoutGivesTheUnsplitNumbers) {
  const Kind kinds[] = {
      {kLlama},
      {kLlama, AttentionKind::fused},
      {kLlama, AttentionKind::fused, false, true},
      {kGpt2, AttentionKind::fused},
      {R"("model_type":"phi")", AttentionKind::fused},
      {R"("model_type":"qwen3","num_key_value_heads":2,"head_dim":4)", AttentionKind::fused}};
  for (const Kind& kind : kinds) {
    const Network network = decoder(kind);
    SCOPED_TRACE(kind.more);
    EXPECT_GT(hold(network, {2}, kTolerance, 6), 15);
    EXPECT_GT(hold(network, {2, 2}, kTolerance, 3), 300);
  }
}

TEST(Decoders, WithExpertsToo) {
  for (const bool apart : {false, true}) {
    const Network network = decoder({kMixtral, AttentionKind::fused, apart});
    SCOPED_TRACE(apart);
    EXPECT_GT(hold(network, {2}, kTolerance, 12), 100);
    EXPECT_GT(hold(network, {2, 2}, kTolerance, 6), 5000);
  }
}

// Twelve visits of three experts, as drawn in network_routes.hpp; back and forth.
TEST(Routes, AreEven) {
  const std::int64_t experts[] = {0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2};
  for (std::int64_t visit = 0; visit < 12; ++visit) {
    EXPECT_EQ(cpu::expert_of(visit, 3), experts[visit]);
    EXPECT_EQ(cpu::visit_of(experts[visit], visit / 3, 3), visit);
  }
  // A token's visits are of different experts, also where it has the last of one slot and the first
  // of the next.
  for (const auto& [choices, of] : {std::pair{2, 5}, {3, 4}, {4, 4}, {3, 7}}) {
    for (std::int64_t token = 0; token < 50; ++token) {
      std::set<std::int64_t> visited;
      for (int j = 0; j < choices; ++j) visited.insert(cpu::expert_of(token * choices + j, of));
      EXPECT_EQ(visited.size(), static_cast<std::size_t>(choices)) << choices << " of " << of;
    }
  }
}

// A layer of experts by hand: eight tokens of one number x, two experts, one visit each. Token t
// goes to expert (t + t / 2) mod 2 and is multiplied by its weight; the answer comes home to t.
TEST(Experts, ByHand) {
  Network network{"experts",
                  {{"tokens", "t", 8},
                   {"choices", "c", 2},
                   {"visit", "v", 1},
                   {"experts", "E", 2},
                   {"slots", "sl", 4},
                   {"one", "o", 1}},
                  {}};
  add_layer(network, "table", {"weight table[tokens, one]", "same[tokens, one]", "x[tokens, one]"},
            {"same = move(table)", "x = relu(same)"});
  add_layer(network, "mixture",
            {"x[tokens, one]", "weight router[one, choices]", "scores[tokens, choices]",
             "shares[tokens, choices]", "chosen[tokens, visit]", "visits[experts, slots, one]",
             "weight w[experts, one]", "z[experts, slots, one]", "answers[tokens, visit, one]",
             "y[tokens, one]"},
            {"scores = x router", "shares = softmax(scores) over choices",
             "chosen = choose(shares) over choices", "visits = route(x)", "z = weigh(visits w)",
             "answers = back(z)", "y = weigh(chosen answers)"});
  Workers one(1), both(2);
  const std::vector<Axes> nowhere(6, 0);
  NetworkRun whole(network, {"", {}, nowhere}, one, 3);
  // Tokens and experts over two processors: half of the visits cross.
  NetworkRun split(network, {"", {{"e", "e", 2}}, {1, 0, 0, 1, 0, 0}}, both, 3);
  static_cast<void>(whole.step());
  static_cast<void>(split.step());
  const auto& values = whole.nodes(0)[1].values;
  const auto number = [&](int tensor, std::int64_t i) {
    return values[static_cast<std::size_t>(tensor)][0][static_cast<std::size_t>(i)];
  };
  for (std::int64_t t = 0; t < 8; ++t) {
    const std::int64_t expert = (t + t / 2) % 2;
    EXPECT_EQ(number(5, expert * 4 + t / 2), number(0, t)) << "token " << t;
    EXPECT_EQ(number(8, t), number(0, t) * number(6, expert));
    EXPECT_EQ(number(4, t), number(3, t * 2 + expert));
    EXPECT_EQ(number(9, t), number(4, t) * number(8, t));
  }
  // With y's gradient g: w of an expert gets chosen x g of each of its tokens. A token's answer has
  // the gradient chosen g, its share x w g, of which with shares p, 1 - p of two choices the score
  // of the chosen one gets p (1 - p), the other its negative. The router's get these times x, and x
  // gets them times the router beside chosen w g. x is relu(table).
  const auto& gradients = whole.nodes(0)[1].gradients;
  const auto gradient = [&](std::size_t node, std::size_t tensor, std::int64_t i) {
    return double{whole.nodes(0)[node].gradients[tensor][0].all.front().numbers[at(i)]};
  };
  double of_w[2] = {}, of_router[2] = {};
  for (std::int64_t t = 0; t < 8; ++t) {
    const std::int64_t expert = (t + t / 2) % 2;
    const double x = number(0, t), w = number(6, expert), p = number(4, t),
                 g = gradients[9][0].all.front().numbers[at(t)];
    of_w[expert] += p * x * g;
    const double score = x * w * g * p * (1 - p);  // of the chosen one
    of_router[expert] += x * score;
    of_router[1 - expert] -= x * score;
    const double of_x = p * w * g + score * (number(1, expert) - number(1, 1 - expert));
    const double table = whole.nodes(0)[0].values[0][0][at(t)];
    EXPECT_NEAR(gradient(0, 0, t), table > 0 ? of_x : 0, 1e-6) << "token " << t;
  }
  for (std::int64_t i = 0; i < 2; ++i) {
    EXPECT_NEAR(gradient(1, 6, i), of_w[i], 1e-6) << "expert " << i;
    EXPECT_NEAR(gradient(1, 1, i), of_router[i], 1e-6) << "choice " << i;
  }
  const cpu::NetworkDifference difference = split.difference(whole);
  EXPECT_EQ(difference.in_order, 0);
  EXPECT_LE(difference.reordered, kTolerance);
  // Of a processor's four visits two cross: there, home, and twice again backwards; the router's
  // two gradients are all-reduced once, from the other's half and back.
  EXPECT_EQ(split.counts()[0].exchanged_elements + split.counts()[1].exchanged_elements,
            2 * (4 * 2) + 2 * 2);
}

// Against central differences of a forward in double, which shares no code with the run: of
// attention in one kernel with shared keys, of rotary positions, and of a mixture.
TEST(Decoders, GradientsAreCentralDifferences) {
  for (const Kind& kind : {Kind{kLlama, AttentionKind::fused}, Kind{kGpt2, AttentionKind::unfused},
                           Kind{kMixtral, AttentionKind::fused, true}}) {
    SCOPED_TRACE(kind.more);
    EXPECT_GT(double_network::hold_gradients(decoder(kind)), 15);
  }
}

// What the run's comparison is worth: a gradient that is wrong by a tenth of its largest number is
// seen as such, also where processors have a part of it each, whose new weights it hardly moves.
TEST(Differences, OfSharedGradientsAreTheGradients) {
  Network network{"one", {{"batch", "b", 4}, {"io", "i", 8}, {"out", "o", 8}}, {}};
  add_layer(network, "layer", {"x[batch, io]", "weight w[io, out]", "y[batch, out]"}, {"y = x w"});
  NetworkLayout layout{"", {{"d", "d", 2}}, {1, 0, 0}};
  layout.optimizer = 1;
  Workers one(1), both(2);
  NetworkRun whole(network, {"", {}, {0, 0, 0}}, one, 3);
  static_cast<void>(whole.step());
  cpu::ThreadBoard board(network, layout, both);
  const cpu::NetworkPlan plan = cpu::network_plan(network, layout);
  std::vector<std::unique_ptr<cpu::NetworkProcessor>> made(2);
  both.run([&](int worker) {
    auto& mine = made[at(worker)];
    mine = std::make_unique<cpu::NetworkProcessor>(network, layout, plan, board, worker, 3);
    mine->step();
  });
  const std::vector<const cpu::NetworkProcessor*> all{made[0].get(), made[1].get()};
  std::vector<cpu::NodeBlocks> truth = whole.nodes(0);
  EXPECT_EQ(cpu::together({tensors_apart(network, layout, plan, all, truth)}).reordered, 0);
  std::vector<float>& gradient = truth[0].gradients[1][0].all.front().numbers;
  float largest = 0;
  for (const float number : gradient) largest = std::max(largest, std::abs(number));
  // Of each processor's part one.
  for (const std::size_t wrong : {std::size_t{3}, std::size_t{60}}) {
    std::vector<cpu::NodeBlocks> other = truth;
    other[0].gradients[1][0].all.front().numbers[wrong] +=
        gradient[wrong] > 0 ? -largest / 10 : largest / 10;
    const double apart =
        cpu::together({tensors_apart(network, layout, plan, all, other)}).reordered;
    EXPECT_NEAR(apart, 0.1, 0.02);
  }
}

// Visits are numbered as their tokens are: what is chosen in another order would be the share of
// another expert.
TEST(Experts, WhatIsNumberedOtherwiseIsRefused) {
  const auto why = [](const char* chosen, std::int64_t choices, const char* answers) {
    Network network{"experts",
                    {{"batch", "b", 2},
                     {"tokens", "t", 4},
                     {"choices", "c", choices},
                     {"visit", "v", 2},
                     {"experts", "E", 2},
                     {"slots", "sl", 8},
                     {"width", "w", 2}},
                    {}};
    add_layer(network, "mixture",
              {"x[batch, tokens, width]", "weight router[width, choices]",
               "scores[batch, tokens, choices]", chosen, "visits[experts, slots, width]",
               "weight w[experts, width]", "z[experts, slots, width]", answers,
               "y[batch, tokens, width]"},
              {"scores = x router", "chosen = choose(scores) over choices", "visits = route(x)",
               "z = weigh(visits w)", "answers = back(z)", "y = weigh(chosen answers)"});
    return cpu::not_run(network, {"", {}, std::vector<Axes>(7, 0)}).value_or("");
  };
  const char *chosen = "chosen[batch, tokens, visit]",
             *answers = "answers[batch, tokens, visit, width]";
  EXPECT_EQ(why(chosen, 2, answers), "");
  EXPECT_THAT(why("chosen[visit, batch, tokens]", 2, answers),
              HasSubstr("what is chosen is not in the order of the visits that come back"));
  EXPECT_THAT(why(chosen, 4, answers), HasSubstr("another number than there are experts"));
  EXPECT_THAT(why("chosen[tokens, batch, visit]", 2, "answers[tokens, batch, visit, width]"),
              HasSubstr("its tokens are not in the order of those that come back"));
}

// Two positions of one pair: at 0 nothing turns, at 1 by one radian; backwards it turns home.
TEST(Turned, ByHand) {
  const cpu::BlockShape shape({0, 1}, {2, 2});
  std::vector<float> x{1, 2, 3, 4}, y(4, 0.0F), back(4, 0.0F);
  const cpu::HeadTurn turn{.positions = 0, .pairs = 1, .width = 2};
  add_turned(turn, cpu::Turning::forwards, {&shape, x.data()}, {&shape, y.data()});
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 2);
  EXPECT_NEAR(y[2], 3 * std::cos(1.0) - 4 * std::sin(1.0), 1e-6);
  EXPECT_NEAR(y[3], 3 * std::sin(1.0) + 4 * std::cos(1.0), 1e-6);
  add_turned(turn, cpu::Turning::backwards, {&shape, y.data()}, {&shape, back.data()});
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(back[i], x[i], 1e-6);
}

}  // namespace
}  // namespace weir::network_decoders_test
