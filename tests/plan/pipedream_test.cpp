// PipeDream graphs: cuts at articulation points and at narrow places, by hand on small graphs;
// refusals that name the line; and PipeDream's own profiles, where they are.
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "plan/model/readers/model_import.hpp"
#include "plan/model/readers/pipedream_graph.hpp"
#include "plan/words/error.hpp"
#include "tests/plan/complaint.hpp"
#include "tests/plan/samples.hpp"

namespace weir::pipedream_test {
namespace {

using testing::HasSubstr;

// A node of the given kind: 1 ms forward and 2 ms backward unless said otherwise.
std::string node(int number, const std::string& what, int bytes, int parameters = 0,
                 double forward_ms = 1) {
  return fmt::format(
      "node{} -- {} -- forward_compute_time={:.3f}, backward_compute_time={:.3f}, "
      "activation_size={}.0, "
      "parameter_size={}.000\n",
      number, what, forward_ms, 2 * forward_ms, bytes, parameters);
}
std::string edge(int from, int to) { return fmt::format("\tnode{} -- node{}\n", from, to); }
const TimedShape& timed(const Model& model, std::size_t layer) {
  return std::get<TimedShape>(model.layers[layer].shape);
}
Model parsed(const std::string& text) { return pipedream_model(text, "graph.txt"); }

std::vector<std::string> names(const Model& model) {
  std::vector<std::string> result;
  for (const Layer& layer : model.layers) result.push_back(layer.name);
  return result;
}

//   1 input > 2 > 3 > 4 > 6 > 7
//                 \___ 5 __/
//
// The input is data; 2, 6 and 7 stand alone, and 3 to 5 lie between the articulation points 2 and
// 6: one layer, for it takes less than a sixteenth of the time. Lines may come in any order. Node 4
// rewrites node 3's memory.
TEST(Pipedream, CutsAtArticulationPoints) {
  const std::string text = node(7, "Linear(4)", 7, 0, 97) + node(1, "Input0", 1000, 0, 500) +
                           node(2, "Conv2d(3, 4)", 20, 40) + node(3, "BatchNorm2d(4)", 30, 8) +
                           node(4, "ReLU(inplace)", 30) + node(6, "Add", 60) +
                           node(5, "Conv2d(4, 4)", 50, 16) + edge(1, 2) + edge(2, 3) + edge(3, 4) +
                           edge(4, 6) + edge(2, 5) + edge(5, 6) + edge(6, 7);
  const Model model = parsed(text);
  EXPECT_THAT(names(model), testing::ElementsAre("node2", "node3-6", "node7"));
  EXPECT_TRUE(model.skips.empty());
  EXPECT_EQ(kind_name(model.layers[0]), "Conv2d");
  EXPECT_EQ(timed(model, 0).boundary, Bytes(20)) << "once, though two read it";
  EXPECT_DOUBLE_EQ(timed(model, 1).forward.count(), 4e-3);
  EXPECT_DOUBLE_EQ(timed(model, 1).backward_input.count(), 6e-3)
      << "1 + 2 + 1 + 2 ms: halved where parameters are";
  EXPECT_DOUBLE_EQ(timed(model, 1).backward_weight.count(), 2e-3);
  EXPECT_EQ(timed(model, 1).parameters, 6);
  EXPECT_EQ(timed(model, 1).activation, Bytes(30 + 50 + 60)) << "not node 4's";
  EXPECT_EQ(timed(model, 1).boundary, Bytes(60));
  EXPECT_EQ(timed(model, 2).boundary, Bytes(0));
}

// What a sample and its times are is said. The head of 10 classes gives 64 rows of 40 bytes; rows
// of an LSTM may be tokens.
TEST(Pipedream, SaysWhatASampleIs) {
  const std::string head = node(3, "Linear(in_features=4, out_features=10, bias=True)", 2560, 200);
  EXPECT_THAT(parsed(node(2, "Conv2d(3, 4)", 20, 40) + head + edge(2, 3)).remarks,
              testing::ElementsAre(HasSubstr("one of its mini-batches (of 64 samples, by its last "
                                             "linear layer), and times are those of the GPU")));
  EXPECT_THAT(parsed(node(2, "LSTM(3, 4)", 20, 40) + head + edge(2, 3)).remarks,
              testing::ElementsAre(HasSubstr("(whose size the file does not tell)")));
}

// All nodes take as long: 3 to 6 are 12 of 18 ms, and two tensors cross at each place inside. Node
// 2's output is read by node 5, two layers on; node 4's by node 6, two layers on.
TEST(Pipedream, CutsALongPieceWhereFewestTensorsCross) {
  const std::string text = node(2, "Conv2d", 20) + node(3, "BatchNorm2d", 30) +
                           node(4, "ReLU", 40) + node(5, "Conv2d", 50) + node(6, "Add", 60) +
                           node(7, "Linear", 7) + edge(2, 3) + edge(3, 4) + edge(4, 6) +
                           edge(2, 5) + edge(5, 6) + edge(6, 7);
  const Model model = parsed(text);
  EXPECT_THAT(names(model),
              testing::ElementsAre("node2", "node3", "node4", "node5", "node6", "node7"));
  ASSERT_EQ(model.skips.size(), 2U);
  EXPECT_EQ(model.skips[0].from, 0);
  EXPECT_EQ(model.skips[0].to, 3);
  EXPECT_EQ(model.skips[0].bytes, Bytes(20));
  EXPECT_EQ(model.skips[1].from, 2);
  EXPECT_EQ(model.skips[1].to, 4);
  EXPECT_EQ(model.skips[1].bytes, Bytes(40));
}

// An LSTM gives three tensors; stage_id is PipeDream's own partition, which is not ours.
TEST(Pipedream, ReadsListsAndStages) {
  const Model model = parsed(
      "node1 -- LSTM(8, 8) -- forward_compute_time=1.0, backward_compute_time=2.0, "
      "activation_size=[64.0; 8.0; 8.0], "
      "parameter_size=0.000 -- stage_id=0\r\n" +
      node(2, "__getitem__(0)", 64) + edge(1, 2));
  EXPECT_EQ(timed(model, 0).boundary, Bytes(80));
}

std::string refusal(const std::string& text) {
  return complaint([&] { static_cast<void>(parsed(text)); });
}

TEST(Pipedream, RefusalsNameTheLine) {
  const std::string good = node(1, "Conv2d", 8) + node(2, "ReLU", 8);
  EXPECT_THAT(refusal(""), HasSubstr("graph.txt: expected at least one node"));
  EXPECT_THAT(refusal("hello\n"), HasSubstr("graph.txt: line 1: expected \"node\""));
  EXPECT_THAT(refusal(good + edge(1, 3)), HasSubstr("graph.txt: line 3: there is no node3"));
  EXPECT_THAT(refusal(good + node(3, "Input0", 0) + edge(1, 3)),
              HasSubstr("graph.txt: line 4: node3 is an input: nothing leads to it"));
  EXPECT_THAT(refusal(good + node(2, "ReLU", 8)),
              HasSubstr("graph.txt: line 3: node2 is there twice"));
  EXPECT_THAT(refusal(good + edge(1, 2) + edge(2, 1)),
              HasSubstr("graph.txt: node1: lies on a cycle"));
  EXPECT_THAT(refusal("node1 -- ReLU -- forward_compute_time=-1, backward_compute_time=0"),
              HasSubstr("line 1: forward_compute_time: expected a number of at least 0"));
  EXPECT_THAT(refusal("node1 -- ReLU -- forward_compute_time=1.0\n"),
              HasSubstr("line 1: expected \", backward_compute_time=\""));
  EXPECT_THAT(refusal(good + "\tnode1 -- node2 -- node3\n"),
              HasSubstr("line 3: \" -- node3\": expected the end"));
}

struct Profile {
  const char* name;
  double forward_ms, backward_ms;
  std::int64_t parameters;
};

// Totals without the inputs' loading times. VGG-16 and ResNet-50 have their known parameters, their
// buffers included where the profiler counted them. No layer of more than one operator takes over a
// sixteenth.
TEST(Pipedream, ItsOwnProfilesAreRead) {
  const auto folder = sample_folder("profiles/pipedream");
  if (!folder) GTEST_SKIP() << "no sample files";
  constexpr std::array<Profile, 3> kProfiles{{{"vgg16.txt", 233.9, 438.6, 138'357'544},
                                              {"resnet50.txt", 182.5, 260.9, 25'557'032},
                                              {"gnmt.txt", 33.5, 55.9, 193'765'952}}};
  for (const Profile& profile : kProfiles) {
    const Model model = load_model(*folder / profile.name);
    TimedShape sum;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      sum.forward += timed(model, l).forward;
      sum.backward_input += timed(model, l).backward_input + timed(model, l).backward_weight;
    }
    EXPECT_NEAR(sum.forward.count() * 1e3, profile.forward_ms, 0.05) << profile.name;
    EXPECT_NEAR(sum.backward_input.count() * 1e3, profile.backward_ms, 0.05) << profile.name;
    EXPECT_EQ(parameter_count(model), profile.parameters) << profile.name;
  }
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    const Model model = load_model(entry.path());
    EXPECT_GE(model.layers.size(), 16U) << entry.path();
    double total = 0, longest = 0;
    for (std::size_t l = 0; l < model.layers.size(); ++l) {
      const TimedShape& layer = timed(model, l);
      const double time = (layer.forward + layer.backward_input + layer.backward_weight).count();
      total += time;
      if (model.layers[l].name.find('-') != std::string::npos) longest = std::max(longest, time);
    }
    EXPECT_LE(longest, total / 16 * 1.0001) << entry.path();
    for (const Skip& skip : model.skips) EXPECT_GT(skip.to, skip.from + 1) << entry.path();
  }
}

}  // namespace
}  // namespace weir::pipedream_test
